"""Every place where we depend on how kafka-python works inside: what all versions share.

kafka-python decodes what the members sent before it asks an assignor, so a member that sends garbage takes
the leader down; the generation being formed does not reach the assignor. An assignor is never given the
coordinator, but it is only ever called by it: `calling_coordinator` finds it in the call stack, and
`lead_with_our_assignors` replaces a few attributes of that one object.

What differs between versions is in `_v2` and `_v3`, which have the same functions. The one of the two that
speaks to the installed kafka-python is `interface`. The private names that are touched are listed here and at
the top of `_v2` and `_v3`; those that the cooperative consumer touches are in `_v3` too.

kafka-python has its assignors assign in the middle of its I/O, with the metadata that happens to be there. As
long as that takes nothing is received, no heartbeat is sent, and a leader that thinks for longer than its
session lasts is expelled. So the answer is held back (how, is in `_v2` and in `_v3`) while I/O goes on:

    Leadership.begin        from here on the client watches all topics of the group
                            (the client fetches their metadata, for `metadata_timeout_s` at most)
    Leading.read_metadata
    Leading.think           asks for weights, if the assignor was given a function for them, and runs the
                            strategy, in a thread of its own
    Leading.finish          kafka-python goes on with the answer, asks its assignor, and gets what is ready

Until the SyncGroup request the leader has to send heartbeats, which the broker accepts from a member of a
group that waits for its leader. kafka-python has switched its own off.

Touched here, with what it is used for (checked with the versions of `CHECKED`):

    ConsumerCoordinator
        request_rejoin              see `keep_join_wanted`
        group_id, group_instance_id the consumer's settings; 2.2 and older have no static members
        config                      heartbeat_interval_ms, session_timeout_ms, assignors
        _generation.generation_id   the generation last joined
        _lookup_assignor            assignor by name, as the user configured it
        _perform_assignment         replaced on the instance: (leader, protocol, members) -> {id: bytes}
        _subscription.group_subscribe, group_subscription: whose metadata the leader watches
        _cluster.add_listener, request_update, need_all_topic_metadata
        _build_metadata_snapshot    what of the metadata matters to the leader: partitions by topic;
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

    Raises ImportError for one that is too old. For one that may be too new there is a warning and an attempt.
    """
    oldest, newest = numbers_of(CHECKED[0]), numbers_of(CHECKED[-1])[:2]
    log = logging.getLogger("kafka_assignors_kafka_python")
    require_release("kafka-python", installed, oldest, newest, log)
    return "v2" if (2,) <= numbers_of(installed) < (3,) else "v3"


INSTALLED = installed_release("kafka-python", "kafka")
"""The distribution's own word: the oldest releases do not import on the newest Pythons."""

MODULE = module_for(INSTALLED)

# Only now: of a release that is too old the check says so, and these would not.
from kafka.coordinator.consumer import ConsumerCoordinator  # noqa: E402

if TYPE_CHECKING:
    from kafka_assignors_kafka_python import _v3

    interface = _v3
else:
    interface = importlib.import_module(f"kafka_assignors_kafka_python._{MODULE}")


class Leading:
    """One generation that our consumer leads with an assignor of ours.

    `read_members` comes before it, and may run in any thread: to decode a large group takes time.
    """

    metadata_timeout_s: float = 5.0
    """After this time a leader assigns what it knows of, and once more when it knows more."""

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
        # As kafka-python does: from here on the leader watches all topics of the group.
        coordinator._subscription.group_subscribe(self._joined.topics)
        unknown = self._joined.topics.difference(coordinator._cluster._partitions)
        # If many are unknown, a request for all topics of the cluster tells which exist: its response has no
        # error for each of the others.
        self._asks_for_all = len(unknown) > MOST_MISSING_TOPICS
        if self._asks_for_all:
            coordinator._cluster.need_all_topic_metadata = True
            coordinator._cluster.request_update()
        else:
            interface.watch(coordinator, coordinator._subscription.group_subscription())

    def read_metadata(self) -> None:
        """Take what the client knows of the topics now. Metadata must not change during this call."""
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
        except BaseException as error:  # It is raised in `finish`, of any kind: the group waits for us.
            self._error = error

    def think_in_background(self, then: Any) -> None:
        """Run the strategy in a thread of its own, and then, in any thread, `then()`."""
        in_leader_thread(self.think).add_done_callback(lambda _: then())

    def finish(self) -> EncodedAssignments:
        """The assignment of each member; raises what the strategy raised."""
        # kafka-python rejoins when its snapshots differ: now, if metadata have changed since they were read,
        # or as soon as they change.
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
    """The topics with the weights that count in a join. Fails for nothing that the source does."""
    found: Weighed | NoWeightsError
    try:
        found = ask_for_weights(coordinator, assignor, topics)
    except NoWeightsError as error:
        found = error
    return assignor.weighed_for_join(coordinator, topics, found)


def ask_for_weights(coordinator: Any, assignor: Assignor, topics: Sequence[Topic]) -> Weighed:
    """The topics with the weights that the assignor's source gives in time; raises `NoWeightsError`.

    It waits for the source, which has a thread of its own.
    """
    patience_s = assignor.weights_patience_s(coordinator.config["session_timeout_ms"])
    asked = assignor.ask_for_weights(coordinator, topics)
    if isinstance(asked, Future):
        wait([asked], timeout=patience_s)
    return assignor.weigh_by(coordinator, topics, asked, patience_s)


in_leader_thread = partial(ask_in_thread, name="kafka-assignors-leader")
"""Calls a function of a leader, which takes as long as it takes, in a thread of its own; returns a future."""


def read_joined_members(assignor: Assignor, members: Any) -> DecodedMembers:
    """Decode what the members of the answer to JoinGroup sent."""
    return assignor.read_members(interface.joined_members(members))


class Leadership:
    """The work of one coordinator whenever it leads its group."""

    def __init__(self, coordinator: Any) -> None:
        self._coordinator = coordinator
        self._stock_perform_assignment = coordinator._perform_assignment
        self._leading: Leading | None = None
        self._told_that_broker_assigns = False

    def notice_leader(self, leader_id: str, protocol_name: str) -> None:
        """Warn, once, in a group that has no leader: in such a one the broker assigns."""
        assignor = self._coordinator._lookup_assignor(protocol_name)
        if leader_id or self._told_that_broker_assigns or not isinstance(assignor, Assignor):
            return
        self._told_that_broker_assigns = True
        strategies = [
            one.name for one in interface.assignors_of(self._coordinator) if isinstance(one, Assignor)
        ]
        assignor.log.warning("%s", broker_assigns(self._coordinator.group_id, strategies))

    def begin(self, protocol_name: str, members: Any, generation: int) -> Leading | None:
        """Start to lead a generation; None if the group runs it with an assignor of kafka-python."""
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
            # The answer was not held back: an assignor of kafka-python, or a version that we do not know.
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
    """Switch on or off that changed replica racks count as changed metadata; the known racks are kept.

    kafka-python compares the partitions of the topics that a member watches. With `following`, the racks of
    all their replicas are compared as well (see `kafka_assignors.join_sync.RackWatch`).
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
    """The ConsumerCoordinator on whose behalf the current call is made."""
    if (coordinator := caller_of(ConsumerCoordinator)) is not None:
        return coordinator
    raise RuntimeError("an assignor of kafka_assignors_kafka_python works inside a KafkaConsumer only")


def instance_id_of(coordinator: Any) -> str | None:
    """The group.instance.id of the coordinator's consumer, if it has one."""
    instance_id: str | None = getattr(coordinator, "group_instance_id", None)
    return instance_id


def require_one_of_each_name(coordinator: Any) -> None:
    """Raise ValueError if a configured assignor has the name of one of ours."""
    ours = {one.name for one in interface.assignors_of(coordinator) if isinstance(one, Assignor)}
    require_unique_names(name for name in interface.configured_names(coordinator) if name in ours)


def keep_join_wanted(coordinator: Any) -> None:
    """Have later polls go on with a join that is under way when this poll ends.

    Where a join began because the subscription or the partition counts changed, kafka-python forgets that
    reason as soon as it has written the request. A poll that times out after that leaves the join's result
    behind, the next one sees no need to join, and the consumer stands still for good. The flag set here is
    cleared when a join has been completed.
    """
    coordinator.request_rejoin()


def lead_with_our_assignors(coordinator: Any) -> None:
    """Have `coordinator`, whenever it leads the group, hand the untouched bytes to an assignor of ours.

    Generations that the group runs with another assignor stay with kafka-python. Calling this again does
    nothing.
    """
    if "_perform_assignment" in vars(coordinator):
        return
    leadership = Leadership(coordinator)
    coordinator._perform_assignment = leadership.perform_assignment
    interface.hold_back_answers(coordinator, leadership)


def watch_topics_if_static(coordinator: Any, assigned: Collection[str], *, racks: bool) -> None:
    """Have a static member, once it was assigned, rejoin when partitions are added to its topics.

    A static member that was the leader still is after a restart, but the versions of JoinGroup that
    kafka-python speaks do not tell it. It takes itself for a follower, none watches, and added partitions
    would have no consumer until the next rebalance. So every static member watches its own topics.

    `assigned` are the topics that it has partitions of. With `racks` it watches the racks of their replicas
    as well.
    """
    if instance_id_of(coordinator) is None or coordinator._is_leader:
        return
    follow_racks(coordinator, following=racks)
    snapshot = coordinator._build_metadata_snapshot(coordinator._subscription, coordinator._cluster)
    if all(snapshot.get(topic) for topic in assigned):
        coordinator._metadata_snapshot = coordinator._assignment_snapshot = snapshot
        return

    # A process that has just started gets its partitions back sooner than the metadata of its topics. That
    # this arrives is no change, and must not cost the rebalance that static membership is there to save.
    is_waiting = getattr(coordinator, "_kafka_assignors_awaited", None) is not None
    coordinator._kafka_assignors_awaited = frozenset(assigned)
    if is_waiting:
        return

    def start_watching(cluster: Any) -> None:
        snapshot = coordinator._build_metadata_snapshot(coordinator._subscription, cluster)
        awaited = coordinator._kafka_assignors_awaited
        if coordinator._assignment_snapshot is None and all(snapshot.get(topic) for topic in awaited):
            coordinator._metadata_snapshot = coordinator._assignment_snapshot = snapshot

    # Once for each consumer: kafka-python calls its listeners one by one, and none may be removed meanwhile.
    coordinator._cluster.add_listener(start_watching)
