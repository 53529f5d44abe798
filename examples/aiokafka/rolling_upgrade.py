"""From aiokafka's own assignor to ours, without stopping the group: roll the configuration out twice.

    $ python -m examples.aiokafka.rolling_upgrade --step 0      # where you are: the stock assignor
    $ python -m examples.aiokafka.rolling_upgrade --step 1      # ours beside it
    $ python -m examples.aiokafka.rolling_upgrade --step 2      # ours alone

The broker lets a member in only if the group can still agree on a strategy that every member has, and then
takes the one that most of them put first.

Step 1. Members that have only the stock assignor are still there, so the group runs it: nothing changes while
    versions mix. With the last of them gone the group runs ours. Watch that no member logs
    InconsistentGroupProtocolError, and at the end that the group's strategy is `sticky`
    (kafka-assignors groups describe GROUP). To go back, roll step 0 out.
Step 2. Only when all members have step 1: a member at step 0 and one at step 2 have nothing in common, and
    whichever comes second is refused. To go back, roll step 1 out, then step 0.

A list of aiokafka's own assignors costs one JoinGroup, and so one rebalance, for each of them. With an
assignor of kafka-assignors in the list, as here, a member joins once.
"""

from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from examples.aiokafka.plain import consume
from examples.command_line import parser, start_logging
from kafka_assignors_aiokafka import StickyAssignor

STEPS = (
    # aiokafka's default. Its own assignors are passed as classes, ours as instances; a list may mix both.
    [RoundRobinPartitionAssignor],
    [StickyAssignor(), RoundRobinPartitionAssignor],
    [StickyAssignor()],
)


async def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--step", type=int, choices=range(len(STEPS)), required=True)
    options = arguments.parse_args()
    consumer = AIOKafkaConsumer(
        bootstrap_servers=options.bootstrap_server,
        group_id=options.group,
        partition_assignment_strategy=STEPS[options.step],
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        rebalance_timeout_ms=60_000,
    )
    await consume(consumer, options.topic)


if __name__ == "__main__":
    start_logging()
    asyncio.run(main())
