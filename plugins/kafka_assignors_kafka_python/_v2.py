"""kafka-python 2. Checked with 2.0.6, 2.1.6, 2.2.21 and 2.3.3. `_v3` documents each function.

Touched, in addition to what `_client` lists:

    ConsumerCoordinator
        _perform_assignment         members: GroupMember(member_id, group_instance_id, metadata_bytes) in 2.3,
                                    (member_id, metadata_bytes) before
        _client.set_topics
        _client._pending_completion, wakeup, _closed: see `PollThread`
        _client._metadata_refresh_in_progress
        _handle_join_group_response replaced on the instance: (future, sent at, response)
        _on_join_leader             replaced on the instance: response -> future of the assigned bytes
        _send_heartbeat_request
        _heartbeat_thread           see `keep_heartbeats`
    JoinGroupResponse               error_code, leader_id, group_protocol, members
    ConsumerProtocol                a list by version in 2.3, the only version before: ASSIGNMENT
    ClusterMetadata
        brokers()                   nodeId, rack
        _partitions                 {topic: {partition: PartitionMetadata}}: replaced as a whole
        request_update
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

from kafka.coordinator import protocol  # pyright: ignore[reportMissingModuleSource]  # 3.x has none
from kafka.coordinator.base import UnjoinedGroupException
from kafka.future import Future

from kafka_assignors.group import Topic
from kafka_assignors.join_sync import JoinedMember, RackWatch, topics_from
from kafka_assignors.wire import Subscription, encode_subscription

if TYPE_CHECKING:
    from kafka_assignors_kafka_python._client import Leadership, Leading


def eager_protocols() -> list[Any]:
    return []  # Not called: kafka-python 2 knows no other protocol.


def is_called_by_cooperative_consumer() -> bool:
    return False  # There is none for kafka-python 2.


def rack_of_caller() -> str | None:
    return None  # The consumer has no such setting.


def assignors_of(coordinator: Any) -> list[Any]:
    return list(coordinator.config["assignors"])


def configured_names(coordinator: Any) -> list[str]:
    return [one.name for one in assignors_of(coordinator)]


def joined_members(members: Any) -> Iterable[JoinedMember]:
    joined = []
    for member_id, *instance_id, metadata in members:
        joined.append(JoinedMember(member_id, instance_id[0] if instance_id else None, bytes(metadata)))
    return joined


def decoded_members(members: Any) -> Iterable[JoinedMember]:
    # kafka-python has read only the fields of version 0. A member's owned partitions stay in its user data.
    return [
        JoinedMember(
            member_id,
            getattr(member, "group_instance_id", None),
            encode_subscription(Subscription(0, tuple(member.subscription), member.user_data or b"")),
        )
        for member_id, member in members.items()
    ]


def partitions_of(assignment: Any) -> Mapping[str, Sequence[int]]:
    return {topic: list(numbers) for topic, numbers in assignment.assignment}


def assignment_of(assignment: bytes) -> Any:
    versions: Any = protocol.ConsumerProtocol
    version_0 = versions[0] if isinstance(versions, list) else versions
    return version_0.ASSIGNMENT.decode(assignment)


def watch(coordinator: Any, topics: Iterable[str]) -> None:
    coordinator._client.set_topics(topics)


def watch_only(coordinator: Any, topics: Iterable[str]) -> None:
    coordinator._client.set_topics(topics)


def topics_of(cluster: Any, watch: RackWatch, names: Iterable[str]) -> list[Topic]:
    racks = watch.see((broker.nodeId, broker.rack) for broker in cluster.brokers())
    return topics_from(cluster._partitions, racks, lambda partition: partition.replicas, names)


def keep_heartbeats(coordinator: Any) -> None:
    """Switch heartbeats on after a join.

    kafka-python 2.1 switches them off in every `poll` during a join, and on with the response. If the
    response came between two polls, the next poll switches them off again, and finds the join completed.
    """
    with coordinator._lock:
        thread = coordinator._heartbeat_thread
        if thread is not None and not thread.enabled:
            thread.enable()


def hold_back_answers(coordinator: Any, leadership: Leadership) -> None:
    stock_handle_response = coordinator._handle_join_group_response
    stock_on_join_leader = coordinator._on_join_leader

    def handle_join_group_response(future: Any, sent_at: float, response: Any) -> None:
        if response.error_code == 0:
            leadership.notice_leader(response.leader_id, response.group_protocol)
        stock_handle_response(future, sent_at, response)

    def on_join_leader(response: Any) -> Any:
        generation = coordinator._generation.generation_id
        leading = leadership.begin(response.group_protocol, response.members, generation)
        if leading is None:
            return stock_on_join_leader(response)
        return HeldBack(coordinator, leading, lambda: stock_on_join_leader(response)).assigned

    coordinator._handle_join_group_response = handle_join_group_response
    coordinator._on_join_leader = on_join_leader


class PollThread:
    """The thread that currently polls the consumer, and does all I/O."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def run(self, call: Callable[[], None]) -> None:
        """Call `call` there soon, like the handler of a response. Any thread may call this."""
        if self._client._closed:
            return
        called = Future()
        called.add_callback(lambda _: call())
        self._client._pending_completion.append((None, called))
        try:
            self._client.wakeup()
        except OSError:
            # The consumer was closed just now, and nothing waits for the call.
            return


class HeldBack:
    """A leader's JoinGroup response, with which kafka-python goes on when the assignment is ready.

    The thread that polls calls all methods but `_beat`, whose thread only makes it call `_heartbeat`.
    """

    def __init__(self, coordinator: Any, leading: Leading, go_on: Callable[[], Any]) -> None:
        self.assigned = Future()
        self._coordinator = coordinator
        self._leading = leading
        self._go_on = go_on
        self._poll_thread = PollThread(coordinator._client)
        self._thinking = False
        self._ready = threading.Event()
        self._beat_is_due = False
        self._think_at_latest = monotonic() + leading.metadata_timeout_s
        # After this time the broker has expelled this member.
        self._beat_until = monotonic() + coordinator.config["max_poll_interval_ms"] / 1000
        self._refresh_metadata()
        threading.Thread(target=self._beat, name="kafka-assignors-heartbeat", daemon=True).start()

    def _refresh_metadata(self) -> None:
        client, cluster = self._coordinator._client, self._coordinator._cluster

        def refreshed(_: Any) -> None:
            # Not at once: kafka-python has not taken its snapshots yet.
            self._poll_thread.run(self._think)

        if client._metadata_refresh_in_progress:
            # The request was sent before the group's topics were known, and completes the next future.
            cluster.request_update().add_both(lambda _: cluster.request_update().add_both(refreshed))
        else:
            cluster.request_update().add_both(refreshed)

    def _think(self) -> None:
        if not self._thinking:
            self._thinking = True
            self._leading.read_metadata()
            self._leading.think_in_background(lambda: self._poll_thread.run(self._finish))

    def _finish(self) -> None:
        self._ready.set()
        if self._coordinator._generation.generation_id == self._leading.generation:
            self._go_on().chain(self.assigned)
        else:
            self.assigned.failure(UnjoinedGroupException())

    def _beat(self) -> None:
        while not self._ready.wait(self._leading.heartbeat_pause_s) and monotonic() < self._beat_until:
            # One at a time, so that they do not pile up without polls.
            if not self._beat_is_due:
                self._beat_is_due = True
                self._poll_thread.run(self._heartbeat)

    def _heartbeat(self) -> None:
        self._beat_is_due = False
        if not self._ready.is_set():
            self._coordinator._send_heartbeat_request()
            if monotonic() > self._think_at_latest:
                self._think()
