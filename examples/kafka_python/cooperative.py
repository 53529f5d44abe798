"""A cooperative consumer: while the group rebalances, only the partitions that move stop.

    $ python -m examples.kafka_python.cooperative             # a new group; start it in several terminals

The same program takes a running group over from kafka-python's own assignors, in two rolling restarts
(docs/migrate.md):

    $ python -m examples.kafka_python.cooperative --step 0    # where you are: the stock consumer
    $ python -m examples.kafka_python.cooperative --step 1    # the new class, both strategies; still eager
    $ python -m examples.kafka_python.cooperative --step 2    # cooperative-sticky alone: cooperative

At step 1 the list has strategies that are not cooperative, so the member is eager and fits into the old
group. Roll step 2 out only when every member has step 1. To go back, roll step 1 out, then step 0.
"""

from __future__ import annotations

from typing import Any

from kafka import KafkaConsumer
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from examples.command_line import parser, start_logging
from examples.kafka_python.plain import consume
from kafka_assignors_kafka_python import (
    CooperativeKafkaConsumer,
    CooperativeStickyAssignor,
    RangeAssignor,
    RoundRobinAssignor,
)


def consumer_of(step: int, **settings: Any) -> KafkaConsumer:
    """The consumer for one step of the migration."""
    if step == 0:
        # These are kafka-python's default.
        stock = [RangePartitionAssignor, RoundRobinPartitionAssignor]
        return KafkaConsumer(partition_assignment_strategy=stock, **settings)
    strategies = [CooperativeStickyAssignor(), RangeAssignor(), RoundRobinAssignor()]
    return CooperativeKafkaConsumer(
        partition_assignment_strategy=strategies if step == 1 else strategies[:1], **settings
    )


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--step", type=int, choices=range(3), default=2)
    options = arguments.parse_args()
    consumer = consumer_of(
        options.step,
        bootstrap_servers=options.bootstrap_server,
        group_id=options.group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    if options.step == 0:
        # If a leader with a stock assignor does not know its topic yet, it assigns nothing and joins again;
        # if a poll ends in between, it stops for good. So it has to know the topic before the first poll.
        consumer.subscribe([options.topic])
        consumer.partitions_for_topic(options.topic)
    consume(consumer, options.topic)


if __name__ == "__main__":
    start_logging()
    main()
