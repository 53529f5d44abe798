"""A cooperative consumer that measures its rebalances: what each cost, and why it began.

    $ python -m examples.aiokafka.metrics --bootstrap-server localhost:9092 --topic orders --group billing

Start it twice, and stop one: each member logs its rebalances, and how many there were so far.
"""

from __future__ import annotations

import asyncio
import logging

from examples.aiokafka.plain import consume
from examples.command_line import parser, start_logging
from examples.rebalance_log import RebalanceLog
from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer

log = logging.getLogger("examples.aiokafka")


async def main() -> None:
    options = parser(__doc__).parse_args()
    consumer = CooperativeAIOKafkaConsumer(
        bootstrap_servers=options.bootstrap_server,
        group_id=options.group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        observer=RebalanceLog(log),
    )
    await consume(consumer, options.topic)


if __name__ == "__main__":
    start_logging()
    asyncio.run(main())
