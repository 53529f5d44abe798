"""Reads the settings of a consumer, as its own configuration names them, into a `MemberConfig`.

Dots and underscores are the same, so that `session.timeout.ms` of Java and librdkafka and
`session_timeout_ms` of the Python clients are one setting. Settings that do not concern groups are ignored,
because the file is the consumer's own; a name that looks like a misspelled setting is refused.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping

from kafka_assignors.lint.members import (
    BOTH,
    Client,
    MemberConfig,
    StrategyUse,
    Version,
    stock_strategy,
    with_defaults,
)
from kafka_assignors.strategies import Strategy, StrategyError
from kafka_assignors.strategies.registry import ASSIGNOR_CLASSES, STOCK_CLASSES

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
_VERSION = re.compile(r"v?(\d+(?:\.\d+)*)")


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
    milliseconds = {name: _positive(*found[name]) for name in _MILLISECONDS if name in found}
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
            session_timeout_ms=milliseconds.get("session.timeout.ms"),
            heartbeat_interval_ms=milliseconds.get("heartbeat.interval.ms"),
            max_poll_interval_ms=milliseconds.get("max.poll.interval.ms"),
            rebalance_timeout_ms=milliseconds.get("rebalance.timeout.ms"),
            request_timeout_ms=milliseconds.get("request.timeout.ms"),
            instance_id=words.get("group.instance.id") or None,
            rack=words.get("client.rack") or None,
            given=frozenset(found),
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
    if strategy.runs_on_broker:
        raise InvalidSettingError(
            key, f"{strategy.name} stands for an assignor of the broker (KIP-848): no client lists it"
        )
    return StrategyUse(strategy.name, ours=True, protocols=BOTH & frozenset(strategy.protocols))


def _only_ours(text: str) -> bool:
    """Whether no client has a strategy of its own by such a name."""
    return text.endswith(".toml") or (":" in text and not text.startswith("stock:"))


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
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidSettingError(key, f"expected a positive whole number, found {value!r}")
    return value
