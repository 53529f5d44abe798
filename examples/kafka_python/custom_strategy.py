"""A consumer with a strategy of your own (../by_capacity.py); only the line with `assignor` differs.

    $ CAPACITY=4 python -m examples.kafka_python.custom_strategy --topic orders --group billing

All members of the group need the strategy: change over as rolling_upgrade.py does.
"""

from __future__ import annotations

import os

from kafka import KafkaConsumer

from examples.by_capacity import ByCapacity
from examples.command_line import parser, start_logging
from examples.kafka_python.plain import consume
from kafka_assignors_kafka_python import assignor


def main() -> None:
    options = parser(__doc__).parse_args()
    strategy = ByCapacity(int(os.environ.get("CAPACITY", "1")))
    consumer = KafkaConsumer(
        bootstrap_servers=options.bootstrap_server,
        group_id=options.group,
        partition_assignment_strategy=[assignor(strategy)],
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    consume(consumer, options.topic)


if __name__ == "__main__":
    start_logging()
    main()
