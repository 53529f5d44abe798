"""A broker for experiments, without Docker: one topic, and a record every 20 ms, until Ctrl-C.

    python -m tools.broker                                     # localhost:9092, topic orders, 12 partitions
    python -m tools.broker --port 19092 --topic payments --partitions 6

The broker is the one that the tests use: Kafka's jars from Maven, and data in a temporary folder that is
removed at the end. `compose.yaml` starts the same with Docker.
"""

from __future__ import annotations

import argparse
import signal
import socket
import sys
import time

from confluent_kafka import Producer

from compat_tests.support.jvm import JvmError
from compat_tests.support.kafka_cluster import RACKS, KafkaCluster, KafkaError, free_ports
from compat_tests.support.member_reports import sigterms

INTERVAL_S = 0.02


def main() -> int:
    """Run until Ctrl-C or SIGTERM, and return the exit code."""
    options = _options()
    stopping = sigterms()
    if _taken(options.port):
        print(
            f"port {options.port} is in use: end what listens there, or take another port "
            "(make broker BROKER_ARGS='--port 19092')",
            file=sys.stderr,
        )
        return 1
    print("starting a broker; the first time Maven fetches Kafka, which takes a minute …", flush=True)
    try:
        with KafkaCluster(ports=lambda count: [options.port, *free_ports(count - 1)]) as kafka:
            kafka.create_topic(options.topic, options.partitions)
            # The producer has to end before its broker, or it complains: from here on Ctrl-C ends its loop.
            signal.signal(signal.SIGINT, signal.getsignal(signal.SIGTERM))
            print(
                f"broker {kafka.bootstrap} in rack {RACKS[0]}, topic {options.topic} with "
                f"{options.partitions} partitions, a record every {INTERVAL_S * 1000:.0f} ms; Ctrl-C ends it",
                flush=True,
            )
            _produce(kafka.bootstrap, options.topic, options.partitions, stopping)
    except KeyboardInterrupt:
        pass
    except (KafkaError, JvmError) as error:
        print(error, file=sys.stderr)
        return 1
    print("stopped")
    return 0


def _taken(port: int) -> bool:
    """Whether a process listens on the port: if it is a broker, the producer would fill its topic."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="A Kafka broker with a topic and a producer, to try things on."
    )
    parser.add_argument("--port", type=int, default=9092)
    parser.add_argument("--topic", default="orders")
    parser.add_argument("--partitions", type=int, default=12)
    return parser.parse_args()


def _produce(bootstrap: str, topic: str, partitions: int, stopping: list[int]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    number = 0
    while not stopping:
        producer.produce(topic, f"order {number}".encode(), partition=number % partitions)
        producer.poll(0)
        number += 1
        time.sleep(INTERVAL_S)
    producer.flush(5)


if __name__ == "__main__":
    sys.exit(main())
