"""A member program (see `compat_tests.support.member_reports`): one Faust worker."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import faust

from compat_tests.support.member_reports import MemberSpec, Reporter
from kafka_assignors_aiokafka.faust import LeastMovesAssignor


def main() -> None:
    spec, reporter = MemberSpec.from_arguments(), Reporter()
    (topic,) = spec.topics
    app = faust.App(
        spec.group,
        broker=f"kafka://{spec.bootstrap}",
        PartitionAssignor=LeastMovesAssignor,
        broker_client_id=spec.name,
        broker_heartbeat_interval=0.3,
        broker_session_timeout=spec.session_timeout_ms / 1000,
        broker_rebalance_timeout=spec.session_timeout_ms / 1000,
        consumer_auto_offset_reset="earliest",
        topic_disable_leader=True,
        web_enabled=False,
        store="memory://",
    )

    @app.agent(app.topic(topic, value_serializer="raw"))
    async def consume(stream: Any) -> None:
        async for event in stream.events():
            message = event.message
            reporter.consumed(message.topic, message.partition, [message.offset])

    @app.on_partitions_assigned.connect
    async def on_assigned(sender: Any, assigned: set[Any], **_: Any) -> None:
        coordinator = app.consumer._thread._consumer._coordinator
        reporter.assigned(coordinator.member_id, coordinator.generation, assigned)

    @app.on_partitions_revoked.connect
    async def on_revoked(sender: Any, revoked: set[Any], **_: Any) -> None:
        reporter.revoked(revoked)

    worker = faust.Worker(app, loop=asyncio.new_event_loop(), loglevel=logging.INFO, override_logging=False)
    worker.execute_from_commandline()


if __name__ == "__main__":
    main()
