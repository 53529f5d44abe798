"""A pod of a Deployment, with `rollout`: canaries have shares, and partitions stay until their pod leaves.

    $ RELEASE=1.7 python -m examples.aiokafka.rollout --topic orders --group billing
    $ RELEASE=1.8 SHARE=0.1 python -m examples.aiokafka.rollout --topic orders --group billing

At SIGTERM it drains: it goes on until the others have taken its partitions over, and leaves.
kubernetes/deployment.yaml runs it.
"""

from __future__ import annotations

import asyncio
import signal

from examples.aiokafka.plain import Worker, log, run
from examples.command_line import parser, release_and_share, start_logging
from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer, assignor
from kafka_assignors_strategies import Rollout

DRAIN_S = 20.0
"""Less than `terminationGracePeriodSeconds`. After that, the member leaves with its remaining partitions."""


async def main() -> None:
    arguments = parser(__doc__)
    options = arguments.parse_args()
    rollout = Rollout(*release_and_share(arguments))
    consumer = CooperativeAIOKafkaConsumer(
        bootstrap_servers=options.bootstrap_server,
        group_id=options.group,
        partition_assignment_strategy=[assignor(rollout)],
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        rebalance_timeout_ms=60_000,
    )
    terminated, drained = asyncio.Event(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, terminated.set)

    async def drain() -> None:
        await terminated.wait()
        await consumer.drain(timeout_ms=DRAIN_S * 1000)
        log.info("drained, %d partitions left", len(consumer.assignment()))
        drained.set()

    worker = Worker(consumer)
    consumer.subscribe([options.topic], listener=worker)
    draining = asyncio.create_task(drain())
    try:
        await run(consumer, worker.run(drained), drained)
    finally:
        draining.cancel()
    log.info("stopped")


if __name__ == "__main__":
    start_logging()
    asyncio.run(main())
