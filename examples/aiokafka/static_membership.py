"""A static member: a pod that is replaced within the session timeout causes no rebalance.

    $ POD_NAME=billing-0 python -m examples.aiokafka.static_membership --topic orders --group billing

The name of a StatefulSet's pod stays the same when the pod is replaced (../kubernetes/statefulset.yaml). The
names of a Deployment's pods, which come from a ReplicaSet, do not: every replacement would be a new member
beside the old one, which keeps its partitions until its session ends. Use no instance id there.
"""

from __future__ import annotations

import asyncio
import os
import sys

from aiokafka import AIOKafkaConsumer

from examples.aiokafka.plain import consume
from examples.command_line import parser, start_logging
from kafka_assignors_aiokafka import StickyAssignor


async def main() -> None:
    options = parser(__doc__).parse_args()
    pod = os.environ.get("POD_NAME")
    if not pod:
        sys.exit("POD_NAME is not set: give each process its own name, which outlives a restart")
    consumer = AIOKafkaConsumer(
        bootstrap_servers=options.bootstrap_server,
        group_id=options.group,
        group_instance_id=pod,
        partition_assignment_strategy=[StickyAssignor()],
        # The time that replacing a pod takes. If a pod does not come back, its partitions wait this long.
        session_timeout_ms=60_000,
        heartbeat_interval_ms=3_000,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        rebalance_timeout_ms=60_000,
    )
    await consume(consumer, options.topic)


if __name__ == "__main__":
    start_logging()
    asyncio.run(main())
