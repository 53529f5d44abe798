"""The work of a leader between its JoinGroup response and its SyncGroup request, the same for every client.

    read the members    in a thread: there may be many, and their bytes may be malformed
    watch               all topics of the group; the metadata of those that are unknown are fetched first
    ask for weights     if the assignor has a source of them
    assign and encode   in a thread

The coordinator accepts heartbeats while it waits for the leader, but not without limit: after the longest
rebalance timeout of all members it expels every member that has not sent its SyncGroup (`expirePendingSync`
in Kafka's `GroupMetadataManager`). The session learns it from a heartbeat, and `Client.give_up` ends the
work; the thread of a strategy that does not return goes on until it does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from logging import Logger
from typing import Any

from kafka_assignors.assignor import Assignor
from kafka_assignors.group import Topic
from kafka_assignors.leader import InvalidAssignmentError
from kafka_assignors.messages import DecodedMembers, EncodedAssignments, JoinGroupResponse
from kafka_assignors.rebalance import lease
from kafka_assignors.rebalance.client import Client
from kafka_assignors.rebalance.events import Membership

MOST_THREADS = 4
"""The most unfinished calls of one leader. It makes one call at a time; calls of earlier generations, which
the group did not wait for, go on until they return."""


def call_in_thread(function: Callable[..., Any], *arguments: Any, name: str) -> Future[Any]:
    """Call `function` in a thread of its own: a call that never returns would occupy a thread of a pool.

    The thread does not keep the process from ending, and cancelling the future does not stop it.
    """
    result: Future[Any] = Future()
    result.set_running_or_notify_cancel()

    def call() -> None:
        try:
            result.set_result(function(*arguments))
        except BaseException as error:  # the caller waits for the future, so every error goes there
            failure = error
            if isinstance(error, StopIteration):  # Before Python 3.12, futures of asyncio refuse it.
                failure = RuntimeError(f"it raised {error!r}")
                failure.__cause__ = error
            result.set_exception(failure)

    threading.Thread(target=call, name=name, daemon=True).start()
    return result


def ask_in_thread(source: Callable[..., Any], topics: Mapping[str, int]) -> Future[Any]:
    """Call a source of weights in a thread."""
    return call_in_thread(source, topics, name="kafka-assignors-weights")


class LeaderThreads:
    """The threads of one leader: each call has its own, which ends with the call.

    The threads of an application's executor may all wait for a commit, which no coordinator accepts before
    SyncGroup.
    """

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._unfinished: set[Future[Any]] = set()

    def call(self, function: Any, *arguments: Any) -> Future[Any]:
        """Call `function` in a thread; RuntimeError if too many earlier calls are unfinished."""
        if len(self._unfinished) >= MOST_THREADS:
            raise RuntimeError(
                f"the strategy of group {self._group_id!r} has not returned from {len(self._unfinished)} "
                "calls in earlier generations: make it return within the group's rebalance timeout, or raise "
                "that"
            )
        call = call_in_thread(function, *arguments, name="kafka-assignors-leader")
        self._unfinished.add(call)
        call.add_done_callback(self._unfinished.discard)
        return call


class Leader:
    """The work of one member whenever it leads its group."""

    def __init__(self, client: Client, group_id: str, log: Logger) -> None:
        self._client = client
        self._group_id = group_id
        self._log = log

    async def lead(
        self, assignor: Assignor, joined: JoinGroupResponse, *, waits: bool
    ) -> EncodedAssignments | None:
        """The assignment of each member; None if the member is out of the group before it is made.

        With `waits` it waits for newer metadata also of the topics that the client knows. Raises what the
        strategy or the client raises.
        """
        outcome: EncodedAssignments | None = None
        began_at = lease.clock()
        try:
            outcome = await self._assignments(assignor, joined, waits)
        except Exception:
            if self._is_member(joined):
                raise
        finally:  # Also when a client cancels the task.
            if not self._is_member(joined):
                outcome = None
                self._went_on(joined, lease.clock() - began_at)
        return outcome

    def _is_member(self, joined: JoinGroupResponse) -> bool:
        return self._client.member.membership == Membership(joined.member_id, joined.generation)

    def _went_on(self, joined: JoinGroupResponse, seconds: float) -> None:
        """Warn, unless the member left by itself."""
        member = self._client.member
        if member.closing or member.poll_interval_exceeded or not member.topics:
            return
        self._log.warning(
            "group %r went on without this consumer, the leader of generation %d, whose strategy %r has not "
            "finished after %.1f s. The coordinator waits for the longest rebalance timeout of all members "
            "(rebalance_timeout_ms, or max_poll_interval_ms in a client without it), which is %g s here: "
            "raise it, or use a faster strategy",
            self._group_id,
            joined.generation,
            joined.strategy,
            seconds,
            member.settings.rebalance_timeout,
        )

    async def _assignments(
        self, assignor: Assignor, joined: JoinGroupResponse, waits: bool
    ) -> EncodedAssignments | None:
        client, in_thread = self._client, self._client.in_thread
        members: DecodedMembers = await in_thread(assignor.read_members, joined.members)
        if not self._is_member(joined):  # The client's topics are those of another subscription by now.
            return None
        racks = assignor.must_follow_racks(member.rack for member in members.members)
        await client.watch(members.topics, racks=racks, waits=waits)
        if not self._is_member(joined):  # A close ends the request for metadata.
            return None
        topics = partial(client.remember_topics(), members.topics)
        if assignor.weights is not None:
            topics = partial(list, await in_thread(self._weighed, assignor, topics))
        outcome: EncodedAssignments = await in_thread(
            self._assign, assignor, members, topics, joined.generation
        )
        return outcome

    def _weighed(self, assignor: Assignor, topics: Callable[[], list[Topic]]) -> list[Topic]:
        """The topics with their weights. A failure of the source does not fail the join."""
        assert assignor.weights is not None
        client = self._client
        weighed = assignor.weights.weigh(client, topics(), client.member.settings.session_timeout, client.ask)
        # A lookup may be cancelled with all tasks of an application that ends.
        for finding in () if client.member.closing else weighed.findings:
            assignor.log.warning("%s: %s", assignor.name, finding)
        return weighed.topics

    def _assign(
        self, assignor: Assignor, members: DecodedMembers, topics: Callable[[], list[Topic]], generation: int
    ) -> EncodedAssignments:
        try:
            return assignor.encode_assignments(members, topics(), generation)
        except InvalidAssignmentError:
            raise  # It names the member and the strategy.
        except Exception:
            self._log.exception("strategy %r failed in group %r", assignor.name, self._group_id)
            raise
