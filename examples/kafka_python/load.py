"""A cooperative consumer that asks for a rebalance when it carries much more than the mean of its group.

    $ python -m examples.kafka_python.load --bootstrap-server localhost:9092 --topic orders --group billing

Start it in several terminals and write more to some partitions than to others. `weighted` reads the weights
in each rebalance, but a change of weights starts none: each member looks at them every --check-every seconds.
"""

from __future__ import annotations

import threading
import time
from argparse import Namespace

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from examples.command_line import parser, start_logging
from examples.kafka_python.plain import consume, log
from examples.uneven import LOOKS, too_much
from kafka_assignors_kafka_python import CooperativeKafkaConsumer, assignor
from kafka_assignors_strategies import Weighted
from kafka_assignors_strategies.for_kafka_python import RateWeights


def ask_when_uneven(consumer: CooperativeKafkaConsumer, weights: RateWeights, options: Namespace) -> None:
    """Runs in a thread of its own: `enforce_rebalance` and `assignment` may be called from any."""
    while True:
        time.sleep(options.check_every)
        owned = [partition.partition for partition in consumer.assignment()]
        if not owned:
            continue
        try:
            partitions = consumer.partitions_for_topic(options.topic)
            given = weights({options.topic: len(partitions)})
            reason = too_much(owned, given[options.topic], members_of(options))
        except KafkaError as error:
            log.warning("the load is not known: %r", error)
            continue
        if reason is not None:
            consumer.enforce_rebalance(reason)
            time.sleep(LOOKS * options.check_every)


def members_of(options: Namespace) -> int:
    admin = KafkaAdminClient(bootstrap_servers=options.bootstrap_server)
    try:
        return len(admin.describe_groups([options.group])[options.group]["members"])
    finally:
        admin.close()


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--check-every", type=float, default=30.0, metavar="SECONDS")
    options = arguments.parse_args()
    weights = RateWeights(options.group, bootstrap_servers=options.bootstrap_server)
    consumer = CooperativeKafkaConsumer(
        bootstrap_servers=options.bootstrap_server,
        group_id=options.group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        partition_assignment_strategy=[assignor(Weighted(), weights=weights)],
    )
    threading.Thread(target=ask_when_uneven, args=(consumer, weights, options), daemon=True).start()
    consume(consumer, options.topic)


if __name__ == "__main__":
    start_logging()
    main()
