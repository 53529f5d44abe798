"""A cooperative consumer whose group evens out its loads: the leader asks for a rebalance when that pays.

    $ python -m examples.kafka_python.load --bootstrap-server localhost:9092 --topic orders --group billing

Start it in several terminals and write more to some partitions than to others. A new leader acts after an
hour (docs/load.md has the settings); with --soon it acts after half a minute, to try it.
"""

from __future__ import annotations

from examples.command_line import parser, start_logging
from examples.kafka_python.plain import consume
from kafka_assignors_kafka_python import CooperativeKafkaConsumer, LoadTrigger, RateWeights, WeightedAssignor

SOON = LoadTrigger(check_every_s=2, held_s=10, cool_down_s=10, undo_after_s=20, rebalances_an_hour=180)


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--soon", action="store_true", help="act after half a minute")
    options = arguments.parse_args()
    weights = RateWeights(options.group, bootstrap_servers=options.bootstrap_server)
    trigger = SOON if options.soon else LoadTrigger()
    consumer = CooperativeKafkaConsumer(
        bootstrap_servers=options.bootstrap_server,
        group_id=options.group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        partition_assignment_strategy=[WeightedAssignor(weights, rebalance=trigger)],
    )
    consume(consumer, options.topic)


if __name__ == "__main__":
    start_logging()
    main()
