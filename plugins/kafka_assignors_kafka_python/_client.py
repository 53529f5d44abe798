"""What is used of kafka-python's internals, as far as all versions share it.

kafka-python decodes the members' metadata before it calls an assignor, so a member that sends garbage makes
the leader fail. The generation being formed does not reach the assignor either. The coordinator is never
passed to an assignor, but only the coordinator calls one: `calling_coordinator` finds it in the call stack,
and `lead_with_our_assignors` replaces a few attributes of that object.

`_v2` and `_v3` have the same functions for what differs between versions. `interface` is the module for the
installed kafka-python. This list and those at the top of `_v2` and `_v3` name every private attribute that is
touched; `_v3` also lists those of the cooperative consumer.

kafka-python calls its assignors in the middle of its I/O, with the metadata that it has at that time. While
an assignor runs, nothing is received and no heartbeat is sent, and a leader that takes longer than its
session is expelled. So the JoinGroup response is held back (`_v2` and `_v3` say how) while I/O goes on:

    Leadership.begin        from here on the client watches all topics of the group
                            (the client fetches their metadata, for `metadata_timeout_s` at most)
    Leading.read_metadata
    Leading.think           asks the assignor's source of weights, if there is one, and runs the strategy,
                            in a thread of its own
    Leading.finish          kafka-python gets the response, calls its assignor, and gets the ready assignment

Until SyncGroup the leader has to send heartbeats itself, since kafka-python has switched its own off. The
broker accepts them while a group waits for its leader.

Touched here, and why (checked with the versions of `CHECKED`):

    ConsumerCoordinator
        request_rejoin              see `keep_join_wanted`
        group_id, group_instance_id the consumer's settings; 2.2 and older have no static members
        config                      heartbeat_interval_ms, session_timeout_ms, assignors
        _generation.generation_id   the last generation that the member joined
        _lookup_assignor            assignor by name, as the user configured it
        _perform_assignment         replaced on the instance: (leader, protocol, members) -> {id: bytes}
        _subscription.group_subscribe, group_subscription: whose metadata the leader watches
        _cluster.add_listener, request_update, need_all_topic_metadata
        _build_metadata_snapshot    partitions by topic, the metadata that matter to the leader;
                                    replaced on the instance, see `follow_racks`
        _is_leader, _metadata_snapshot, _assignment_snapshot: when the snapshots differ, the member rejoins
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, wait
from functools import partial
from typing import TYPE_CHECKING, Any

from kafka_assignors.assignor import (
    Assignor,
    NoWeightsError,
    Weighed,
    ask_in_thread,
    caller_of,
    leader_heartbeat_pause_s,
    require_unique_names,
)
from kafka_assignors.client_versions import installed_release, numbers_of, require_release
from kafka_assignors.group import Topic
from kafka_assignors.join_sync import (
    MOST_MISSING_TOPICS,
    DecodedMembers,
    EncodedAssignments,
    RackWatch,
    broker_assigns,
    watched_topics,
)

CHECKED = ("2.0.6", "2.1.6", "2.2.21", "2.3.3", "3.0.12")
"""The newest release of each series, oldest first."""


def module_for(installed: str) -> str:
    """The module for this release of kafka-python: "v2" for `_v2`, or "v3" for `_v3`.

    ImportError for a release that is too old. A release that may be too new is used, with a warning.
    """
    oldest, newest = numbers_of(CHECKED[0]), numbers_of(CHECKED[-1])[:2]
    log = logging.getLogger("kafka_assignors_kafka_python")
    require_release("kafka-python", installed, oldest, newest, log)
    return "v2" if (2,) <= numbers_of(installed) < (3,) else "v3"


INSTALLED = installed_release("kafka-python", "kafka")
"""From the distribution's metadata, since the oldest releases do not import on the newest Pythons."""

MODULE = module_for(INSTALLED)

# Only now: the check explains a release that is too old; these imports would fail without advice.
from kafka.coordinator.consumer import ConsumerCoordinator  # noqa: E402

if TYPE_CHECKING:
    from kafka_assignors_kafka_python import _v3

    interface = _v3
else:
    interface = importlib.import_module(f"kafka_assignors_kafka_python._{MODULE}")


class Leading:
    """One generation that this consumer leads with an assignor of ours.

    `joined` is decoded before, in any thread, since that takes time in a large group.
    """

    metadata_timeout_s: float = 5.0
    """After this time a leader assigns the topics that it knows; it rejoins when it learns of more."""

    def __init__(self, coordinator: Any, assignor: Assignor, joined: DecodedMembers, generation: int) -> None:
        self.generation = generation
        config = coordinator.config
        self.heartbeat_pause_s = leader_heartbeat_pause_s(
            config["heartbeat_interval_ms"], config["session_timeout_ms"]
        )
        self._coordinator = coordinator
        self._assignor = assignor
        self._joined = joined
        racks = (member.rack for member in self._joined.members)
        self._watch = follow_racks(coordinator, following=assignor.must_follow_racks(racks))
        self._topics: list[Topic] = []
        self._snapshot: Any = None
        self._encoded: EncodedAssignments | None = None
        self._error: BaseException | None = None
        # As in kafka-python: from here on the leader watches all topics of the group.
        coordinator._subscription.group_subscribe(self._joined.topics)
        unknown = self._joined.topics.difference(coordinator._cluster._partitions)
        # If many are unknown, a request for all topics of the cluster tells which exist: its response has no
        # error for each missing topic.
        self._asks_for_all = len(unknown) > MOST_MISSING_TOPICS
        if self._asks_for_all:
            coordinator._cluster.need_all_topic_metadata = True
            coordinator._cluster.request_update()
        else:
            interface.watch(coordinator, coordinator._subscription.group_subscription())

    def read_metadata(self) -> None:
        """Take the client's current metadata of the topics, which must not change during this call."""
        coordinator, cluster = self._coordinator, self._coordinator._cluster
        self._topics = interface.topics_of(cluster, self._watch, self._joined.topics)
        if self._asks_for_all:
            missing = self._joined.topics - {topic.name for topic in self._topics}
            own = coordinator._subscription.subscription
            watched = watched_topics(self._joined.topics, missing, own)
            cluster.need_all_topic_metadata = coordinator._subscription.subscribed_pattern is not None
            interface.watch_only(coordinator, watched)
        self._snapshot = coordinator._build_metadata_snapshot(coordinator._subscription, cluster)

    def think(self) -> None:
        """Run the strategy. Never raises, and may run in any thread."""
        try:
            if self._assignor.weights is not None:
                self._topics = weighed_topics(self._coordinator, self._assignor, self._topics)
            self._encoded = self._assignor.encode_assignments(self._joined, self._topics, self.generation)
        except BaseException as error:  # `finish` raises it, of any kind: the group waits for this leader.
            self._error = error

    def think_in_background(self, then: Any) -> None:
        """Run the strategy in a thread of its own, then call `then()` in any thread."""
        in_leader_thread(self.think).add_done_callback(lambda _: then())

    def finish(self) -> EncodedAssignments:
        """The assignment of each member; raises the strategy's exception."""
        # kafka-python rejoins when its snapshots differ: at once if metadata have changed since they were
        # read, otherwise when they change.
        coordinator = self._coordinator
        coordinator._is_leader = True
        coordinator._assignment_snapshot = self._snapshot
        coordinator._metadata_snapshot = coordinator._build_metadata_snapshot(
            coordinator._subscription, coordinator._cluster
        )
        if self._error is not None:
            raise self._error
        assert self._encoded is not None
        return self._encoded


def weighed_topics(coordinator: Any, assignor: Assignor, topics: list[Topic]) -> list[Topic]:
    """The topics with their weights for a join. A failure of the source does not fail the join."""
    found: Weighed | NoWeightsError
    try:
        found = ask_for_weights(coordinator, assignor, topics)
    except NoWeightsError as error:
        found = error
    return assignor.weighed_for_join(coordinator, topics, found)


def ask_for_weights(coordinator: Any, assignor: Assignor, topics: Sequence[Topic]) -> Weighed:
    """The topics with the weights that the assignor's source gives in time; raises `NoWeightsError`.

    Waits for the source, which runs in a thread of its own.
    """
    patience_s = assignor.weights_patience_s(coordinator.config["session_timeout_ms"])
    asked = assignor.ask_for_weights(coordinator, topics)
    if isinstance(asked, Future):
        wait([asked], timeout=patience_s)
    return assignor.weigh_by(coordinator, topics, asked, patience_s)


in_leader_thread = partial(ask_in_thread, name="kafka-assignors-leader")
"""Calls a function of a leader in a thread of its own; returns a future."""


def read_joined_members(assignor: Assignor, members: Any) -> DecodedMembers:
    """Decode the members of a JoinGroup response."""
    return assignor.read_members(interface.joined_members(members))


class Leadership:
    """The work of one coordinator whenever it leads its group."""

    def __init__(self, coordinator: Any) -> None:
        self._coordinator = coordinator
        self._stock_perform_assignment = coordinator._perform_assignment
        self._leading: Leading | None = None
        self._told_that_broker_assigns = False

    def notice_leader(self, leader_id: str, protocol_name: str) -> None:
        """Warn once if the group has no leader, since then the broker assigns."""
        assignor = self._coordinator._lookup_assignor(protocol_name)
        if leader_id or self._told_that_broker_assigns or not isinstance(assignor, Assignor):
            return
        self._told_that_broker_assigns = True
        strategies = [
            one.name for one in interface.assignors_of(self._coordinator) if isinstance(one, Assignor)
        ]
        assignor.log.warning("%s", broker_assigns(self._coordinator.group_id, strategies))

    def begin(self, protocol_name: str, members: Any, generation: int) -> Leading | None:
        """Begin to lead a generation; None if the group runs it with an assignor of kafka-python."""
        assignor = self._coordinator._lookup_assignor(protocol_name)
        if not isinstance(assignor, Assignor):
            return None
        joined = read_joined_members(assignor, members)
        self._leading = Leading(self._coordinator, assignor, joined, generation)
        return self._leading

    def perform_assignment(self, leader_id: str, protocol_name: str, members: Any) -> Mapping[str, Any]:
        """The replacement of the coordinator's own method."""
        generation = self._coordinator._generation.generation_id
        leading, self._leading = self._leading, None
        if leading is None or leading.generation != generation:
            # The response was not held back: an assignor of kafka-python, or an unknown release.
            leading = self.begin(protocol_name, members, generation)
            if leading is None:
                stock: Mapping[str, Any] = self._stock_perform_assignment(leader_id, protocol_name, members)
                return stock
            self._leading = None
            self._coordinator._cluster.request_update()
            leading.read_metadata()
            leading.think()
        return leading.finish().assignments


def follow_racks(coordinator: Any, *, following: bool) -> RackWatch:
    """Set whether changed replica racks count as changed metadata; known racks are kept.

    kafka-python compares the partitions of the topics that a member watches. With `following`, it compares
    the racks of all their replicas too (see `kafka_assignors.join_sync.RackWatch`).
    """
    watch: RackWatch | None = getattr(coordinator, "_kafka_assignors_racks", None)
    if watch is None:
        watch = coordinator._kafka_assignors_racks = RackWatch()
        coordinator._build_metadata_snapshot = partial(_snapshot, coordinator._build_metadata_snapshot, watch)
    watch.following = following
    return watch


def _snapshot(
    stock_snapshot: Callable[[Any, Any], Mapping[str, Any]], watch: RackWatch, subscription: Any, cluster: Any
) -> Mapping[str, Any]:
    return watch.snapshot(stock_snapshot(subscription, cluster), partial(interface.topics_of, cluster, watch))


def calling_coordinator() -> Any:
    """The ConsumerCoordinator in the current call stack."""
    if (coordinator := caller_of(ConsumerCoordinator)) is not None:
        return coordinator
    raise RuntimeError("an assignor of kafka_assignors_kafka_python works inside a KafkaConsumer only")


def instance_id_of(coordinator: Any) -> str | None:
    """The `group_instance_id` of the coordinator's consumer, if it has one."""
    instance_id: str | None = getattr(coordinator, "group_instance_id", None)
    return instance_id


def require_one_of_each_name(coordinator: Any) -> None:
    """Raise ValueError if a configured assignor has the name of one of ours."""
    ours = {one.name for one in interface.assignors_of(coordinator) if isinstance(one, Assignor)}
    require_unique_names(name for name in interface.configured_names(coordinator) if name in ours)


def keep_join_wanted(coordinator: Any) -> None:
    """Make later polls continue a join that is under way when this poll ends.

    If a join began because the subscription or the partition counts changed, kafka-python forgets that reason
    when it has written the request. If the poll then times out, the next poll sees no reason to join, leaves
    the join's result behind, and the consumer stops for good. A completed join clears the flag set here.
    """
    coordinator.request_rejoin()


def lead_with_our_assignors(coordinator: Any) -> None:
    """Make `coordinator`, when it leads the group, pass the members' undecoded bytes to an assignor of ours.

    kafka-python handles generations that the group runs with another assignor. Calling this again does
    nothing.
    """
    if "_perform_assignment" in vars(coordinator):
        return
    leadership = Leadership(coordinator)
    coordinator._perform_assignment = leadership.perform_assignment
    interface.hold_back_answers(coordinator, leadership)


def watch_topics_if_static(coordinator: Any, assigned: Collection[str], *, racks: bool) -> None:
    """Make a static member rejoin, after its assignment, when partitions are added to its topics.

    A static leader stays the leader after a restart, but the versions of JoinGroup that kafka-python uses do
    not tell it so. It takes itself for a follower, no member watches the topics, and added partitions would
    have no consumer until the next rebalance. So every static member watches its own topics.

    `assigned` are the topics of its partitions. With `racks` it also watches the racks of their replicas.
    """
    if instance_id_of(coordinator) is None or coordinator._is_leader:
        return
    follow_racks(coordinator, following=racks)
    snapshot = coordinator._build_metadata_snapshot(coordinator._subscription, coordinator._cluster)
    if all(snapshot.get(topic) for topic in assigned):
        coordinator._metadata_snapshot = coordinator._assignment_snapshot = snapshot
        return

    # A restarted process gets its partitions back before the metadata of its topics. When they arrive, that
    # is no change, and must not cause the rebalance that static membership avoids.
    is_waiting = getattr(coordinator, "_kafka_assignors_awaited", None) is not None
    coordinator._kafka_assignors_awaited = frozenset(assigned)
    if is_waiting:
        return

    def start_watching(cluster: Any) -> None:
        snapshot = coordinator._build_metadata_snapshot(coordinator._subscription, cluster)
        awaited = coordinator._kafka_assignors_awaited
        if coordinator._assignment_snapshot is None and all(snapshot.get(topic) for topic in awaited):
            coordinator._metadata_snapshot = coordinator._assignment_snapshot = snapshot

    # Added once and never removed: kafka-python calls its listeners in a loop that forbids a removal.
    coordinator._cluster.add_listener(start_watching)
