"""A cooperative consumer that asks for a rebalance when it carries much more than the mean of its group.

    $ python -m examples.aiokafka.load --bootstrap-server localhost:9092 --topic orders --group billing

Start it in several terminals and write more to some partitions than to others. `weighted` reads the weights
in each rebalance, but a change of weights starts none: each member looks at them every --check-every seconds.
"""

from __future__ import annotations

import asyncio
from argparse import Namespace

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from examples.aiokafka.plain import consume, log
from examples.command_line import parser, start_logging
from examples.uneven import LOOKS, too_much
from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer, assignor
from kafka_assignors_strategies import Weighted
from kafka_assignors_strategies.for_aiokafka import RateWeights


async def ask_when_uneven(
    consumer: CooperativeAIOKafkaConsumer, weights: RateWeights, options: Namespace
) -> None:
    while True:
        await asyncio.sleep(options.check_every)
        owned = [partition.partition for partition in consumer.assignment()]
        if not owned:
            continue
        try:
            partitions = consumer.partitions_for_topic(options.topic) or set()
            given = await weights({options.topic: len(partitions)})
            reason = too_much(owned, given[options.topic], await members_of(options))
        except KafkaError as error:
            log.warning("the load is not known: %r", error)
            continue
        if reason is not None:
            consumer.enforce_rebalance(reason)
            await asyncio.sleep(LOOKS * options.check_every)


async def members_of(options: Namespace) -> int:
    admin = AIOKafkaAdminClient(bootstrap_servers=options.bootstrap_server)
    try:
        await admin.start()
        (answer,) = await admin.describe_consumer_groups([options.group])
        return len(answer.groups[0][5])  # after error, id, state, type and protocol
    finally:
        await admin.close()


async def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--check-every", type=float, default=30.0, metavar="SECONDS")
    options = arguments.parse_args()
    weights = RateWeights(options.group, bootstrap_servers=options.bootstrap_server)
    consumer = CooperativeAIOKafkaConsumer(
        bootstrap_servers=options.bootstrap_server,
        group_id=options.group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        partition_assignment_strategy=[assignor(Weighted(), weights=weights)],
    )
    asking = asyncio.create_task(ask_when_uneven(consumer, weights, options))
    try:
        await consume(consumer, options.topic)
    finally:
        asking.cancel()


if __name__ == "__main__":
    start_logging()
    asyncio.run(main())
