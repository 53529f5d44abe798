"""What a leader does between the answer to its JoinGroup and its SyncGroup request.

    read the members        in a thread: theirs are other people's bytes, and there may be many
    refresh the metadata    of all topics of the group
    ask for weights         if the assignor has a source of weights, with its timeout
    assign                  in a thread
    all the while           heartbeats

aiokafka sends heartbeats only after the join. A coordinator counts the session of a member that it has
answered from that answer on, and accepts heartbeats while it waits for the leader, so one that thinks for
longer than `session_timeout_ms` without them is expelled. (Its followers have sent their SyncGroup, and a
member that awaits the answer to it is never expelled: `hasSatisfiedHeartbeat` in Kafka's
`ClassicGroupMember`.)

Heartbeats do not buy time without end. After the longest `rebalance_timeout_ms` of all members the
coordinator expels every member that has not sent its SyncGroup (`expirePendingSync` in Kafka's
`GroupMetadataManager`). A leader that is told so drops what it computes and joins again.

A follower that waits for longer than its `request_timeout_ms` joins again. While the leader assigns, the
coordinator sends it back to wait in the same generation if it joins with the same bytes; if they differ, it
begins another rebalance (`classicGroupJoinExistingMember` in Kafka's `GroupMetadataManager`), and what the
leader computes is refused. Members of the stock consumer send the same bytes, unless the strategy's
`member_data` has changed. A cooperative member does not: it claims what it owns with the generation of the
last JoinGroup response, as in Java. So it waits for longer than `rebalance_timeout_ms`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, TypeAlias

from aiokafka.errors import KafkaError

from kafka_assignors.assignor import Assignor
from kafka_assignors.group import Topic
from kafka_assignors.leader import InvalidAssignmentError
from kafka_assignors.leader_bytes import JoinedMember
from kafka_assignors_aiokafka._threads import in_thread
from kafka_assignors_aiokafka._topics import assign_by_what_is_known, follow_racks, known_topics, refresh
from kafka_assignors_aiokafka._weights import weighed_topics

__all__ = ["lead_group"]


Refresh: TypeAlias = Callable[[Any, Iterable[str]], Awaitable[None]]
"""Has a coordinator get the metadata of all topics of the group."""


async def lead_group(
    coordinator: Any, assignor: Assignor, response: Any, refresh_topics: Refresh = refresh
) -> Mapping[str, bytes]:
    """The assignment of every member, given the JoinGroup response; {} if the group went on without us.

    Raises the strategy's exception, and KafkaError, which no caller sees, if the consumer is being stopped.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    assigning = asyncio.ensure_future(_assign(coordinator, assignor, response, refresh_topics))
    try:
        while True:
            await asyncio.wait(
                [assigning, coordinator._closing],
                timeout=_heartbeat_pause_s(coordinator),
                return_when=asyncio.FIRST_COMPLETED,
            )
            if assigning.done():
                return assigning.result()
            if coordinator._closing.done():
                raise KafkaError("the consumer is being stopped")
            # If a heartbeat cannot be sent, neither can the SyncGroup request, and that one handles it. A
            # group that is preparing the next rebalance waits for us, until then as before.
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
                # aiokafka has forgotten its member id, so no member takes this for an assignment, and it
                # rejoins.
                return {}
    finally:
        assigning.cancel()


async def _assign(
    coordinator: Any, assignor: Assignor, response: Any, refresh_topics: Refresh
) -> Mapping[str, bytes]:
    joined = await in_thread(coordinator, assignor.read_members, _joined_members(response))
    racks = (member.rack for member in joined.members)
    watch = follow_racks(coordinator, assignor.must_follow_racks(racks))
    await refresh_topics(coordinator, joined.topics)
    assign_by_what_is_known(coordinator, response.generation_id)
    known = known_topics(coordinator._cluster, watch)
    topics: list[Topic] | None = None
    if assignor.weights is not None:
        topics = await weighed_topics(coordinator, assignor, known(joined.topics))

    def encode() -> Mapping[str, bytes]:
        try:
            return assignor.encode_assignments(
                joined, known(joined.topics) if topics is None else topics, response.generation_id
            )
        except InvalidAssignmentError:
            raise
        except Exception:
            # aiokafka makes a KafkaError of it that has neither a cause nor a line.
            assignor.log.exception("strategy %r failed in group %r", assignor.name, coordinator.group_id)
            raise

    return await in_thread(coordinator, encode)


def _joined_members(response: Any) -> list[JoinedMember]:
    return [
        JoinedMember(member[0], member[1] if len(member) == 3 else None, member[-1])
        for member in response.members
    ]


def _heartbeat_pause_s(coordinator: Any) -> float:
    pause_ms: float = min(coordinator._heartbeat_interval_ms, coordinator._session_timeout_ms / 3)
    return pause_ms / 1000
