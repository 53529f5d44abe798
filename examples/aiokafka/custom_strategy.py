"""A consumer with a strategy of your own (../by_capacity.py); only the line with `assignor` differs.

    $ CAPACITY=4 python -m examples.aiokafka.custom_strategy --topic orders --group billing

All members of the group need the strategy: change over as cooperative.py does.
"""

from __future__ import annotations

import asyncio
import os

from aiokafka import AIOKafkaConsumer

from examples.aiokafka.plain import consume
from examples.by_capacity import ByCapacity
from examples.command_line import parser, start_logging
from kafka_assignors_aiokafka import assignor


async def main() -> None:
    options = parser(__doc__).parse_args()
    strategy = ByCapacity(int(os.environ.get("CAPACITY", "1")))
    consumer = AIOKafkaConsumer(
        bootstrap_servers=options.bootstrap_server,
        group_id=options.group,
        partition_assignment_strategy=[assignor(strategy)],
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        rebalance_timeout_ms=60_000,
    )
    await consume(consumer, options.topic)


if __name__ == "__main__":
    start_logging()
    asyncio.run(main())
