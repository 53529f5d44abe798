"""What each client library brings along: its own strategies, its defaults, its limits.

Read in the sources of aiokafka 0.10 to 0.14, kafka-python 2.0.6 to 3.0.12, librdkafka 2.16 and the Java
client 4.4. A version that is not known counts as the newest of these.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping

from kafka_assignors.lint.members import Client, MemberConfig, StrategyUse, Version
from kafka_assignors.strategy import RebalanceProtocol

__all__ = ["client_of_id", "has_strategy", "own_strategy", "takes_list", "with_defaults"]

EAGER = frozenset({RebalanceProtocol.EAGER})
COOPERATIVE = frozenset({RebalanceProtocol.COOPERATIVE})
BOTH = EAGER | COOPERATIVE

_JAVA = {"range": EAGER, "roundrobin": EAGER, "sticky": EAGER, "cooperative-sticky": BOTH}
_KAFKA_PYTHON_2 = {"range": EAGER, "roundrobin": EAGER, "sticky": EAGER}

_OWN: Mapping[Client, Mapping[str, frozenset[RebalanceProtocol]]] = {
    Client.JAVA: _JAVA,
    # Not what librdkafka's cooperative-sticky could do, but what it lets a list hold.
    Client.LIBRDKAFKA: {"range": EAGER, "roundrobin": EAGER, "cooperative-sticky": COOPERATIVE},
    Client.AIOKAFKA: {"range": EAGER, "roundrobin": EAGER, "sticky": EAGER},
    Client.KAFKA_PYTHON: {**_KAFKA_PYTHON_2, "cooperative-sticky": COOPERATIVE},
    Client.UNKNOWN: _JAVA,
}

_DEFAULT_STRATEGIES: Mapping[Client, tuple[str, ...]] = {
    Client.JAVA: ("range", "cooperative-sticky"),
    Client.LIBRDKAFKA: ("range", "roundrobin"),
    Client.AIOKAFKA: ("roundrobin",),
    Client.KAFKA_PYTHON: ("range", "roundrobin"),
}

_FIVE_MINUTES_MS = 300_000


def _own_strategies(client: Client, version: Version | None) -> Mapping[str, frozenset[RebalanceProtocol]]:
    if client is Client.KAFKA_PYTHON and version is not None and version < (3,):
        return _KAFKA_PYTHON_2
    return _OWN[client]


def has_strategy(client: Client, version: Version | None, name: str) -> bool:
    """Whether the library itself has a strategy of this name."""
    return name in _own_strategies(client, version)


def own_strategy(client: Client, version: Version | None, name: str) -> StrategyUse:
    """The library's own strategy of this name; of a name that it does not have nothing else is known."""
    return StrategyUse(name, ours=False, protocols=_own_strategies(client, version).get(name))


def with_defaults(member: MemberConfig) -> MemberConfig:
    """`member` with what its client takes where nothing is configured."""
    client, version = member.client, member.version
    if client is Client.UNKNOWN:
        return member
    old_kafka_python = client is Client.KAFKA_PYTHON and version is not None and version < (3,)
    session_ms = 10_000 if client is Client.AIOKAFKA or old_kafka_python else 45_000
    request_ms = {Client.AIOKAFKA: 40_000, Client.JAVA: 30_000, Client.LIBRDKAFKA: None}.get(
        client, 305_000 if old_kafka_python else 30_000
    )
    session_timeout_ms = member.session_timeout_ms or session_ms
    max_poll_interval_ms = member.max_poll_interval_ms or _FIVE_MINUTES_MS
    # Only aiokafka has a setting for it; a rebalance waits for the others as long as a poll may last.
    own_ms = session_timeout_ms if client is Client.AIOKAFKA else max_poll_interval_ms
    strategies = member.strategies
    if strategies is None:
        strategies = tuple(own_strategy(client, version, name) for name in _DEFAULT_STRATEGIES[client])
    return dataclasses.replace(
        member,
        strategies=strategies,
        group_protocol=member.group_protocol or _default_group_protocol(client, version),
        session_timeout_ms=session_timeout_ms,
        heartbeat_interval_ms=member.heartbeat_interval_ms or 3_000,
        max_poll_interval_ms=max_poll_interval_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms or own_ms,
        request_timeout_ms=member.request_timeout_ms or request_ms,
    )


def _default_group_protocol(client: Client, version: Version | None) -> str:
    return "consumer" if client is Client.JAVA and version is not None and version >= (5,) else "classic"


_DEFAULT_CLIENT_IDS = (
    (re.compile(r"aiokafka-(\d+(?:\.\d+)*)"), Client.AIOKAFKA),
    (re.compile(r"kafka-python-(\d+(?:\.\d+)*)"), Client.KAFKA_PYTHON),
    (re.compile(r"rdkafka()"), Client.LIBRDKAFKA),
    (re.compile(r"consumer-.+-\d+()"), Client.JAVA),
)


def client_of_id(client_id: str) -> tuple[Client, Version | None]:
    """The library, and where it says so its version, whose default client id this is.

    A client id of somebody's own choice tells nothing.
    """
    for pattern, client in _DEFAULT_CLIENT_IDS:
        match = pattern.fullmatch(client_id)
        if match:
            return client, tuple(map(int, match[1].split("."))) if match[1] else None
    return Client.UNKNOWN, None


def takes_list(client: Client, strategies: Iterable[StrategyUse]) -> bool:
    """Whether the client accepts these strategies in one list, as far as their protocols go.

    A strategy of ours is eager in its client, whatever it could do elsewhere.
    """
    if client not in (Client.LIBRDKAFKA, Client.KAFKA_PYTHON):
        return True
    common = BOTH
    for use in strategies:
        own = _OWN[client].get(use.name)
        common &= EAGER if use.ours else own if own is not None else BOTH
    return bool(common)
