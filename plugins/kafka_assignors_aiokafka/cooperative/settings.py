"""The arguments of AIOKafkaConsumer that the cooperative consumer passes on, with their types."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypedDict

from aiokafka.abc import AbstractTokenProvider

__all__ = ["ConsumerSettings"]


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
