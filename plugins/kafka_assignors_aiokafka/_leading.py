"""The work of a leader between its JoinGroup response and its SyncGroup request; the metadata of topics.

    read the members        in a thread: there may be many, and their bytes may be malformed
    refresh the metadata    of all topics of the group
    ask for weights         if the assignor has a source of weights, with its timeout: a plain function in a
                            thread, a coroutine function on the event loop
    assign                  in a thread
    throughout              heartbeats

aiokafka sends heartbeats only after the join. The coordinator starts the session timeout of a member with its
JoinGroup response, and accepts heartbeats while it waits for the leader. So it expels a leader that assigns
for longer than `session_timeout_ms` without heartbeats. (It never expels a follower that has sent its
SyncGroup and waits for the response: `hasSatisfiedHeartbeat` in Kafka's `ClassicGroupMember`.)

Heartbeats do not extend the time without limit. After the longest `rebalance_timeout_ms` of all members the
coordinator expels every member that has not sent its SyncGroup (`expirePendingSync` in Kafka's
`GroupMetadataManager`). An expelled leader drops its computation and rejoins.

A follower that waits for longer than its `request_timeout_ms` rejoins. If it sends the same metadata while
the leader assigns, the coordinator answers with the same generation. If they differ, the coordinator begins
another rebalance (`classicGroupJoinExistingMember` in Kafka's `GroupMetadataManager`), and refuses the
leader's assignment. Stock consumers send the same metadata, unless the strategy's `member_data` has changed.
A cooperative member does not: its claim names the generation of the last JoinGroup response, as in Java. So
it waits for longer than `rebalance_timeout_ms`.

Each call that may take long has a thread of its own, which ends with the call. The application's default
executor is not used: its threads may all be busy with handlers that wait for a commit, the coordinator
accepts no commit before SyncGroup, and SyncGroup would wait for a thread. A follower has no thread. Neither
`stop` nor the end of the process waits for one.

A member rejoins when the partition counts of the topics that it watches change; under a strategy that follows
racks, also when the racks of their replicas change: see `kafka_assignors.join_sync.RackWatch`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar

from aiokafka.errors import KafkaError

from kafka_assignors.assignor import (
    Assignor,
    NoWeightsError,
    Weighed,
    ask_in_thread,
    leader_heartbeat_pause_s,
)
from kafka_assignors.group import Topic
from kafka_assignors.join_sync import (
    MOST_MISSING_TOPICS,
    EncodedAssignments,
    JoinedMember,
    RackWatch,
    topics_from,
    watched_topics,
)
from kafka_assignors.leader import InvalidAssignmentError

Result = TypeVar("Result")

LEADER_THREADS = 4
"""The most unfinished calls of one consumer. A leader makes one call at a time; calls of earlier generations,
which the group did not wait for, go on until they return."""

REFRESH_TIMEOUT_S = 1.0
"""How long a leader waits for newer metadata of topics that it knows already.

A broker that does not answer must not stop the group. Metadata that arrive later make the leader rejoin.
"""


# ---- metadata of topics


async def watch_topics(coordinator: Any, topics: Iterable[str]) -> None:
    """Make the leader watch the topics of the group, except for most topics that do not exist.

    If many are unknown, one request for all topics of the cluster tells which exist: its response has no
    error for each missing topic.
    """
    topics, client = frozenset(topics), coordinator._client
    unknown = topics.difference(coordinator._cluster._partitions)
    knows_all = coordinator._subscription.subscribed_pattern is not None
    if len(unknown) > MOST_MISSING_TOPICS and not knows_all:
        with suppress(KafkaError):  # After an error, existing topics stay unknown until the next rebalance.
            unknown = unknown.difference((await client.fetch_all_metadata())._partitions)
    own = coordinator._subscription.subscription.topics
    coordinator._group_subscription = set(watched_topics(topics, unknown, own))


async def refresh(coordinator: Any, topics: Iterable[str], *, waits: bool) -> None:
    """Get the metadata of all topics of the group, which the leader watches from here on.

    Without `waits` it waits only for topics that are not known yet. If a known topic has new partitions, the
    leader learns it a moment later, and rejoins. While all members go on consuming, that costs less than a
    wait in every round: the Metadata request follows a fetch, which a broker answers when there are records
    or `fetch_max_wait_ms` have passed.
    """
    client = coordinator._client
    await watch_topics(coordinator, topics)
    if coordinator._subscription.subscribed_pattern:
        # A member with a pattern has requested the metadata of all topics just before it joined.
        await client._maybe_wait_metadata()
        return
    learning = client.set_topics(coordinator._group_subscription)
    if not learning.done():
        await learning
        return
    update = client.force_metadata_update()  # What it knows may be five minutes old.
    if waits:
        await asyncio.wait([update], timeout=REFRESH_TIMEOUT_S)


def known_topics(cluster: Any, watch: RackWatch) -> Callable[[Iterable[str]], list[Topic]]:
    """A function that returns the client's current topics by name; another thread may call it."""
    racks = watch.see((broker.nodeId, broker.rack) for broker in cluster.brokers())
    partitions = cluster._partitions
    return lambda names: topics_from(partitions, racks, attrgetter("replicas"), names)


def topics_of(cluster: Any, names: Iterable[str]) -> list[Topic]:
    """The named topics, without those that the client has no metadata of."""
    return known_topics(cluster, RackWatch())(names)


def follow_racks(coordinator: Any, *, following: bool) -> RackWatch:
    """Set whether changed replica racks count as changed metadata; known racks are kept."""
    watch: RackWatch | None = getattr(coordinator, "_kafka_assignors_racks", None)
    if watch is None:
        watch = coordinator._kafka_assignors_racks = RackWatch()
        coordinator._get_metadata_snapshot = partial(
            _snapshot, coordinator, coordinator._get_metadata_snapshot, watch
        )
    watch.following = following
    return watch


def _snapshot(coordinator: Any, stock_snapshot: Callable[[], Mapping[str, int]], watch: RackWatch) -> Any:
    return watch.snapshot(stock_snapshot(), lambda names: known_topics(coordinator._cluster, watch)(names))


def watch_topics_if_static(coordinator: Any, *, racks: bool) -> None:
    """Make a static member rejoin, after its assignment, when partitions are added to its topics.

    A static leader stays the leader after a restart, but the versions of JoinGroup that aiokafka uses do not
    tell it so. It takes itself for a follower, no member watches the topics, and added partitions would have
    no consumer until the next rebalance. So every static member watches its own topics, and with `racks` also
    the racks of their replicas.
    """
    if coordinator._group_instance_id is None or coordinator._group_subscription is not None:
        return
    coordinator._group_subscription = set(coordinator._subscription.subscription.topics)
    follow_racks(coordinator, following=racks)
    coordinator._metadata_snapshot = coordinator._get_metadata_snapshot()


def remember_metadata(coordinator: Any, generation: int) -> None:
    """Remember the client's current metadata, which the leader of this generation uses."""
    snapshot = coordinator._metadata_snapshot = coordinator._get_metadata_snapshot()
    coordinator._kafka_assignors_assigned_by = generation, snapshot


def rejoin_if_topics_changed(coordinator: Any) -> None:
    """Make a leader rejoin, after its assignment, if metadata have changed since it began to assign.

    `_metadata_snapshot` does not show the change: it is updated with the metadata, and aiokafka forgets the
    rejoin that it then requests if SyncGroup is not sent yet.
    """
    generation, assigned_by = getattr(coordinator, "_kafka_assignors_assigned_by", (None, None))
    if coordinator._group_subscription is None or generation != coordinator.generation:
        return
    if coordinator._get_metadata_snapshot() != assigned_by:
        coordinator.request_rejoin()


# ---- the leader


async def lead_group(
    coordinator: Any, assignor: Assignor, response: Any, *, waits: bool = True
) -> EncodedAssignments | None:
    """The assignment of every member, given the JoinGroup response; None if the group went on without us.

    `waits` is the argument of `refresh`. Raises the strategy's exception, and KafkaError if the consumer is
    being stopped, which no user sees.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    pause_s = leader_heartbeat_pause_s(coordinator._heartbeat_interval_ms, coordinator._session_timeout_ms)
    assigning = asyncio.ensure_future(_assign(coordinator, assignor, response, waits=waits))
    try:
        while True:
            await asyncio.wait(
                [assigning, coordinator._closing],
                timeout=pause_s,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if assigning.done():
                return assigning.result()
            if coordinator._closing.done():
                raise KafkaError("the consumer is being stopped")
            # If a heartbeat cannot be sent, SyncGroup cannot either, and its sender handles the error. If the
            # group prepares another rebalance, it waits for this member, so the leader goes on here.
            with suppress(KafkaError):
                await coordinator.ensure_coordinator_known()
                await coordinator._do_heartbeat()
            if coordinator.generation != response.generation_id:
                assignor.log.warning(
                    "group %r went on without this consumer, the leader of generation %d, whose strategy %r "
                    "has not finished after %.1f s. The coordinator waits for the longest of all members' "
                    "rebalance_timeout_ms, which is %d here: raise it, or use a faster strategy",
                    coordinator.group_id,
                    response.generation_id,
                    assignor.name,
                    loop.time() - began,
                    coordinator._rebalance_timeout_ms,
                )
                return None
    finally:
        assigning.cancel()


async def _assign(coordinator: Any, assignor: Assignor, response: Any, *, waits: bool) -> EncodedAssignments:
    joined = await in_thread(coordinator, assignor.read_members, _joined_members(response))
    racks = (member.rack for member in joined.members)
    watch = follow_racks(coordinator, following=assignor.must_follow_racks(racks))
    await refresh(coordinator, joined.topics, waits=waits)
    remember_metadata(coordinator, response.generation_id)
    known = known_topics(coordinator._cluster, watch)
    topics: list[Topic] | None = None
    if assignor.weights is not None:
        topics = await weighed_topics(coordinator, assignor, known(joined.topics))

    def encode() -> EncodedAssignments:
        try:
            return assignor.encode_assignments(
                joined, known(joined.topics) if topics is None else topics, response.generation_id
            )
        except InvalidAssignmentError:
            raise
        except Exception:
            # aiokafka turns it into a KafkaError without a cause and a traceback.
            assignor.log.exception("strategy %r failed in group %r", assignor.name, coordinator.group_id)
            raise

    return await in_thread(coordinator, encode)


def _joined_members(response: Any) -> list[JoinedMember]:
    return [
        JoinedMember(member[0], member[1] if len(member) == 3 else None, member[-1])
        for member in response.members
    ]


# ---- weights


async def weighed_topics(coordinator: Any, assignor: Assignor, topics: list[Topic]) -> list[Topic]:
    """The topics with their weights for a join. A failure of the source does not fail the join."""
    found: Weighed | NoWeightsError
    try:
        found = await ask_for_weights(coordinator, assignor, topics)
    except NoWeightsError as error:
        found = error
    return await in_thread(coordinator, assignor.weighed_for_join, coordinator, topics, found)


async def ask_for_weights(coordinator: Any, assignor: Assignor, topics: Sequence[Topic]) -> Weighed:
    """The topics with the weights that the assignor's source gives in time; raises `NoWeightsError`."""
    patience_s = assignor.weights_patience_s(coordinator._session_timeout_ms)
    source: Any = assignor.weights
    is_coroutine = inspect.iscoroutinefunction(source) or inspect.iscoroutinefunction(type(source).__call__)
    asked = assignor.ask_for_weights(coordinator, topics, _start if is_coroutine else ask_in_thread)
    if isinstance(asked, Future):
        asked = asyncio.wrap_future(asked)
    try:
        if isinstance(asked, asyncio.Future):
            # Retrieves the exception, however late it comes, so that asyncio does not log it.
            asked.add_done_callback(lambda one: one.cancelled() or one.exception())
            # Not `wait_for`: after its timeout it waits until the cancelled task has ended.
            await asyncio.wait([asked], timeout=patience_s)
        return await in_thread(coordinator, assignor.weigh_by, coordinator, topics, asked, patience_s)
    finally:
        if isinstance(asked, asyncio.Future):
            asked.cancel()


def _start(source: Any, topics: Mapping[str, int]) -> asyncio.Future[Any]:
    asked: asyncio.Future[Any] = asyncio.ensure_future(source(topics))
    return asked


# ---- threads


async def in_thread(coordinator: Any, function: Callable[..., Result], *arguments: Any) -> Result:
    """The result of `function` in a thread; KafkaError if too many earlier calls are unfinished."""
    calls: set[Future[Result]] | None = getattr(coordinator, "_kafka_assignors_calls", None)
    if calls is None:
        calls = coordinator._kafka_assignors_calls = set()
    if len(calls) >= LEADER_THREADS:
        raise KafkaError(
            f"the strategy of group {coordinator.group_id!r} has not returned from {len(calls)} calls in "
            "earlier generations: make it return within the group's rebalance_timeout_ms, or raise that"
        )
    call = ask_in_thread(function, *arguments, name="kafka-assignors-leader")
    calls.add(call)
    call.add_done_callback(calls.discard)
    return await asyncio.wrap_future(call)
