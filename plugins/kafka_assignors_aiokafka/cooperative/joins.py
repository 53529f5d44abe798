"""JoinGroup and SyncGroup: what is sent when the machine says so, and what it is told of the answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import aiokafka.errors as Errors

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
from kafka_assignors_aiokafka._leading import lead
from kafka_assignors_aiokafka._topics import (
    REFRESH_TIMEOUT_S,
    refresh,
    rejoin_if_topics_changed,
    watch,
    watch_topics_if_static,
)
from kafka_assignors_aiokafka.cooperative import requests

__all__ = ["Joins"]

log = logging.getLogger("kafka_assignors_aiokafka")


class Joins:
    """The joins of one coordinator, of which one is under way at most.

    Attributes:
        protocol: what all strategies that are offered have in common.
        under_way: done when the last request of a join was answered, and its answer reported.
    """

    def __init__(self, coordinator: Any, assignors: Sequence[Assignor], rack: str | None) -> None:
        self._coordinator = coordinator
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._rack = rack
        self.protocol = common_protocol(assignor.strategy for assignor in assignors)
        self.under_way: asyncio.Future[None] | None = None
        self._joined: Any = None
        self._last = NEVER_ASSIGNED
        self._warned = False

    @property
    def are_answered(self) -> bool:
        """Whether no join is under way, one that the machine has given up included."""
        return self.under_way is None or self.under_way.done()

    def give_up(self) -> None:
        """Wait no longer for the answer to a request of a member that has left.

        The coordinator never answers its SyncGroup (`removeCurrentMemberFromClassicGroup` in Kafka's
        `GroupMetadataManager`), and what was sent after that on the same connection would wait as well.
        """
        if self.under_way is None or self.are_answered:
            return
        self.under_way.cancel()
        coordinator = self._coordinator
        connection = coordinator._client._conns.get((coordinator.coordinator_id, requests.JOINING))
        if connection is not None:
            connection.close()

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
        coordinator._group_subscription = None
        request = requests.join_group(
            coordinator.group_id,
            coordinator._session_timeout_ms,
            coordinator._rebalance_timeout_ms,
            join.membership.member_id,
            coordinator._group_instance_id,
            [(name, self._subscription(one, join, topics)) for name, one in self._assignors.items()],
        )
        try:
            response = await coordinator._send_req(request)
        except Errors.KafkaError:
            await coordinator.back_off()
            coordinator.handle(JoinFailed(join.attempt, Answer.OTHER))
            return
        if response.error_code == 0:
            self._joined = response
            self._warn_if_broker_assigns(response)
            membership = Membership(response.member_id, response.generation_id)
            coordinator.handle(Joined(join.attempt, membership))
        elif response.error_code == requests.MEMBER_ID_REQUIRED:
            coordinator.handle(JoinFailed(join.attempt, Answer.OTHER, response.member_id))
        else:
            coordinator.handle(JoinFailed(join.attempt, await self._refusal(response.error_code)))

    def _subscription(self, assignor: Assignor, join: SendJoin, topics: frozenset[str]) -> bytes:
        held = self.protocol is RebalanceProtocol.COOPERATIVE
        last = LastAssignment(_by_topic(join.owned), join.membership.generation) if held else self._last
        instance_id = self._coordinator._group_instance_id
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
        if joined.leader_id and joined.leader_id == joined.member_id:
            try:
                assignor = self._assignors[joined.group_protocol]
                assignments = await lead(coordinator, assignor, joined, self._refresh_topics)
            except Exception as error:
                await self._fail(membership, Errors.KafkaError(repr(error)))
                return
            if not assignments:
                coordinator.handle(SyncFailed(membership, Answer.OTHER))
                return
        sent_at = clock.including_suspend()
        try:
            response = await coordinator._send_req(
                requests.sync_group(
                    coordinator.group_id, membership, coordinator._group_instance_id, assignments
                )
            )
        except Errors.KafkaError:
            await coordinator.back_off()
            coordinator.handle(SyncFailed(membership, Answer.OTHER))
            return
        if response.error_code != 0:
            coordinator.handle(SyncFailed(membership, await self._refusal(response.error_code)))
            return
        try:
            assigned = await self._assigned(response.member_assignment, joined.leader_id)
        except ProtocolError as error:
            await self._fail(membership, Errors.KafkaError(str(error)))
            return
        self._last = LastAssignment(assigned.partitions, membership.generation)
        fits = not assigned.findings
        coordinator.handle(Assigned(membership, frozenset(assigned.pairs), sent_at, fits))
        coordinator.expect_another_round()
        strategy = self._assignors.get(joined.group_protocol)
        racks = strategy is not None and strategy.must_follow_racks([self._rack])
        watch_topics_if_static(coordinator, racks=racks)
        rejoin_if_topics_changed(coordinator)

    async def _assigned(self, data: bytes, leader_id: str) -> OwnAssignment:
        """What this member takes of an assignment; raises `ProtocolError`."""
        coordinator = self._coordinator

        def partition_count(topic: str) -> int | None:
            known = coordinator._cluster.partitions_for_topic(topic)
            return None if known is None else len(known)

        read = partial(read_assignment, data, leader_id, coordinator.joined_topics, partition_count)
        assigned = read()
        if assigned.lacks_metadata:
            await asyncio.wait([coordinator._client.force_metadata_update()], timeout=REFRESH_TIMEOUT_S)
            assigned = read()
        for finding in assigned.findings:
            log.warning("group %r: %s", coordinator.group_id, finding)
        return assigned

    async def _tell_user(self, what: str, error: Exception) -> None:
        """Tell the user what should not have failed, and wait until it makes sense to join again."""
        coordinator = self._coordinator
        await coordinator._push_error_to_user(coordinator.unexpected(what, error))
        await coordinator.back_off()

    async def _fail(self, membership: Membership, error: Errors.KafkaError) -> None:
        await self._coordinator._push_error_to_user(error)
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
            await coordinator._push_error_to_user(requests.error_of(error_code, coordinator.group_id))
        return answer

    async def _refresh_topics(self, _: Any, topics: Iterable[str]) -> None:
        """Get the metadata of all topics of the group; wait only for those that are not known yet.

        The others may have got partitions. Then the leader, which learns of it in a moment, rejoins. While
        everybody goes on consuming, that costs less than to wait in every round: the request for metadata
        comes after a fetch, which a broker answers when there are records or `fetch_max_wait_ms` have passed.
        """
        coordinator = self._coordinator
        if self.protocol is RebalanceProtocol.EAGER or coordinator._subscription.subscribed_pattern:
            await refresh(coordinator, topics)
            return
        await watch(coordinator, topics)
        learning = coordinator._client.set_topics(coordinator._group_subscription)
        if learning.done():
            coordinator._client.force_metadata_update()
        else:
            await learning

    def _warn_if_broker_assigns(self, response: Any) -> None:
        if response.leader_id == "" and not self._warned:
            self._warned = True
            log.warning("%s", broker_assigns(self._coordinator.group_id, self._assignors))


def _by_topic(partitions: Partitions) -> Mapping[str, list[int]]:
    grouped: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        grouped.setdefault(topic, []).append(number)
    return grouped
