"""kafka-python 3. Checked with 3.0.12.

**Assignors.** Touched, in addition to what `_client` lists:

    ConsumerCoordinator
        _assignors                  {name: assignor}
        _perform_assignment         members: JoinGroupResponseMember, with member_id, metadata (bytes) and
                                    group_instance_id (None before version 5 of JoinGroup)
        _cluster.set_topics, _topics
        _manager                    replaced on the instance, see `Answers`: send, wait_for, call_soon
        coordinator_id              the node id of the group's coordinator
    JoinGroupResponse               error_code, leader, member_id, generation_id, protocol_name, members
    ConsumerProtocolAssignment      assigned_partitions
    ClusterMetadata
        brokers()                   node_id, rack
        _partitions                 {topic: {partition: MetadataResponsePartition}}: replaced as a whole
        metadata_refresh_in_progress, request_update
    KafkaConsumer.config            client_rack

**The cooperative consumer.** The consumer's `_subscription`, `_fetcher` and `_coordinator` are properties,
which replace kafka-python's objects by ours before they are used. The network, the cluster metadata and the
requests are kafka-python's own. A leader touches _subscription.group_subscribe, group_subscription,
_cluster.set_topics, _topics, _partitions, need_all_topic_metadata.

The cooperative consumer also touches what `_TOUCHED_OF_COORDINATOR` and `_TOUCHED_OF_FETCHER` list, and

    KafkaConsumer
        _subscription, _fetcher, _coordinator   assigned in its constructor, in this order
        _refresh_committed_offsets      replaced, except in `position`
        _poll_once                      extended: notes whether records were returned
        _client, _closed                to close a consumer that is refused
    ConsumerCoordinator
        _client, _lock, _metadata_snapshot
        _generation, state              set for `group_metadata`
        coordinator_unknown, coordinator_dead
        ensure_coordinator_ready_async  replaced
        group_metadata                  extended: joins wait until the next `poll`
        poll, time_to_next_poll, commit_offsets_sync, commit_offsets_async, maybe_leave_group, close
                                        replaced, except for partitions assigned by hand
    SubscriptionState
        set_reset_pending, reset_failed, set_validation_pending, validation_failed
                                        extended: partitions may have left meanwhile
        partitions_needing_validation   the partitions whose positions may be validated now
    TopicPartitionState
        is_fetchable                    extended: asked before each fetch and each delivery
        position, awaiting_validation
    Fetcher
        in_flight_fetches               replaced
        _subscriptions
    KafkaConnectionManager (`_manager`)
        send(node_id=…, request_timeout_ms=…), close(node_id=…), close(), get_connection
    KafkaConnection
        connected, paused, _reauth, send_request
                                        a commit is written to the open connection itself
    KafkaTCPTransport
        _close                          closes the socket, without the pending writes
        _sock, is_closing, last_read
    ClusterMetadata
        topics, topic_id, leader_for_partition, leader_epoch_for_partition, update_partition_leader
        broker_metadata, request_update, partitions_for_topic, add_listener, remove_listener
        unauthorized_topics             only the user's while `_handle_metadata_update` runs
    GroupCoordinatorMetrics, ConsumerCoordinatorMetrics
        heartbeat_latency, join_latency, sync_latency, commit_latency: their sensors
        metric_group_name
    Metrics (`config["metrics"]` of the coordinator)
        sensor, metric_name, add_metric; the statistics of `kafka.metrics.stats`
    WakeupNotifier, Generation, MemberState, requests and responses of the group protocol
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

from kafka import KafkaConsumer
from kafka.consumer import fetcher, subscription_state
from kafka.coordinator import consumer as coordinator_module
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
from kafka.protocol.metadata import (  # pyright: ignore[reportMissingImports]  # its stubs are of 2.x
    MetadataResponse,
)

from kafka_assignors.assignor import caller_of
from kafka_assignors.client_versions import require_attributes
from kafka_assignors.group import Topic
from kafka_assignors.join_sync import JoinedMember, RackWatch, topics_from

if TYPE_CHECKING:
    from kafka_assignors_kafka_python._client import Leadership, Leading


def eager_protocols() -> list[Any]:
    """The result of an assignor's `supported_protocols`."""
    return [RebalanceProtocol.EAGER]


def is_called_by_cooperative_consumer() -> bool:
    """Whether the consumer that is being constructed is a `CooperativeKafkaConsumer`."""
    return getattr(caller_of(KafkaConsumer), "_is_cooperative", False)


def rack_of_caller() -> str | None:
    """The rack of the consumer that is being constructed, if its client has such a setting."""
    # The coordinator does not get the setting. But it asks its assignors for their protocols inside the
    # constructor of the consumer, which has the setting.
    consumer = caller_of(KafkaConsumer)
    return consumer.config.get("client_rack") if consumer is not None else None


def assignors_of(coordinator: Any) -> list[Any]:
    """The assignors that the coordinator chooses from."""
    return list(coordinator._assignors.values())


def configured_names(coordinator: Any) -> list[str]:
    """The names of all assignors that the user has configured."""
    configured = coordinator.config["assignors"]
    return [one().name if isinstance(one, type) else one.name for one in configured]


def joined_members(members: Any) -> Iterable[JoinedMember]:
    """The members as the coordinator has them, with undecoded metadata."""
    return [
        JoinedMember(member.member_id, member.group_instance_id, bytes(member.metadata)) for member in members
    ]


def decoded_members(members: Any) -> Iterable[JoinedMember]:
    """The members as kafka-python passes them to an assignor's `assign`."""
    return [
        JoinedMember(member.member_id, member.group_instance_id, member.metadata.encode())
        for member in members
    ]


def partitions_of(assignment: Any) -> Mapping[str, Sequence[int]]:
    """The decoded assignment of one member, by topic."""
    return {topic: list(numbers) for topic, numbers in assignment.assigned_partitions}


def assignment_of(assignment: bytes) -> Any:
    """The assignment of one member as an assignor's `assign` returns it."""
    return ConsumerProtocolAssignment.decode(assignment)


def watch(coordinator: Any, topics: Iterable[str]) -> None:
    """Make the client fetch the metadata of these topics too."""
    coordinator._cluster.set_topics(topics)


def watch_only(coordinator: Any, topics: Iterable[str]) -> None:
    """Make the client fetch the metadata of these topics alone."""
    coordinator._cluster._topics = set(topics)  # `set_topics` only adds topics


def topics_of(cluster: Any, watch: RackWatch, names: Iterable[str]) -> list[Topic]:
    """The named topics, without those that the client has no metadata of."""
    racks = watch.see((broker.node_id, broker.rack) for broker in cluster.brokers())
    return topics_from(cluster._partitions, racks, lambda partition: partition.replica_nodes, names)


async def refresh_metadata(cluster: Any) -> None:
    """Wait for metadata that were requested after this call."""
    if cluster.metadata_refresh_in_progress:
        # The request was sent before the group's topics were known, and completes the next future.
        await cluster.request_update()
    await cluster.request_update()


def keep_heartbeats(coordinator: Any) -> None:
    """Do nothing: a completed join always switches heartbeats on."""


def hold_back_answers(coordinator: Any, leadership: Leadership) -> None:
    """Hold back the JoinGroup response from a coordinator that leads, until its assignment is ready."""
    coordinator._manager = Answers(coordinator, leadership)


class Answers:
    """The coordinator's connection manager, which gives a leader its JoinGroup response later.

    By then the assignment is ready. All of this runs on kafka-python's I/O thread.
    """

    def __init__(self, coordinator: Any, leadership: Leadership) -> None:
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

    async def _lead(self, leading: Leading, joined: Any) -> None:
        refreshed = self._manager.call_soon(refresh_metadata, self._coordinator._cluster)
        await self._heartbeats_until(refreshed, leading, joined, monotonic() + leading.metadata_timeout_s)
        leading.read_metadata()
        thought = Future()
        leading.think_in_background(lambda: self._resolve(thought))
        await self._heartbeats_until(thought, leading, joined, float("inf"))

    async def _heartbeats_until(self, future: Any, leading: Leading, joined: Any, deadline: float) -> None:
        """Send heartbeats until the future is done or the deadline has passed."""
        while not future.is_done and (left_s := deadline - monotonic()) > 0:
            try:
                await self._manager.wait_for(future, min(leading.heartbeat_pause_s, left_s) * 1000)
            except KafkaError:
                # The future is not done, or has failed, and the leader goes on without its result.
                self._heartbeat(joined)

    def _heartbeat(self, joined: Any) -> None:
        # The response does not matter: an expelled member learns it from SyncGroup.
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
            # kafka-python's I/O thread has ended: the consumer was closed, and nothing waits.
            return


# ---- the cooperative consumer

# The base classes have no types, and pyright's stubs are of 2.x.
SubscriptionState: Any = subscription_state.SubscriptionState
TopicPartitionState: Any = subscription_state.TopicPartitionState
Fetcher: Any = fetcher.Fetcher
ConsumerCoordinator: Any = coordinator_module.ConsumerCoordinator

_TOUCHED_OF_COORDINATOR = (
    # The first three are taken over from the coordinator that is replaced.
    "_sensors",
    "_consumer_sensors",
    "heartbeat",
    "_handle_metadata_update",  # extended: the topics of a leader, and a pattern
    "_assignment_snapshot",
    "_build_metadata_snapshot",
    "_failed_request",
    "lookup_coordinator",
    "fetch_committed_offsets_async",  # requests committed offsets until there is a response
    "_maybe_auto_commit_offsets_async",
    "_maybe_auto_commit_offsets_sync",
    "next_auto_commit_deadline",
    "_invoke_completed_offset_commit_callbacks",
    "completed_offset_commits",
    "_commit_offsets_async_on_complete",  # replaced
    "_offset_fetch_futures",  # {partitions: the future of their committed offsets}
    "_manager.call_soon",
    "_manager.wait_for",
    "_manager.close",
    "_manager._conns",  # {node id: connection}, with `close_future` and `transport`
    "_net.run",
    "_net.sleep",
    "_net._io_thread",
    "_cluster._coordinator_brokers",  # {node id: broker}: a node id has a connection of its own
    "_subscription._lock",
    "_subscription.assignment",  # {partition: state}, changed in place
)
_TOUCHED_OF_FETCHER = (
    "_fetch_futures",  # the futures that `fetch_records` waits for; only the I/O thread changes them
    "_send_fetches_async",  # extended: adds the future that wakes the user's thread
    "_completed_fetches",  # a deque of responses that are not parsed
    "_paused_completed_fetches",  # the same by partition, while the user has paused it
    "_paused_partition_records",  # parsed records by partition, while the user has paused it
    "_next_partition_records",  # the records that are delivered next; None, or empty if all were delivered
    "_reset_task",
    "_validation_task",
    "_maybe_update_current_leader",  # extended: the newest leaders are kept
    "_validate_offsets_async",  # replaced: asks each leader independently
    "_validate_offsets_for_node",
    "_group_offset_for_leader_epoch_requests",
    "_manager.cluster.add_listener",
    "_manager.cluster.topic_id",
    "_manager.cluster.update_partition_leader",
    "_sensors",
)


def require_inside(coordinator: Any, fetcher: Any) -> None:
    """RuntimeError for a release of kafka-python that lacks an attribute the cooperative consumer needs."""
    require_attributes(
        "CooperativeKafkaConsumer",
        "kafka-python",
        (coordinator, _TOUCHED_OF_COORDINATOR),
        (fetcher, _TOUCHED_OF_FETCHER),
    )


def joining_node(cluster: Any, coordinator_id: str) -> str:
    """The node id of the coordinator for joins alone, which gives them a connection of their own.

    A broker answers the requests of a connection in order, and JoinGroup only when the last member has
    joined. Heartbeats and commits on the same connection would have to wait for that. kafka-python has a
    connection for each node id, and gives coordinators ids of their own.
    """
    joining_id = f"joining-{coordinator_id}"
    broker = cluster.broker_metadata(coordinator_id)
    known = cluster.broker_metadata(joining_id)
    if known is None or (known.host, known.port) != (broker.host, broker.port):
        cluster._coordinator_brokers[joining_id] = MetadataResponse.MetadataResponseBroker(
            joining_id, broker.host, broker.port, None
        )
    return joining_id
