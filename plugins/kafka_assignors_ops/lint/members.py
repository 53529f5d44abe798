"""The members of a group, from their settings or from a running group, with the defaults of their clients.

A value that neither source has is None; `with_defaults` fills in the client's default, and rules skip a
member that lacks a value they need.

The strategies, defaults and limits of the clients are those in the sources of aiokafka 0.10 to 0.14,
kafka-python 2.0.6 to 3.0.12, librdkafka 2.16 and the Java client 4.4. An unknown version counts as the
newest.

**A running group.** A broker shows the strategy that won the vote, not the lists; the client id, which tells
the library unless it is configured; instance ids and racks; and whether a member held its partitions when it
joined. It does not show the members' timeouts.

**Settings**, as the consumer's own configuration names them. Dots and underscores are the same, so that
`session.timeout.ms` of Java and librdkafka and `session_timeout_ms` of the Python clients are one setting.
Settings that do not concern groups are ignored, because the file is the consumer's own; a name that looks
like a misspelled setting is refused.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kafka_assignors.strategies import Strategy, StrategyError
from kafka_assignors.strategies.registry import ASSIGNOR_CLASSES, STOCK_CLASSES
from kafka_assignors.strategy import RebalanceProtocol, runs_on_broker
from kafka_assignors.wire import ProtocolError, decode_member
from kafka_assignors_ops.lint.rules import Client, MemberConfig, NotJudged, StrategyUse, Version
from kafka_assignors_ops.live_group import CONSUMER, LiveGroup, LiveMember

# ---- the clients

EAGER = frozenset({RebalanceProtocol.EAGER})
COOPERATIVE = frozenset({RebalanceProtocol.COOPERATIVE})
BOTH = EAGER | COOPERATIVE

_JAVA = {"range": EAGER, "roundrobin": EAGER, "sticky": EAGER, "cooperative-sticky": BOTH}
_KAFKA_PYTHON_2 = {"range": EAGER, "roundrobin": EAGER, "sticky": EAGER}

_OWN: Mapping[Client, Mapping[str, frozenset[RebalanceProtocol]]] = {
    Client.JAVA: _JAVA,
    # librdkafka's cooperative-sticky could also be eager, but a list may not mix it with eager strategies.
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


def has_strategy(member: MemberConfig, name: str) -> bool:
    """Whether the member's client itself has a strategy of this name."""
    return name in _own_strategies(member.client, member.version)


def stock_strategy(client: Client, version: Version | None, name: str) -> StrategyUse:
    """The client's own strategy of this name; its protocols are None if the client does not have it."""
    return StrategyUse(name, ours=False, protocols=_own_strategies(client, version).get(name))


def with_defaults(member: MemberConfig) -> MemberConfig:
    """`member` with the defaults of its client for the settings that are None."""
    client, version = member.client, member.version
    if client is Client.UNKNOWN:
        return member
    old_kafka_python = client is Client.KAFKA_PYTHON and version is not None and version < (3,)
    by_broker = client is Client.JAVA and version is not None and version >= (5,)
    session_ms = 10_000 if client is Client.AIOKAFKA or old_kafka_python else 45_000
    session_timeout_ms = member.session_timeout_ms or session_ms
    max_poll_interval_ms = member.max_poll_interval_ms or _FIVE_MINUTES_MS
    # Only aiokafka has this setting. The other clients send max.poll.interval.ms as the rebalance timeout.
    own_ms = session_timeout_ms if client is Client.AIOKAFKA else max_poll_interval_ms
    strategies = member.strategies
    if strategies is None:
        strategies = tuple(stock_strategy(client, version, name) for name in _DEFAULT_STRATEGIES[client])
    return dataclasses.replace(
        member,
        strategies=strategies,
        group_protocol=member.group_protocol or ("consumer" if by_broker else "classic"),
        session_timeout_ms=session_timeout_ms,
        heartbeat_interval_ms=member.heartbeat_interval_ms or 3_000,
        max_poll_interval_ms=max_poll_interval_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms or own_ms,
        request_timeout_ms=member.request_timeout_ms or (40_000 if client is Client.AIOKAFKA else None),
    )


_NUMBERS = r"\d{1,9}(?:\.\d{1,9}){0,9}"
"""A version. Python refuses to convert thousands of digits, and a member chooses its client id."""

_DEFAULT_CLIENT_IDS = (
    (re.compile(rf"aiokafka-({_NUMBERS})"), Client.AIOKAFKA),
    (re.compile(rf"kafka-python-({_NUMBERS})"), Client.KAFKA_PYTHON),
    (re.compile(r"rdkafka()"), Client.LIBRDKAFKA),
    (re.compile(r"consumer-.+-\d+()"), Client.JAVA),
)


def client_of_id(client_id: str) -> tuple[Client, Version | None]:
    """The client whose default client id this is, and the version if the id has it.

    A configured client id gives `Client.UNKNOWN`.
    """
    for pattern, client in _DEFAULT_CLIENT_IDS:
        match = pattern.fullmatch(client_id)
        if match:
            return client, tuple(map(int, match[1].split("."))) if match[1] else None
    return Client.UNKNOWN, None


def accepts_list(client: Client, strategies: Iterable[StrategyUse]) -> bool:
    """Whether the protocols of these strategies allow the client to accept them in one list.

    A strategy of kafka-assignors is eager in the stock consumer, also if it supports the cooperative
    protocol.
    """
    if client not in (Client.LIBRDKAFKA, Client.KAFKA_PYTHON):
        return True
    common = BOTH
    for use in strategies:
        own = _OWN[client].get(use.name)
        common &= EAGER if use.ours else own if own is not None else BOTH
    return bool(common)


# ---- a running group


def live_members(
    group: LiveGroup, listed: Sequence[StrategyUse] = ()
) -> tuple[tuple[MemberConfig, ...], tuple[NotJudged, ...]]:
    """The members as they run now, and the questions about them that stay open.

    `listed` are the strategies that they list, if the user gave them; otherwise it is the strategy in use.
    """
    members = []
    for member in group.members:
        client, version = client_of_id(member.client_id)
        uses = tuple(listed)
        # If the broker assigns, the group's "protocol" is the broker's assignor, and no vote chose it.
        if not uses and group.protocol and group.group_type != CONSUMER:
            uses = (StrategyUse(group.protocol),)
        # The Python clients' own strategies join with version 0 or 1, ours with 3.
        joined = member.subscription.version if member.subscription is not None else 0
        ours = client.runs_our_strategies and joined > 1
        uses = tuple(
            use if use.ours else dataclasses.replace(stock_strategy(client, version, use.name), ours=ours)
            for use in uses
        )
        members.append(
            MemberConfig(
                member.id,
                client,
                version,
                strategies=uses or None,
                instance_id=member.instance_id,
                rack=member.rack,
                kept_partitions=_kept_partitions(group, member),
            )
        )
    return tuple(members), tuple(_not_judged(group, members))


def _kept_partitions(group: LiveGroup, member: LiveMember) -> bool | None:
    """Whether the member held what it owned when it joined last; None if it owned nothing or hides it."""
    if member.metadata is None or not group.protocol:
        return None
    try:
        joined = decode_member(group.protocol, member.id, member.metadata)
    except ProtocolError:
        return None
    return not joined.revoked if joined.owned else None


def _not_judged(group: LiveGroup, members: Sequence[MemberConfig]) -> Iterator[NotJudged]:
    if not members:
        why = f"it has no members now ({group.state}): nothing shows their settings"
        yield NotJudged(f"group {group.id}", why)
        return
    yield NotJudged("timeouts", "a broker does not show them; give the members' files")
    if unknown := sum(member.client is Client.UNKNOWN for member in members):
        why = "their client ids do not tell the library; give the members' files"
        yield NotJudged(f"what the clients of {unknown} members can do", why)
    if group.group_type == CONSUMER:
        yield NotJudged("which strategies the members list", "the broker assigns, and does not tell")


# ---- settings

StrategyLoader = Callable[[str], Strategy]

STRATEGY = "partition.assignment.strategy"
_MILLISECONDS = (
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "max.poll.interval.ms",
    "rebalance.timeout.ms",
    "request.timeout.ms",
)
_WORDS = ("group.instance.id", "group.protocol", "client.rack")
_KNOWN = ("client", "client.version", "members", STRATEGY, *_MILLISECONDS, *_WORDS)

_CLIENTS: dict[str, Client] = {client.value: client for client in Client if client is not Client.UNKNOWN}
_CLIENT_OF_PACKAGE = {
    "org.apache.kafka": Client.JAVA,
    "kafka_assignors_aiokafka": Client.AIOKAFKA,
    "kafka_assignors_kafka_python": Client.KAFKA_PYTHON,
    "aiokafka.": Client.AIOKAFKA,
    "kafka.": Client.KAFKA_PYTHON,
}
_NEARLY_THE_SAME = 0.9
_VERSION = re.compile(rf"v?({_NUMBERS})(?!\d)")


class InvalidSettingError(ValueError):
    """A setting that cannot be judged. `key` is its name in the file; None if the setting is missing."""

    def __init__(self, key: str | None, message: str) -> None:
        self.key = key
        super().__init__(message if key is None else f"{key}: {message}")


def member_config(source: str, settings: Mapping[str, object], load: StrategyLoader) -> MemberConfig:
    """The member that these settings describe, with its client's defaults for other settings.

    `load` loads a strategy by name. Raises `InvalidSettingError`.
    """
    found: dict[str, tuple[str, object]] = {}
    for key, value in settings.items():
        name = key.lower().replace("_", ".")
        if name in found:
            raise InvalidSettingError(key, f"the same as {found[name][0]}, which is there as well")
        found[name] = (key, value)
        if name not in _KNOWN:
            near = difflib.get_close_matches(name, _KNOWN, n=1, cutoff=_NEARLY_THE_SAME)
            if near:
                raise InvalidSettingError(key, f"there is no such setting; did you mean {near[0]}?")

    words = {name: _word(*found[name]) for name in _WORDS if name in found}
    timeouts_ms: dict[str, Any] = {
        name.replace(".", "_"): _positive(*found[name]) for name in _MILLISECONDS if name in found
    }
    texts = _texts(*found[STRATEGY]) if STRATEGY in found else None
    client = _client(found, texts or ())
    version = _version(*found["client.version"]) if "client.version" in found else None
    if "rebalance.timeout.ms" in found and client is not Client.AIOKAFKA:
        key = found["rebalance.timeout.ms"][0]
        raise InvalidSettingError(
            key, f"{client.value} has no such setting: it waits for max.poll.interval.ms"
        )
    group_protocol = words.get("group.protocol", "").lower() or None
    if group_protocol not in (None, "classic", "consumer"):
        raise InvalidSettingError(found["group.protocol"][0], "expected classic or consumer")

    strategies = None
    if texts is not None:
        key = found[STRATEGY][0]
        strategies = tuple(strategy_use(client, version, text, load, key) for text in texts)
    return with_defaults(
        MemberConfig(
            source,
            client,
            version,
            members=_positive(*found["members"]) if "members" in found else 1,
            strategies=strategies,
            group_protocol=group_protocol,
            instance_id=words.get("group.instance.id") or None,
            rack=words.get("client.rack") or None,
            given=frozenset(found),
            **timeouts_ms,
        )
    )


def strategy_use(
    client: Client, version: Version | None, text: str, load: StrategyLoader, key: str | None = STRATEGY
) -> StrategyUse:
    """The strategy that `text` names in a member of this client. Raises `InvalidSettingError`.

    In aiokafka and kafka-python, a name or `module:attribute` is a strategy of kafka-assignors or of the
    user, and `stock:NAME` is the client's own. In the other clients a name is the client's own; Java also has
    class names. If the client is unknown, a file of rules or `module:attribute` is a strategy of
    kafka-assignors.
    """
    class_name = re.split(r"[.:]", text)[-1]
    if not client.runs_our_strategies and not (client is Client.UNKNOWN and _only_ours(text)):
        if class_name in ASSIGNOR_CLASSES and ("." not in text or text.startswith("org.apache.kafka.")):
            return stock_strategy(client, version, ASSIGNOR_CLASSES[class_name])
        return stock_strategy(client, version, text)
    if text.startswith("stock:"):
        return stock_strategy(client, version, text.removeprefix("stock:"))
    if class_name in STOCK_CLASSES:
        return stock_strategy(client, version, STOCK_CLASSES[class_name])
    if class_name in ASSIGNOR_CLASSES:
        if text.startswith("kafka."):
            return stock_strategy(client, version, ASSIGNOR_CLASSES[class_name])
        if class_name == text == "CooperativeStickyAssignor" and client is Client.KAFKA_PYTHON:
            raise InvalidSettingError(
                key,
                f"{text} may be kafka-python's or ours: write stock:cooperative-sticky or cooperative-sticky",
            )
        text = ASSIGNOR_CLASSES[class_name]
    try:
        strategy = load(text)
    except StrategyError as error:
        raise InvalidSettingError(key, f"{error} (the client's own are written stock:NAME)") from None
    if runs_on_broker(strategy):
        raise InvalidSettingError(
            key, f"{strategy.name} stands for an assignor of the broker (KIP-848): no client lists it"
        )
    return StrategyUse(strategy.name, ours=True, protocols=BOTH & frozenset(strategy.protocols))


def _only_ours(text: str) -> bool:
    """Whether no client has a strategy of its own by such a name."""
    return ":" in text and not text.startswith("stock:")


def _client(found: Mapping[str, tuple[str, object]], texts: Iterable[str]) -> Client:
    if "client" in found:
        key, value = found["client"]
        name = _word(key, value).lower().replace("_", "-")
        if name not in _CLIENTS:
            raise InvalidSettingError(key, f"expected one of {', '.join(_CLIENTS)}; found {value!r}")
        return _CLIENTS[name]
    for text in texts:
        for package, client in _CLIENT_OF_PACKAGE.items():
            if text.startswith(package):
                return client
    raise InvalidSettingError(None, f"which client is it? Add client = {', '.join(_CLIENTS)} (one of them)")


def _version(key: str, value: object) -> Version:
    # 3.10 as a number is 3.1.
    match = _VERSION.match(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise InvalidSettingError(key, 'expected a version as text, such as "3.0.12"')
    return tuple(map(int, match[1].split(".")))


def _texts(key: str, value: object) -> tuple[str, ...]:
    parts = value if isinstance(value, list) else str(value).split(",") if isinstance(value, str) else ()
    texts = tuple(part.strip() for part in parts if isinstance(part, str) and part.strip())
    if not texts or len(texts) != len(parts):
        raise InvalidSettingError(key, "expected names of strategies, in a list or with commas between")
    return texts


def _word(key: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidSettingError(key, f"expected text, found {value!r}")
    return value.strip()


def _positive(key: str, value: object) -> int:
    if isinstance(value, str) and re.fullmatch(r"\s*[0-9]{1,18}\s*", value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidSettingError(key, f"expected a positive whole number, found {value!r:.40}")
    return value
