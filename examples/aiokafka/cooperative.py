"""A cooperative consumer: while the group rebalances, only the partitions that move stop.

    $ python -m examples.aiokafka.cooperative                 # a new group; start it in several terminals

The same program takes a running group over from aiokafka's own assignor, in two rolling restarts
(docs/migrate.md):

    $ python -m examples.aiokafka.cooperative --step 0        # where you are: the stock consumer
    $ python -m examples.aiokafka.cooperative --step 1        # the new class, both strategies; still eager
    $ python -m examples.aiokafka.cooperative --step 2        # cooperative-sticky alone: cooperative

At step 1 the list has a strategy that is not cooperative, so the member is eager and fits into the old group.
Roll step 2 out only when every member has step 1. To go back, roll step 1 out, then step 0.
"""

from __future__ import annotations

import asyncio
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from examples.aiokafka.plain import consume
from examples.command_line import parser, start_logging
from kafka_assignors_aiokafka import (
    CooperativeAIOKafkaConsumer,
    CooperativeStickyAssignor,
    RoundRobinAssignor,
)


def consumer_of(step: int, **settings: Any) -> AIOKafkaConsumer:
    """The consumer for one step of the migration."""
    if step == 0:
        # This is aiokafka's default.
        return AIOKafkaConsumer(partition_assignment_strategy=[RoundRobinPartitionAssignor], **settings)
    strategies = [CooperativeStickyAssignor(), RoundRobinAssignor()]
    return CooperativeAIOKafkaConsumer(
        partition_assignment_strategy=strategies if step == 1 else strategies[:1], **settings
    )


async def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--step", type=int, choices=range(3), default=2)
    options = arguments.parse_args()
    consumer = consumer_of(
        options.step,
        bootstrap_servers=options.bootstrap_server,
        group_id=options.group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        rebalance_timeout_ms=60_000,
    )
    await consume(consumer, options.topic)


if __name__ == "__main__":
    start_logging()
    asyncio.run(main())
