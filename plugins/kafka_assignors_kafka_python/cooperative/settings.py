"""The arguments of KafkaConsumer that the cooperative consumer passes on, with their types."""

from __future__ import annotations

import selectors
import ssl
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypedDict


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
