"""kafka-python 3. Checked with 3.0.12.

Touched, besides what `coordinator` lists:

    ConsumerCoordinator
        _assignors                  {name: assignor}
        _perform_assignment         members: JoinGroupResponseMember, with member_id, metadata (bytes) and
                                    group_instance_id (None before version 5 of JoinGroup)
        _cluster.set_topics, _topics, need_all_topic_metadata
        _manager                    replaced on the instance, see `Answers`: send, wait_for, call_soon
        coordinator_id              the broker that coordinates the group
    JoinGroupResponse               error_code, leader, member_id, generation_id, protocol_name, members
    ConsumerProtocolAssignment      assigned_partitions
    ClusterMetadata
        brokers()                   node_id, rack
        _partitions                 {topic: {partition: MetadataResponsePartition}}: replaced as a whole
        metadata_refresh_in_progress, request_update
    KafkaConsumer.config            client_rack
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from time import monotonic
from typing import Any

from kafka import KafkaConsumer
from kafka.coordinator.assignors.abstract import (
    RebalanceProtocol,  # pyright: ignore[reportAttributeAccessIssue]  # its stubs are of 2.x
)
from kafka.errors import KafkaError
from kafka.future import Future
from kafka.protocol.consumer import (  # pyright: ignore[reportMissingImports]  # its stubs are of 2.x
    HeartbeatRequest,
    JoinGroupRequest,
)
from kafka.protocol.consumer.metadata import (  # pyright: ignore[reportMissingImports]  # its stubs are of 2.x
    ConsumerProtocolAssignment,
)

from kafka_assignors.assignor import caller_of
from kafka_assignors.group import Topic
from kafka_assignors.leader_bytes import JoinedMember, RackWatch, topics_from
from kafka_assignors_kafka_python._client.interface import GroupLeader, LedGeneration

__all__ = [
    "assignment_of",
    "assignors_of",
    "configured_names",
    "decoded_members",
    "eager_protocols",
    "hold_back_answers",
    "is_called_by_cooperative_consumer",
    "joined_members",
    "keep_heartbeats",
    "partitions_of",
    "rack_of_caller",
    "refresh_metadata",
    "topics_of",
    "watch",
    "watch_all",
    "watch_only",
]


def eager_protocols() -> list[Any]:
    return [RebalanceProtocol.EAGER]


def is_called_by_cooperative_consumer() -> bool:
    return getattr(caller_of(KafkaConsumer), "is_cooperative", False)


def rack_of_caller() -> str | None:
    # The coordinator is not told. But it asks for the protocols of its assignors inside the constructor of
    # the consumer, which is.
    consumer = caller_of(KafkaConsumer)
    return consumer.config.get("client_rack") or None if consumer is not None else None


def assignors_of(coordinator: Any) -> list[Any]:
    return list(coordinator._assignors.values())


def configured_names(coordinator: Any) -> list[str]:
    configured = coordinator.config["assignors"]
    return [one().name if isinstance(one, type) else one.name for one in configured]


def joined_members(members: Any) -> Iterable[JoinedMember]:
    return [
        JoinedMember(member.member_id, member.group_instance_id, bytes(member.metadata)) for member in members
    ]


def decoded_members(members: Any) -> Iterable[JoinedMember]:
    return [
        JoinedMember(member.member_id, member.group_instance_id, member.metadata.encode())
        for member in members
    ]


def partitions_of(assignment: Any) -> Mapping[str, Sequence[int]]:
    return {topic: list(numbers) for topic, numbers in assignment.assigned_partitions}


def assignment_of(assignment: bytes) -> Any:
    return ConsumerProtocolAssignment.decode(assignment)


def watch(coordinator: Any, topics: Iterable[str]) -> None:
    coordinator._cluster.set_topics(topics)


def watch_all(coordinator: Any) -> None:
    coordinator._cluster.need_all_topic_metadata = True
    coordinator._cluster.request_update()


def watch_only(coordinator: Any, topics: Iterable[str]) -> None:
    coordinator._cluster._topics = set(topics)  # `set_topics` does not take any away


def topics_of(cluster: Any, watch: RackWatch, names: Iterable[str]) -> list[Topic]:
    racks = watch.see((broker.node_id, broker.rack) for broker in cluster.brokers())
    return topics_from(cluster._partitions, racks, lambda partition: partition.replica_nodes, names)


async def refresh_metadata(cluster: Any) -> None:
    """Get metadata that were asked for after this call."""
    if cluster.metadata_refresh_in_progress:
        # Asked before the group's topics were known, and what it brings completes the next future.
        await cluster.request_update()
    await cluster.request_update()


def keep_heartbeats(coordinator: Any) -> None:
    """Nothing: here a join that was completed always switches them on."""


def hold_back_answers(coordinator: Any, leadership: GroupLeader) -> None:
    coordinator._manager = Answers(coordinator, leadership)


class Answers:
    """The connection manager, as the coordinator sees it: to a leader, JoinGroup is answered later.

    By then its assignment is ready. All of this runs on kafka-python's I/O thread.
    """

    def __init__(self, coordinator: Any, leadership: GroupLeader) -> None:
        self._coordinator = coordinator
        self._leadership = leadership
        self._manager = coordinator._manager

    def __getattr__(self, name: str) -> Any:
        return getattr(self._manager, name)

    def send(self, request: Any, *arguments: Any, **options: Any) -> Any:
        answer = self._manager.send(request, *arguments, **options)
        if not isinstance(request, JoinGroupRequest):
            return answer
        return self._manager.call_soon(self._held_back, answer)

    async def _held_back(self, answer: Any) -> Any:
        joined = await answer
        if joined.error_code != 0:
            return joined
        self._leadership.notice_leader(joined.leader, joined.protocol_name)
        if joined.leader == joined.member_id:
            leading = self._leadership.begin(joined.protocol_name, joined.members, joined.generation_id)
            if leading is not None:
                await self._lead(leading, joined)
        return joined

    async def _lead(self, leading: LedGeneration, joined: Any) -> None:
        refreshed = self._manager.call_soon(refresh_metadata, self._coordinator._cluster)
        await self._heartbeats_until(refreshed, leading, joined, monotonic() + leading.metadata_timeout_s)
        leading.read_metadata()
        thought = Future()
        leading.think_in_background(lambda: self._resolve(thought))
        await self._heartbeats_until(thought, leading, joined, float("inf"))

    async def _heartbeats_until(
        self, future: Any, leading: LedGeneration, joined: Any, deadline: float
    ) -> None:
        """Return when the future is done, or the time is up, and send heartbeats until then."""
        while not future.is_done and (left_s := deadline - monotonic()) > 0:
            try:
                await self._manager.wait_for(future, min(leading.heartbeat_pause_s, left_s) * 1000)
            except KafkaError:
                # Either it is not done, or what it waited for failed, and its owner goes on without.
                self._heartbeat(joined)

    def _heartbeat(self, joined: Any) -> None:
        # Its answer does not matter: a member that was expelled learns it from its SyncGroup.
        if self._coordinator.coordinator_id is not None:
            request = HeartbeatRequest(
                group_id=self._coordinator.group_id,
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                group_instance_id=self._coordinator.group_instance_id,
            )
            self._manager.send(request, node_id=self._coordinator.coordinator_id)

    def _resolve(self, future: Any) -> None:
        try:
            self._manager.call_soon(future.success, None)
        except Exception:
            # kafka-python's I/O thread has ended: the consumer was closed, and nothing waits any more.
            return
