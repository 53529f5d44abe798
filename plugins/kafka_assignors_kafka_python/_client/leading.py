"""The work of our assignors between a leader's JoinGroup response and its SyncGroup request.

kafka-python has its assignors assign in the middle of its I/O, with the metadata that happens to be there. As
long as that takes nothing is received, no heartbeat is sent, and a leader that thinks for longer than its
session lasts is expelled. So the answer is held back (how, is in `v2` and in `v3`) while I/O goes on:

    Leadership.begin        from here on the client watches all topics of the group
                            (the client fetches their metadata, for `metadata_timeout_s` at most)
    Leading.read_metadata
    Leading.think           asks for weights, if the assignor was given a function for them, and runs the
                            strategy, in a thread of its own
    Leading.finish          kafka-python goes on with the answer, asks its assignor, and gets what is ready

Until the SyncGroup request the leader has to send heartbeats, which the broker accepts from a member of a
group that waits for its leader. kafka-python has switched its own off.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from kafka_assignors.assignor import Assignor
from kafka_assignors.group import Topic
from kafka_assignors.leader_bytes import (
    MOST_MISSING_TOPICS,
    DecodedMembers,
    EncodedAssignments,
    RackWatch,
    watched_topics,
)
from kafka_assignors.member_bytes import broker_assigns
from kafka_assignors_kafka_python._client import interface
from kafka_assignors_kafka_python._weights import weighed_topics


class Leading:
    """One generation that our consumer leads with an assignor of ours.

    `read_members` comes before it, and may run in any thread: to decode a large group takes time.
    """

    metadata_timeout_s: float = 5.0
    """After this time a leader assigns what it knows of, and once more when it knows more."""

    def __init__(self, coordinator: Any, assignor: Assignor, joined: DecodedMembers, generation: int) -> None:
        self.generation = generation
        config = coordinator.config
        # A third is what Kafka recommends, for those who have set something else.
        pause_ms: float = min(config["heartbeat_interval_ms"], config["session_timeout_ms"] / 3)
        self.heartbeat_pause_s: float = pause_ms / 1000
        self._coordinator = coordinator
        self._assignor = assignor
        self._joined = joined
        racks = (member.rack for member in self._joined.members)
        self._watch = follow_racks(coordinator, assignor.must_follow_racks(racks))
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
        """Run the strategy in a thread of its own, and then, in the same thread, `then()`."""

        def run() -> None:
            self.think()
            then()

        run_in_background(run)

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


def run_in_background(function: Callable[[], None]) -> None:
    """Run something of a leader, which takes as long as it takes, in a thread of its own."""
    # A strategy that never ends must not keep the process from ending.
    threading.Thread(target=function, name="kafka-assignors-leader", daemon=True).start()


def read_members(assignor: Assignor, members: Any) -> DecodedMembers:
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
        joined = read_members(assignor, members)
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


def follow_racks(coordinator: Any, following: bool) -> RackWatch:
    """Switch on or off that changed replica racks count as changed metadata; the known racks are kept.

    kafka-python compares the partitions of the topics that a member watches. With `following`, the racks of
    all their replicas are compared as well (see `kafka_assignors.leader_bytes.RackWatch`).
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
    """For each watched topic, the value that makes the member rejoin if it changes; falsy if unknown."""
    partitions = stock_snapshot(subscription, cluster)
    if not watch.following:
        return partitions
    topics = interface.topics_of(cluster, watch, partitions)
    racks = {topic.name: topic.replica_racks for topic in topics}
    return {name: racks.get(name) or numbers for name, numbers in partitions.items()}
