"""JoinGroup and SyncGroup: what is sent when the machine says so, and what it is told of the answers.

All of it runs on kafka-python's I/O thread, but for two things of a leader, which have threads of their own:
its strategy, and to decode what members sent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from kafka import errors as Errors
from kafka.future import Future

from kafka_assignors.assignor import Assignor
from kafka_assignors.joining import (
    NEVER_ASSIGNED,
    LastAssignment,
    OwnAssignment,
    broker_assigns,
    read_assignment,
)
from kafka_assignors.protocol import ProtocolError
from kafka_assignors.rebalance import clock, common_protocol
from kafka_assignors.rebalance.answers import MEMBER_ID_REQUIRED
from kafka_assignors.rebalance.values import (
    Answer,
    Assigned,
    Joined,
    JoinFailed,
    Membership,
    Partitions,
    SendJoin,
    SyncFailed,
)
from kafka_assignors.strategy import RebalanceProtocol
from kafka_assignors_kafka_python._client import watch_topics_if_static
from kafka_assignors_kafka_python._client.leading import Leading, read_members, run_in_background
from kafka_assignors_kafka_python._client.v3 import refresh_metadata
from kafka_assignors_kafka_python.cooperative import requests

__all__ = ["Joins"]

T = TypeVar("T")

_REFRESH_TIMEOUT_MS = 1000.0
"""How long a member waits for newer metadata when an assignment has more than it knows of."""

log = logging.getLogger("kafka_assignors_kafka_python")


class Joins:
    """The joins of one coordinator, of which one is under way at most.

    Attributes:
        protocol: what all strategies that are offered have in common.
        under_way: done when the last request of a join was answered, and its answer reported.
        strategy: the name that the group voted for last.
    """

    def __init__(self, coordinator: Any, assignors: Iterable[Assignor], rack: str | None) -> None:
        self._coordinator = coordinator
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._rack = rack
        self.protocol = common_protocol(one.strategy for one in self._assignors.values())
        self.under_way: Any = None
        self.strategy = ""
        self._joined: Any = None
        self._last = NEVER_ASSIGNED
        self._warned = False

    @property
    def are_answered(self) -> bool:
        """Whether no join is under way, one that the machine has given up included."""
        return self.under_way is None or bool(self.under_way.is_done)

    async def join(self, join: SendJoin, topics: frozenset[str]) -> None:
        """Send JoinGroup, with all strategies at once.

        The user is told of any exception, such as one of a strategy's `member_data`; then the join is tried
        again.
        """
        try:
            await self._join(join, topics)
        except Exception as error:
            await self._tell_user("the request to join could not be made", error)
            self._coordinator.handle(JoinFailed(join.attempt, Answer.OTHER))

    async def _join(self, join: SendJoin, topics: frozenset[str]) -> None:
        coordinator = self._coordinator
        log.info("group %r: joining: %s", coordinator.group_id, join.reason)
        coordinator.stop_leading()
        request = requests.join_group(
            join,
            coordinator.group_id,
            coordinator.group_instance_id,
            coordinator.config["session_timeout_ms"],
            coordinator.config["max_poll_interval_ms"],
            [(name, self._subscription(one, join, topics)) for name, one in self._assignors.items()],
        )
        try:
            response = await coordinator.send(request, joining=True)
        except Errors.KafkaError:
            await coordinator.back_off()
            coordinator.handle(JoinFailed(join.attempt, Answer.OTHER))
            return
        if response.error_code == 0:
            self._joined = response
            self.strategy = response.protocol_name
            self._warn_if_broker_assigns(response)
            membership = Membership(response.member_id, response.generation_id)
            coordinator.handle(Joined(join.attempt, membership))
        elif response.error_code == MEMBER_ID_REQUIRED:
            coordinator.handle(JoinFailed(join.attempt, Answer.OTHER, response.member_id))
        else:
            coordinator.handle(JoinFailed(join.attempt, await self._refusal(response.error_code)))

    def _subscription(self, assignor: Assignor, join: SendJoin, topics: frozenset[str]) -> bytes:
        held = self.protocol is RebalanceProtocol.COOPERATIVE
        last = LastAssignment(_by_topic(join.owned), join.membership.generation) if held else self._last
        instance_id = self._coordinator.group_instance_id
        return assignor.subscription_with(last, topics, instance_id, self._rack, held=held)

    async def sync(self, membership: Membership) -> None:
        """Send SyncGroup, as the leader after having assigned. The user is told of any exception."""
        try:
            await self._sync(membership)
        except Exception as error:
            await self._tell_user("its assignment could not be had", error)
            self._coordinator.handle(SyncFailed(membership, Answer.OTHER))

    async def _sync(self, membership: Membership) -> None:
        coordinator, joined = self._coordinator, self._joined
        log.info(
            "group %r: joined generation %d as %s",
            coordinator.group_id,
            membership.generation,
            membership.member_id,
        )
        assignments: Mapping[str, bytes] = {}
        if joined.leader and joined.leader == joined.member_id:
            try:
                assignments = await self._lead(joined)
            except Exception as error:
                await self._fail(membership, Errors.KafkaError(repr(error)), error)
                return
        sent_at = clock.including_suspend()
        try:
            response = await coordinator.send(
                requests.sync_group(
                    coordinator.group_id,
                    membership,
                    coordinator.group_instance_id,
                    joined.protocol_name,
                    assignments,
                ),
                joining=True,
            )
        except Errors.KafkaError:
            await coordinator.back_off()
            coordinator.handle(SyncFailed(membership, Answer.OTHER))
            return
        if response.error_code != 0:
            coordinator.handle(SyncFailed(membership, await self._refusal(response.error_code)))
            return
        try:
            assigned = await self._assigned(bytes(response.assignment or b""), joined.leader)
        except ProtocolError as error:
            await self._fail(membership, Errors.KafkaError(str(error)), error)
            return
        self._last = LastAssignment(assigned.partitions, membership.generation)
        fits = not assigned.findings
        coordinator.handle(Assigned(membership, frozenset(assigned.pairs), sent_at, fits))
        assignor = self._assignors.get(self.strategy)
        racks = assignor is not None and assignor.must_follow_racks([self._rack])
        watch_topics_if_static(coordinator, assigned.partitions.keys(), racks=racks)
        coordinator.was_assigned()

    async def _assigned(self, data: bytes, leader_id: str) -> OwnAssignment:
        """What this member takes of an assignment; raises `ProtocolError`."""
        coordinator = self._coordinator

        def partition_count(topic: str) -> int | None:
            known = coordinator._cluster.partitions_for_topic(topic)
            return None if known is None else len(known)

        read = partial(read_assignment, data, leader_id, coordinator.joined_topics, partition_count)
        assigned = read()
        if assigned.lacks_metadata:
            refreshed = coordinator.start(refresh_metadata, coordinator._cluster)
            with suppress(Errors.KafkaError):
                await coordinator.wait_for(refreshed, _REFRESH_TIMEOUT_MS)
            assigned = read()
        for finding in assigned.findings:
            log.warning("group %r: %s", coordinator.group_id, finding)
        return assigned

    async def _lead(self, joined: Any) -> Mapping[str, bytes]:
        """What every member gets. Raises what the strategy raises."""
        coordinator = self._coordinator
        assignor = self._assignors[joined.protocol_name]
        decoded = await self._in_background(lambda: read_members(assignor, joined.members))
        leading = Leading(coordinator, assignor, decoded, joined.generation_id)
        # While everybody goes on consuming, newer metadata of known topics need not be waited for: their
        # request comes after a fetch, which may take `fetch_max_wait_ms`. If they differ, the leader rejoins.
        refreshed = coordinator.start(refresh_metadata, coordinator._cluster)
        if self.protocol is RebalanceProtocol.EAGER or not coordinator.knows_topics_of_group():
            with suppress(Errors.KafkaError):
                await coordinator.wait_for(refreshed, leading.metadata_timeout_s * 1000)
        leading.read_metadata()
        await self._in_background(leading.think)
        return leading.finish()

    async def _in_background(self, function: Callable[[], T]) -> T:
        """Run something of the leader's in a thread of its own, while the I/O thread goes on."""
        done: Any = Future()

        def run() -> None:
            tell: Any
            outcome: Any
            try:
                tell, outcome = done.success, function()
            except Exception as error:
                tell, outcome = done.failure, error
            with suppress(Exception):  # The I/O thread has ended: the consumer was closed, and nothing waits.
                self._coordinator.start(tell, outcome)

        run_in_background(run)
        outcome: T = await done
        return outcome

    async def _tell_user(self, what: str, error: Exception) -> None:
        """Tell the user what should not have failed, and wait until it makes sense to join again."""
        coordinator = self._coordinator
        await coordinator.errors.raise_in_poll(coordinator.unexpected(what, error))
        await coordinator.back_off()

    async def _fail(self, membership: Membership, error: Errors.KafkaError, cause: Exception) -> None:
        error.__cause__ = cause
        log.error("group %r: %s", self._coordinator.group_id, error, exc_info=cause)
        await self._coordinator.errors.raise_in_poll(error)
        self._coordinator.handle(SyncFailed(membership, Answer.OTHER))

    async def _refusal(self, error_code: int) -> Answer:
        """What an error says, as soon as it makes sense to join again.

        That is at once, or in a moment, or when the user has been told.
        """
        coordinator = self._coordinator
        answer: Answer = coordinator.settle(error_code)
        if answer is Answer.OTHER and requests.is_transient(error_code):
            await coordinator.back_off()
        elif answer is Answer.OTHER:
            await coordinator.errors.raise_in_poll(requests.error_of(error_code, coordinator.group_id))
        return answer

    def _warn_if_broker_assigns(self, response: Any) -> None:
        if response.leader == "" and not self._warned:
            self._warned = True
            log.warning("%s", broker_assigns(self._coordinator.group_id, self._assignors))


def _by_topic(partitions: Partitions) -> Mapping[str, list[int]]:
    grouped: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        grouped.setdefault(topic, []).append(number)
    return grouped
