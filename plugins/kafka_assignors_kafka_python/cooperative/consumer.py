# pyright: reportAttributeAccessIssue=false, reportCallIssue=false
"""A KafkaConsumer that goes on consuming while its group rebalances.

Pyright has stubs of kafka-python 2.3, which lack private attributes and what is new in kafka-python 3.
"""

from __future__ import annotations

import selectors
import ssl
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypedDict

from kafka import KafkaConsumer
from kafka.structs import TopicPartition
from kafka.util import WeakMethod

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
from kafka_assignors_kafka_python._assignor import assignor
from kafka_assignors_kafka_python._releases import INSTALLED
from kafka_assignors_kafka_python.cooperative.coordinator import CooperativeCoordinator
from kafka_assignors_kafka_python.cooperative.fetching import CooperativeFetcher, CooperativeSubscriptionState
from kafka_assignors_kafka_python.cooperative.inside import require_inside

if TYPE_CHECKING:
    from kafka import ConsumerRebalanceListener
    from typing_extensions import Unpack


class ConsumerSettings(TypedDict, total=False):
    """The arguments of kafka-python 3's KafkaConsumer that the cooperative consumer passes on.

    They mean what kafka-python's documentation says. A deserializer is a `kafka.serializer.Deserializer` or a
    function of the bytes.
    """

    bootstrap_servers: str | Sequence[str]
    client_id: str
    group_instance_id: str | None
    key_deserializer: Any
    value_deserializer: Any
    enable_incremental_fetch_sessions: bool
    fetch_max_wait_ms: int
    fetch_min_bytes: int
    fetch_max_bytes: int
    max_partition_fetch_bytes: int
    request_timeout_ms: int
    retry_backoff_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    max_in_flight_requests_per_connection: int
    auto_offset_reset: Literal["earliest", "latest", "none", "smallest", "largest"]
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    default_offset_commit_callback: Callable[[Any, Any], object]
    check_crcs: bool
    isolation_level: Literal["read_uncommitted", "read_committed"]
    allow_auto_create_topics: bool
    metadata_max_age_ms: int
    client_dns_lookup: Literal["use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"]
    max_poll_records: int
    max_poll_interval_ms: int
    session_timeout_ms: int
    heartbeat_interval_ms: int
    receive_buffer_bytes: int | None
    send_buffer_bytes: int | None
    receive_message_max_bytes: int
    socket_options: Sequence[tuple[int, int, int]]
    consumer_timeout_ms: float
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    ssl_context: ssl.SSLContext | None
    ssl_check_hostname: bool
    ssl_cafile: str | None
    ssl_certfile: str | None
    ssl_keyfile: str | None
    ssl_crlfile: str | None
    ssl_password: str | None
    ssl_ciphers: str | None
    api_version: tuple[int, ...] | None
    bootstrap_timeout_ms: int
    connections_max_idle_ms: int
    metric_reporters: Sequence[type[Any]]
    metrics_enabled: bool
    metrics_num_samples: int
    metrics_sample_window_ms: int
    metric_group_prefix: str
    selector: type[selectors.BaseSelector]
    exclude_internal_topics: bool
    sasl_mechanism: str | None
    sasl_plain_username: str | None
    sasl_plain_password: str | None
    sasl_kerberos_name: Any
    sasl_kerberos_service_name: str
    sasl_kerberos_domain_name: str | None
    sasl_oauth_token_provider: Any
    proxy_url: str | None
    socks5_proxy: str | None
    kafka_client: Callable[..., Any]


def _exchanged(stored_as: str, exchange: Callable[[Any, Any], Any]) -> Any:
    """An attribute that replaces the object it is assigned. Reading it runs no Python code."""

    def assign(self: object, stock: object) -> None:
        setattr(self, stored_as, exchange(self, stock))

    return property(attrgetter(stored_as), assign)


_PARTS = {
    "_subscription": CooperativeSubscriptionState,
    "_fetcher": CooperativeFetcher,
    "_coordinator": CooperativeCoordinator,
}


_NO_VALUE = float("-inf")
"""What kafka-python gives as the maximum of no values; an alert takes it for a sample."""


class CooperativeKafkaConsumer(KafkaConsumer):  # type: ignore[misc]
    """A KafkaConsumer with incremental cooperative rebalancing (KIP-429).

        consumer = CooperativeKafkaConsumer("orders", group_id="g")

    Partitions that stay with this consumer are fetched, delivered and committed throughout a rebalance. The
    listener gets the changes alone, in `poll`, on the thread that polls: `on_partitions_revoked` before
    partitions leave, while they can still be committed; `on_partitions_assigned` for added partitions;
    `on_partitions_lost` for partitions that another member may already own. If a listener raises an
    exception, `poll` raises a KafkaError. See docs/consumers.md.
    """

    _is_cooperative: ClassVar = True
    """Tells an assignor's `supported_protocols` which kind of consumer it is for."""

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
        """The arguments of KafkaConsumer.

        `partition_assignment_strategy` lists assignors of this package, the preferred one first; by default
        `CooperativeStickyAssignor()` alone. If one of them is eager, so is the consumer, which the first step
        of an upgrade needs. `observer` gets rebalances, heartbeats and commits, in addition to the consumer's
        own metrics; it is not a ConsumerRebalanceListener, and cannot take part in a rebalance.

        A listener with `on_partitions_warming` gets partitions when it is ready for them. It is called in
        threads of its own, at most `max_warming` at a time and for `warm_timeout_ms` at most, with the
        partitions and an event that is set to cancel it; it must not touch the consumer. See
        docs/stateful.md.

        TypeError or ValueError for invalid arguments; RuntimeError for a release of kafka-python that this
        class does not work with.
        """
        require_group(group_id, "KafkaConsumer")
        if partition_assignment_strategy is None:
            partition_assignment_strategy = (assignor(CooperativeSticky()),)
        require_cooperative(partition_assignment_strategy, assignor, group_id)
        require_intervals(settings)
        self._rack_of_member = require_client_rack(client_rack)
        self._observer = require_observer("observer", observer)
        require_warming(max_warming, warm_timeout_ms)
        self._max_warming, self._warm_timeout_s = max_warming, warm_timeout_ms / 1000
        super().__init__(
            *topics,
            group_id=group_id,
            partition_assignment_strategy=partition_assignment_strategy,
            client_rack=client_rack or "",
            **settings,
        )
        self._require_own_parts()

    # kafka-python makes these itself, and no argument changes that. So they are replaced when they are
    # assigned, before they are used.

    def _own_subscription(self, stock: Any) -> CooperativeSubscriptionState:
        return CooperativeSubscriptionState(self.config["auto_offset_reset"])

    def _own_fetcher(self, stock: Any) -> CooperativeFetcher:
        return CooperativeFetcher(stock, **self.config)

    def _own_coordinator(self, stock: Any) -> CooperativeCoordinator:
        require_inside(stock, self._fetcher)
        stock._cluster.remove_listener(WeakMethod(stock._handle_metadata_update))
        return CooperativeCoordinator(
            stock,
            fetcher=self._fetcher,
            rack=self._rack_of_member,
            observer=self._observer,
            max_warming=self._max_warming,
            warm_timeout_s=self._warm_timeout_s,
            assignors=self.config["partition_assignment_strategy"],
            **self.config,
        )

    _subscription = _exchanged("_cooperative_subscription", _own_subscription)
    _fetcher = _exchanged("_cooperative_fetcher", _own_fetcher)
    _coordinator = _exchanged("_cooperative_coordinator", _own_coordinator)

    def _require_own_parts(self) -> None:
        """Close the consumer and raise RuntimeError if a part is not of our class."""
        for name, kind in _PARTS.items():
            if type(getattr(self, name, None)) is not kind:
                self._closed = True  # Otherwise `__del__` would close parts that do not exist yet.
                self._client.close()
                raise RuntimeError(
                    f"{type(self).__name__}.{name} is not the {kind.__name__} that makes the consumer "
                    f"cooperative: kafka-python {INSTALLED} or a subclass assigns it otherwise. "
                    "Use a release that is checked, and leave this attribute to CooperativeKafkaConsumer"
                )

    # ---- what is different for the user

    def subscribe(  # pyright: ignore[reportIncompatibleMethodOverride]  # kafka-python 3 refuses sets
        self,
        topics: Sequence[str] = (),
        pattern: str | None = None,
        listener: ConsumerRebalanceListener | Any | None = None,  # The stubs have no asynchronous one.
    ) -> None:
        """As KafkaConsumer's. Records of topics that are no longer subscribed are not delivered any more."""
        self._coordinator.check_listener(listener)
        super().subscribe(topics=topics, pattern=pattern, listener=listener)
        self._coordinator.listener_may_have_changed()
        self._coordinator.subscription_may_have_changed()

    def unsubscribe(self) -> None:
        """As KafkaConsumer's; the listener is called, and can commit."""
        if self._subscription.partitions_auto_assigned():
            self._coordinator.give_everything_up()
        super().unsubscribe()

    def enforce_rebalance(self, reason: str | None = None) -> None:
        """Make this member rejoin, so that the group gets its strategy's current `member_data` (KIP-568).

        Returns at once; the member keeps its partitions until the group decides otherwise. Any thread may
        call it, but not a signal handler, which may have interrupted a thread that it waits for. Before the
        first `poll` it does nothing. `reason` is for the log; TypeError if it is not a str.
        """
        coordinator, asked = self._coordinator, RejoinRequested(require_reason(reason))
        coordinator.start(coordinator.handle, asked)

    def drain(self, *, timeout_ms: float | None = None) -> bool:
        """Let other members take over all partitions, each when its next owner is ready; then `close`.

        The consumer goes on meanwhile: call this in a thread beside the one that polls. False if partitions
        are left after the timeout; at once, with a warning in the log, if the leader of the group knows
        nothing of warm handoff, or if this member is static or eager. IllegalStateError if the listener calls
        it, since the joins that hand over wait for the listener to return.
        """
        timeout_s = None if timeout_ms is None else timeout_ms / 1000
        return bool(self._coordinator.drain(timeout_s))

    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int | None:
        """As KafkaConsumer's, but a known position waits for no other partition's."""
        state = self._subscription.assignment.get(partition)
        known = None if state is None or state.awaiting_validation else state.position
        if known is not None:
            return int(known.offset)
        super()._refresh_committed_offsets(timeout_ms)
        position: int | None = super().position(partition, timeout_ms)  # pyright: ignore[reportArgumentType]
        return position

    def _poll_once(self, *arguments: Any, **options: Any) -> Any:
        records = super()._poll_once(*arguments, **options)
        if records:
            self._coordinator.hold.has_returned_records = True
        return records

    def _refresh_committed_offsets(self, timeout_ms: float | None = None) -> bool:
        # Called by `poll`: partitions with a position must not wait for those that have none.
        if self._subscription.partitions_auto_assigned():
            return bool(self._coordinator.look_up_positions())
        return bool(super()._refresh_committed_offsets(timeout_ms))

    def metrics(self, raw: bool = False) -> Any:
        """The metrics by group and name; a maximum without a value is left out. `raw` has all of them."""
        found = super().metrics(raw)
        if raw or not found:
            return found
        return {
            group: {name: value for name, value in of_group.items() if value != _NO_VALUE}
            for group, of_group in found.items()
        }

    def close(self, autocommit: bool = True, timeout_ms: float | None = None) -> None:
        """As KafkaConsumer's. An exception of the listener is raised when everything is closed."""
        super().close(autocommit=autocommit, timeout_ms=timeout_ms)  # pyright: ignore[reportArgumentType]
        self._coordinator.listener_calls.raise_error()
