"""What a session needs of a client: its requests, tasks and metadata, and what it does for its user.

A plugin implements `Client` with its coordinator. All of it runs on the client's event loop: that of asyncio,
or the one of kafka-python's I/O thread. The session awaits nothing but what a client returns, so it needs no
loop of its own.
"""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence, Set
from concurrent import futures
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from kafka_assignors.group import Topic
from kafka_assignors.messages import JoinGroupResponse, SyncGroupResponse
from kafka_assignors.rebalance.error_codes import Errors
from kafka_assignors.rebalance.events import Event, Membership, Partition, Partitions
from kafka_assignors.rebalance.member import MemberState

if TYPE_CHECKING:
    from kafka_assignors.rebalance.warm_ups import WarmUp


class Wakeup(Protocol):
    """A wait that ends early."""

    async def __call__(self, timeout_s: float | None = None, /) -> None:
        """Wait for a `notify` since the last wait, for at most `timeout_s`."""
        ...

    def notify(self) -> None:
        """End the wait."""
        ...


class Outcome:
    """The result of an operation that one caller waits for, such as a commit."""

    def __init__(self, client: Client) -> None:
        self._ended = client.wakeup()
        self._errors = client.errors
        self._is_open = True
        self._error: Exception | None = None

    def resolve(self, error: Exception | None = None) -> None:
        """End the operation, with an error if one is given. Only the first call has an effect."""
        if self._is_open:
            self._is_open, self._error = False, error
            self._ended.notify()

    async def wait(self, timeout_s: float | None) -> None:
        """Wait for the end; raises its error, or the client's KafkaTimeoutError."""
        await self._ended(timeout_s)
        if self._is_open:
            raise self._errors.KafkaTimeoutError(f"not committed within {timeout_s:g} s")
        if self._error is not None:
            raise self._error


class Client(Protocol):
    """One member of a group, as a client runs it: it holds the machine, and carries out its actions."""

    errors: Errors

    # ---- the machine, and its user

    @property
    def member(self) -> MemberState:
        """The machine as it is now."""
        ...

    @property
    def retries_commits(self) -> bool:
        """Whether a commit without a response is sent again, until its caller's timeout."""
        ...

    def handle(self, event: Event, /) -> None:
        """Tell the machine what happened, and carry out its actions."""
        ...

    def seconds_since_poll(self) -> float:
        """How long ago the user polled, without the time of a suspended computer."""
        ...

    def raise_to_user(self, error: Exception, /) -> None:
        """Raise an error in the user's call for records, the current or the next one."""
        ...

    @property
    def user_was_told(self) -> bool:
        """Whether the user has the last error and may have corrected its cause, or makes no call any more."""
        ...

    def heartbeat_ended(self, error: Exception | None, /, *, accepted: bool) -> None:
        """A heartbeat was answered, or not. `error` is for the user; `accepted` withdraws an earlier one."""
        ...

    # ---- warm-ups

    @property
    def warms(self) -> bool:
        """Whether the user's listener has `on_partitions_warming`."""
        ...

    def warm_up(self, partitions: Partitions, /) -> WarmUp:
        """Begin a call of `on_partitions_warming`."""
        ...

    # ---- topics

    def stop_leading(self) -> None:
        """A join begins: watch no topics of other members."""
        ...

    async def watch(self, topics: Set[str], /, *, racks: bool, waits: bool) -> None:
        """As the leader, watch the topics of the group, with `racks` the racks of their replicas too.

        Returns when it knows the unknown ones, and `waits` a moment for newer metadata of the others.
        """
        ...

    def remember_topics(self) -> Callable[[Iterable[str]], list[Topic]]:
        """From here on a change of the watched topics makes the member join again.

        Returns a function, for any thread, that gives those topics of these names that the client knows now.
        """
        ...

    def partition_count(self, topic: str, /) -> int | None:
        """The number of partitions of a topic in the client's metadata; None if they do not have it."""
        ...

    async def refresh_metadata(self) -> None:
        """Get newer metadata, if they come soon."""
        ...

    def assigned(self, partitions: Partitions, /, *, racks: bool) -> None:
        """The member was assigned: watch the topics that make it rejoin, with `racks` their replicas too."""
        ...

    # ---- the event loop

    def spawn(self, task: Coroutine[Any, Any, None], /) -> object:
        """Run a task. If it raises, the consumer cannot go on."""
        ...

    async def in_thread(self, function: Callable[..., Any], /, *arguments: Any) -> Any:
        """The result of `function`, called in a thread of its own (`lead.LeaderThreads`), or its error.

        The thread does not keep the process from ending, and the consumer does not wait for it to close.
        """
        ...

    def ask(self, source: Callable[..., Any], topics: Mapping[str, int], /) -> futures.Future[Any]:
        """Call a source of weights, in a thread or on the event loop. Any thread may call this."""
        ...

    def wakeup(self) -> Wakeup:
        """A new wakeup."""
        ...

    async def back_off(self) -> None:
        """Wait for the client's retry backoff."""
        ...

    # ---- requests

    async def find_coordinator(self, timeout_s: float) -> None:
        """Wait until the coordinator is known. Raises the client's KafkaError, also after the timeout."""
        ...

    def forget_coordinator(self, error_code: int) -> None:
        """The coordinator has moved, says this error code: look it up before the next request."""
        ...

    async def join_group(
        self, member_id: str, protocols: Sequence[tuple[str, bytes]], reason: str
    ) -> JoinGroupResponse:
        """Send JoinGroup; `protocols` are names and subscriptions, the preferred strategy first.

        This and the following raise the client's KafkaError if there is no response. JoinGroup and SyncGroup
        need a connection of their own: a broker answers the requests of a connection one by one, and
        JoinGroup when the last member has joined.
        """
        ...

    async def sync_group(
        self, membership: Membership, strategy: str, assignments: Mapping[str, bytes]
    ) -> SyncGroupResponse:
        """Send SyncGroup; a leader has `assignments`, by member id."""
        ...

    async def send_heartbeat(self, membership: Membership) -> int:
        """Send Heartbeat; returns the error code."""
        ...

    async def leave_group(self, member_id: str, reason: str) -> None:
        """Send LeaveGroup, and wait for the response, whose error code does not matter."""
        ...

    def check_offsets(self, offsets: Mapping[Any, Any], /) -> None:
        """Raise what the client raises for offsets, as the user gave them, that it cannot send."""
        ...

    def is_ready(self) -> bool:
        """Whether the coordinator is known, and a request to it would be written at once."""
        ...

    async def connect(self, timeout_s: float) -> None:
        """Wait until `is_ready`. Raises the client's KafkaError, also after the timeout."""
        ...

    def offset_commit(
        self, membership: Membership, offsets: Mapping[Any, Any]
    ) -> Awaitable[Mapping[Partition, int]]:
        """Write OffsetCommit, with the client's own values, before returning. Only while `is_ready`.

        The awaitable returns an error code for each partition. If it raises, the connection is closed, and
        sends nothing of the request any more: what its socket has not sent is dropped.
        """
        ...

    def give_up(self, join: object) -> None:
        """Wait no longer for the response to a JoinGroup or SyncGroup, nor for calls of `in_thread`.

        `join` is what `spawn` returned. The member is out of the group, and a coordinator never answers its
        SyncGroup then (`removeCurrentMemberFromClassicGroup` in Kafka's `GroupMetadataManager`), nor what is
        sent later on the same connection.
        """
        ...


def drop_unsent(connected: Any, *, when_closed: bool) -> None:
    """Set whether the operating system drops what a socket has not sent when it is closed.

    Otherwise it goes on sending for minutes after a network was interrupted, behind the requests of the next
    connection. For an OffsetCommit that has no response yet.
    """
    linger = struct.pack("hh" if sys.platform == "win32" else "ii", when_closed, 0)
    # It is closed already, and None with TLS; uvloop has no real socket.
    with suppress(OSError, AttributeError, TypeError):
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
