"""A static member: a pod that is replaced within the session timeout causes no rebalance.

    $ POD_NAME=billing-0 python -m examples.kafka_python.static_membership --topic orders --group billing

The name of a StatefulSet's pod stays the same when the pod is replaced (../kubernetes/statefulset.yaml). The
names of a Deployment's pods, which come from a ReplicaSet, do not: every replacement would be a new member
beside the old one, which keeps its partitions until its session ends. Use no instance id there.

It takes kafka-python 2.3 or newer; older ones do not know `group_instance_id`.
"""

from __future__ import annotations

import os
import sys

from kafka import KafkaConsumer

from examples.command_line import parser, start_logging
from examples.kafka_python.plain import consume
from kafka_assignors_kafka_python import StickyAssignor


def main() -> None:
    options = parser(__doc__).parse_args()
    pod = os.environ.get("POD_NAME")
    if not pod:
        sys.exit("POD_NAME is not set: give each process its own name, which outlives a restart")
    consumer = KafkaConsumer(
        bootstrap_servers=options.bootstrap_server,
        group_id=options.group,
        group_instance_id=pod,
        partition_assignment_strategy=[StickyAssignor()],
        # The time that replacing a pod takes. If a pod does not come back, its partitions wait this long.
        session_timeout_ms=60_000,
        heartbeat_interval_ms=3_000,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    consume(consumer, options.topic)


if __name__ == "__main__":
    start_logging()
    main()
