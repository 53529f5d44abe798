"""An AIOKafkaConsumer that goes on consuming while its group rebalances."""

from __future__ import annotations

import asyncio
import inspect
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.abc import AbstractTokenProvider
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.consumer.subscription_state import SubscriptionState
from aiokafka.errors import ConsumerStoppedError, IllegalStateError
from aiokafka.util import wait_for

from kafka_assignors.arguments import (
    require_client_rack,
    require_group,
    require_intervals,
    require_reason,
    require_warming,
)
from kafka_assignors.assignor import Assignor, require_cooperative
from kafka_assignors.rebalance.events import RejoinRequested
from kafka_assignors.rebalance.observer import RebalanceObserver, require_observer
from kafka_assignors.rebalance.warm_ups import DEFAULT_MAX_WARMING, DEFAULT_WARM_TIMEOUT_S
from kafka_assignors.strategies.sticky import CooperativeSticky
from kafka_assignors_aiokafka._assignor import assignor
from kafka_assignors_aiokafka._client import end_stock, require_inside, require_ours
from kafka_assignors_aiokafka.cooperative.coordinator import CooperativeCoordinator
from kafka_assignors_aiokafka.cooperative.requests import close_silent_connections
from kafka_assignors_aiokafka.cooperative.subscription import CooperativeSubscriptionState

if TYPE_CHECKING:
    from typing_extensions import Unpack

_HAS_RACK = "client_rack" in inspect.signature(AIOKafkaConsumer).parameters


class ConsumerSettings(TypedDict, total=False):
    """The arguments of AIOKafkaConsumer, of aiokafka 0.10 to 0.14, that the cooperative consumer passes on.

    They mean what aiokafka's documentation says. aiokafka 0.13 has no `api_version`, and 0.14 ignores it.
    """

    loop: asyncio.AbstractEventLoop | None
    bootstrap_servers: str | Sequence[str]
    client_id: str
    group_instance_id: str | None
    key_deserializer: Callable[[Any], Any] | None
    value_deserializer: Callable[[Any], Any] | None
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    fetch_min_bytes: int
    max_partition_fetch_bytes: int
    request_timeout_ms: int
    retry_backoff_ms: int
    auto_offset_reset: Literal["earliest", "latest", "none"]
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    check_crcs: bool
    metadata_max_age_ms: int
    max_poll_interval_ms: int
    rebalance_timeout_ms: int | None
    session_timeout_ms: int
    heartbeat_interval_ms: int
    consumer_timeout_ms: int
    max_poll_records: int | None
    ssl_context: ssl.SSLContext | None
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    api_version: str | None
    exclude_internal_topics: bool
    connections_max_idle_ms: int | None
    isolation_level: Literal["read_uncommitted", "read_committed"]
    sasl_mechanism: Literal["PLAIN", "GSSAPI", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
    sasl_plain_username: str | None
    sasl_plain_password: str | None
    sasl_kerberos_service_name: str
    sasl_kerberos_domain_name: str | None
    sasl_oauth_token_provider: AbstractTokenProvider | None


class CooperativeAIOKafkaConsumer(AIOKafkaConsumer):  # type: ignore[misc]  # aiokafka has no types
    """An AIOKafkaConsumer with incremental cooperative rebalancing (KIP-429).

        consumer = CooperativeAIOKafkaConsumer("orders", group_id="g")

    Partitions that stay with this consumer are fetched, delivered and committed throughout a rebalance. The
    listener gets the changes alone: `on_partitions_revoked` before partitions leave, while they can still be
    committed; `on_partitions_assigned` for added partitions; and, if it has this method, `on_partitions_lost`
    for partitions that another member may already own. If a listener raises an exception, the next `getone`
    or `getmany` raises a KafkaError. See docs/consumers.md.
    """

    _closed: bool | None
    _subscription: Any

    if TYPE_CHECKING:  # aiokafka has these, without annotations.

        async def getone(self, *partitions: TopicPartition) -> ConsumerRecord[Any, Any]: ...

        async def __anext__(self) -> ConsumerRecord[Any, Any]: ...

    def __init__(
        self,
        *topics: str,
        group_id: str,
        partition_assignment_strategy: Sequence[Assignor] | None = None,
        client_rack: str | None = None,
        observer: RebalanceObserver | None = None,
        max_warming: int = DEFAULT_MAX_WARMING,
        warm_timeout_ms: float = 1000 * DEFAULT_WARM_TIMEOUT_S,
        **settings: Unpack[ConsumerSettings],
    ) -> None:
        """The arguments of AIOKafkaConsumer.

        `partition_assignment_strategy` lists assignors of this package, the preferred one first; by default
        `CooperativeStickyAssignor()` alone. If one of them is eager, so is the consumer, which the first step
        of an upgrade needs. The group learns `client_rack` with every release of aiokafka; the fetcher uses
        it from 0.14 on. `observer` gets rebalances, heartbeats and commits, for metrics; it is not a
        ConsumerRebalanceListener, and cannot take part in a rebalance.

        A listener whose `on_partitions_warming` is a coroutine function gets partitions when it is ready for
        them: it is called for at most `max_warming` at a time, and for `warm_timeout_ms` at most. See
        docs/stateful.md.

        TypeError or ValueError for invalid arguments; RuntimeError for a release of aiokafka that this class
        does not work with.
        """
        require_group(group_id, "AIOKafkaConsumer")
        if partition_assignment_strategy is None:
            partition_assignment_strategy = (assignor(CooperativeSticky()),)
        require_cooperative(partition_assignment_strategy, assignor, group_id)
        require_intervals(settings)
        self._rack_of_member = require_client_rack(client_rack)
        rack: dict[str, Any] = {"client_rack": client_rack} if _HAS_RACK else {}
        self._observer = require_observer("observer", observer)
        require_warming(max_warming, warm_timeout_ms)
        self._max_warming, self._warm_timeout_s = max_warming, warm_timeout_ms / 1000
        self._stopping: asyncio.Future[None] | None = None
        super().__init__(
            *topics,
            group_id=group_id,
            partition_assignment_strategy=partition_assignment_strategy,
            **rack,
            **settings,  # pyright: ignore[reportArgumentType]  # takes the type of a default for that of all
        )
        require_ours(getattr(self, "_subscription", None), CooperativeSubscriptionState)
        close_silent_connections(self._client, self._retry_backoff_ms / 1000)

    def __setattr__(self, name: str, value: Any) -> None:
        # aiokafka makes these two itself, and no argument changes that. So they are replaced when they are
        # assigned, before they are used.
        if type(value) is SubscriptionState:
            value = CooperativeSubscriptionState()
        elif type(value) is GroupCoordinator:
            value = self._cooperative(value)
        elif name == "_fetcher" and value is not None and self._closed:
            value.error_future.cancel()  # `stop` came while `start` was under way.
            raise ConsumerStoppedError
        elif isinstance(value, SubscriptionState) or name == "_subscription":
            require_ours(value, CooperativeSubscriptionState)
        elif isinstance(value, GroupCoordinator) or (name == "_coordinator" and value is not None):
            end_stock(value)
            require_ours(value, CooperativeCoordinator)
        super().__setattr__(name, value)

    async def start(self) -> None:
        """Connect, join the group, and return after the first assignment, which may be empty.

        See `wait_for_assignment`.
        """
        if self._closed and self._fetcher is None:
            raise ConsumerStoppedError
        try:
            await super().start()
            if self._subscription.subscribed_pattern is not None:
                # aiokafka knows no topics yet, and takes the pattern for one that matches none.
                while not await self._updated_metadata():
                    await asyncio.sleep(self._retry_backoff_ms / 1000)
                await self._subscription.wait_for_assignment()
        except ConsumerStoppedError:
            if self._coordinator is None:  # `stop` came before there was more than the client.
                await self._client.close()
            raise

    async def _updated_metadata(self) -> bool:
        """Whether newer metadata have arrived; ConsumerStoppedError if `stop` has ended updates before."""
        coordinator: Any = self._coordinator
        update = self._client.force_metadata_update()
        await asyncio.wait([update, coordinator._closing], return_when=asyncio.FIRST_COMPLETED)
        if self._closed:
            raise ConsumerStoppedError
        return bool(update.result())

    async def wait_for_assignment(self, *, timeout_ms: float | None = None) -> set[TopicPartition]:
        """Wait until this consumer has a partition; return its partitions, or an empty set after the timeout.

        A new member has to wait until other members have revoked its partitions, so `start` often returns
        before that. In a group with more members than partitions it may get none. The wait is a call for
        records: it counts for `max_poll_interval_ms`, and raises the errors that `getone` would.
        """
        if self._closed:
            raise ConsumerStoppedError
        if self._coordinator is None:
            raise IllegalStateError("wait_for_assignment() comes after start()")
        self._coordinator.check_errors()
        timeout_s = None if timeout_ms is None else timeout_ms / 1000
        with suppress(asyncio.TimeoutError):
            await wait_for(self._until_assigned(), timeout_s)
        return set(self.assignment())

    async def _until_assigned(self) -> None:
        with self._subscription.fetch_context():
            while not self.assignment():
                await self._subscription.wait_for_change()

    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord[Any, Any]]]:
        """As in AIOKafkaConsumer."""
        was_stopped = self._closed
        try:
            records: dict[TopicPartition, list[ConsumerRecord[Any, Any]]] = await super().getmany(
                *partitions, timeout_ms=timeout_ms, max_records=max_records
            )
        except ConsumerStoppedError:
            if was_stopped:
                raise
            return {}  # As if it had waited for records, not for an assignment.
        return records

    async def seek_to_beginning(self, *partitions: TopicPartition) -> bool:
        """As in AIOKafkaConsumer; also False if a partition leaves meanwhile."""
        states = self._subscription.states_of(partitions)
        return bool(await super().seek_to_beginning(*partitions)) and not states.any_departed()

    async def seek_to_end(self, *partitions: TopicPartition) -> bool:
        """As in AIOKafkaConsumer; also False if a partition leaves meanwhile."""
        states = self._subscription.states_of(partitions)
        return bool(await super().seek_to_end(*partitions)) and not states.any_departed()

    async def commit(self, offsets: Mapping[TopicPartition, Any] | None = None) -> None:
        """As in AIOKafkaConsumer."""
        state = self._subscription
        if state.partitions_auto_assigned() and not state.was_assigned:
            raise IllegalStateError("No partitions assigned")
        await super().commit(offsets)

    async def stop(self) -> None:
        """Commit if commits are automatic, revoke all partitions, leave the group, and close all connections.

        A call of the listener may take `max_poll_interval_ms`. If `stop` is cancelled, the consumer goes on
        stopping, and another call of `stop` waits for the end. Called by the listener, `stop` returns at
        once, and the consumer stops when the listener has returned.
        """
        if self._stopping is None:
            if self._closed:
                return
            self._closed = True
        if self._stopping is None or self._stopping.cancelled():
            self._stopping = asyncio.ensure_future(self._stop())
        if not self._subscription.is_called_by_listener:  # The close waits for the end of that call.
            await asyncio.shield(self._stopping)

    async def _stop(self) -> None:
        failure: Exception | None = None
        closes = [self._close_fetcher, self._client.close]
        if self._coordinator is not None:
            closes.insert(0, self._coordinator.close)
        for close in closes:
            try:
                await close()
            except Exception as error:
                failure = failure or error
        if failure is not None:
            raise failure

    async def _close_fetcher(self) -> None:
        """End all tasks, then close. aiokafka's `close` stops at a task that is cancelled before it runs."""
        fetcher = self._fetcher
        if fetcher is None:
            return
        fetcher._fetch_task.cancel()
        await asyncio.wait([fetcher._fetch_task])
        for task in fetcher._pending_tasks:
            task.cancel()
        await asyncio.gather(*fetcher._pending_tasks, return_exceptions=True)
        fetcher._pending_tasks.clear()
        await fetcher.close()

    def enforce_rebalance(self, reason: str | None = None) -> None:
        """Make this member rejoin, so that the group gets its strategy's current `member_data` (KIP-568).

        Returns at once; the member keeps its partitions until the group decides otherwise. Call it on the
        event loop. Before the first join it does nothing. `reason` is for the log; TypeError if it is not a
        str.
        """
        asked = RejoinRequested(require_reason(reason))
        if isinstance(self._coordinator, CooperativeCoordinator):
            self._coordinator.handle(asked)

    async def drain(self, *, timeout_ms: float | None = None) -> bool:
        """Let other members take over all partitions, each when its next owner is ready; then `stop`.

        The consumer goes on meanwhile: call this beside the loop that gets records. False if partitions are
        left after the timeout; at once, with a warning in the log, if the leader of the group knows nothing
        of warm handoff, or if this member is static or eager. IllegalStateError if the listener calls it, or
        a task that it started and that runs before it has returned, since the joins that hand over wait for
        the listener to return.
        """
        if self._closed:
            raise ConsumerStoppedError
        if self._subscription.is_called_by_listener:
            raise IllegalStateError("drain() waits for joins, which wait for the listener that calls it")
        if not isinstance(self._coordinator, CooperativeCoordinator):
            raise IllegalStateError("drain() comes after start()")
        return await self._coordinator.drain(None if timeout_ms is None else timeout_ms / 1000)

    def _cooperative(self, stock: GroupCoordinator) -> CooperativeCoordinator:
        end_stock(stock)
        require_inside(stock, self._fetcher)
        return CooperativeCoordinator(
            self._client,
            self._subscription,
            fetcher=self._fetcher,
            rack=self._rack_of_member,
            observer=self._observer,
            max_warming=self._max_warming,
            warm_timeout_s=self._warm_timeout_s,
            group_id=self._group_id,
            group_instance_id=self._group_instance_id,
            heartbeat_interval_ms=self._heartbeat_interval_ms,
            session_timeout_ms=self._session_timeout_ms,
            retry_backoff_ms=self._retry_backoff_ms,
            enable_auto_commit=self._enable_auto_commit,
            auto_commit_interval_ms=self._auto_commit_interval_ms,
            assignors=self._partition_assignment_strategy,
            exclude_internal_topics=self._exclude_internal_topics,
            rebalance_timeout_ms=self._rebalance_timeout_ms,
            max_poll_interval_ms=self._max_poll_interval_ms,
        )
