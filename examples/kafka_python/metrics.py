"""A cooperative consumer that measures its rebalances, in kafka-python's own metrics and with an observer.

    $ python -m examples.kafka_python.metrics --bootstrap-server localhost:9092 --topic orders --group billing

Start it twice, and stop one: each member logs its rebalances, and once a second the metrics of its
coordinator, which have the names and units of Java's.
"""

from __future__ import annotations

import logging
import threading

from examples.command_line import parser, start_logging
from examples.kafka_python.plain import consume
from examples.rebalance_log import RebalanceLog
from kafka_assignors_kafka_python import CooperativeKafkaConsumer

log = logging.getLogger("examples.kafka_python")

PERIOD_S = 1.0
SHOWN = ("rebalance-total", "failed-rebalance-total", "rebalance-latency-avg", "assigned-partitions")


def show_metrics(consumer: CooperativeKafkaConsumer, stopped: threading.Event) -> None:
    """Log the metrics until `stopped` is set. Any thread may read them."""
    while not stopped.wait(PERIOD_S):
        metrics = consumer.metrics().get("consumer-coordinator-metrics")
        if metrics:  # a closed consumer has none
            log.info("metrics: %s", ", ".join(f"{name} {metrics[name]:g}" for name in SHOWN))


def main() -> None:
    options = parser(__doc__).parse_args()
    consumer = CooperativeKafkaConsumer(
        bootstrap_servers=options.bootstrap_server,
        group_id=options.group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        observer=RebalanceLog(log),
    )
    stopped = threading.Event()
    threading.Thread(target=show_metrics, args=(consumer, stopped), daemon=True).start()
    try:
        consume(consumer, options.topic)
    finally:
        stopped.set()


if __name__ == "__main__":
    start_logging()
    main()
