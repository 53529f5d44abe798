"""From kafka-python's own assignor to ours, without stopping the group: roll the configuration out twice.

    $ python -m examples.kafka_python.rolling_upgrade --step 0      # where you are: the stock assignor
    $ python -m examples.kafka_python.rolling_upgrade --step 1      # ours beside it
    $ python -m examples.kafka_python.rolling_upgrade --step 2      # ours alone

The broker lets a member in only if the group can still agree on a strategy that every member has, and then
takes the one that most of them put first.

Step 1. Members that have only the stock assignor are still there, so the group runs it: nothing changes while
    versions mix. With the last of them gone the group runs ours. Watch that no member logs
    InconsistentGroupProtocolError, and at the end that the group's strategy is `sticky`
    (kafka-assignors groups describe GROUP). To go back, roll step 0 out.
Step 2. Only when all members have step 1: a member at step 0 and one at step 2 have nothing in common, and
    whichever comes second is refused. To go back, roll step 1 out, then step 0.

kafka-python sends the whole list in one JoinGroup, so that step 1 costs no more rebalances than any other.
"""

from __future__ import annotations

from kafka import KafkaConsumer
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from examples.command_line import parser, start_logging
from examples.kafka_python.plain import consume
from kafka_assignors_kafka_python import StickyAssignor

STEPS = (
    # kafka-python's default. Its own assignors are passed as classes, ours as instances; a list may mix both.
    [RangePartitionAssignor, RoundRobinPartitionAssignor],
    [StickyAssignor(), RangePartitionAssignor, RoundRobinPartitionAssignor],
    [StickyAssignor()],
)


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--step", type=int, choices=range(len(STEPS)), required=True)
    options = arguments.parse_args()
    consumer = KafkaConsumer(
        bootstrap_servers=options.bootstrap_server,
        group_id=options.group,
        partition_assignment_strategy=STEPS[options.step],
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    # If a leader with a stock assignor does not know its topic yet, it assigns nothing and joins again; if a
    # poll ends in between, it stops for good. So it has to know the topic before the first poll.
    consumer.subscribe([options.topic])
    consumer.partitions_for_topic(options.topic)
    consume(consumer, options.topic)


if __name__ == "__main__":
    start_logging()
    main()
