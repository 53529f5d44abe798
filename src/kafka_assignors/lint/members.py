"""What the rules judge: the members of a group as they are configured, before and after a change.

A `MemberConfig` is one kind of member, as a configuration file describes it or as a broker shows it. What
nobody said is None: the rules that need it leave the member alone, or fall back on the client's default,
which is in `kafka_assignors.lint.clients`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from kafka_assignors.livegroup import LiveGroup
from kafka_assignors.strategy import RebalanceProtocol

__all__ = [
    "BrokerBounds",
    "Client",
    "Facts",
    "MemberConfig",
    "NotJudged",
    "StrategyUse",
    "Version",
    "version_text",
]

Version = tuple[int, ...]


def version_text(version: Version) -> str:
    return ".".join(map(str, version))


class Client(enum.Enum):
    """The library that a member is built on."""

    AIOKAFKA = "aiokafka"
    KAFKA_PYTHON = "kafka-python"
    JAVA = "java"
    LIBRDKAFKA = "librdkafka"
    UNKNOWN = "unknown"

    @property
    def runs_our_strategies(self) -> bool:
        return self in (Client.AIOKAFKA, Client.KAFKA_PYTHON)


@dataclass(frozen=True, slots=True)
class StrategyUse:
    """A strategy in a member's list.

    `name` is what the member votes for. `ours` is true where a member of aiokafka or kafka-python runs it
    through kafka-assignors, false where it is the client's own. `protocols` are those the strategy can run
    under; None where nobody can say (a class of somebody else's).
    """

    name: str
    ours: bool = False
    protocols: frozenset[RebalanceProtocol] | None = None


@dataclass(frozen=True, slots=True)
class MemberConfig:
    """One kind of member. Times are milliseconds.

    `source` is what a person finds it by: a file, or a member id. `given` are the names of the settings that
    somebody wrote down; the fields of the others hold the client's defaults. `strategies` is None where a
    broker does not tell, and otherwise in the order of preference.
    """

    source: str
    client: Client = Client.UNKNOWN
    version: Version | None = None
    members: int = 1
    strategies: tuple[StrategyUse, ...] | None = None
    group_protocol: str | None = None
    session_timeout_ms: int | None = None
    heartbeat_interval_ms: int | None = None
    max_poll_interval_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    request_timeout_ms: int | None = None
    instance_id: str | None = None
    rack: str | None = None
    given: frozenset[str] = frozenset()

    @property
    def names(self) -> tuple[str, ...]:
        """The strategies it offers the broker, the preferred one first."""
        return tuple(use.name for use in self.strategies or ())

    @property
    def classic(self) -> bool:
        """Whether it joins by JoinGroup, so that a strategy of the members decides."""
        return self.group_protocol != "consumer"

    @property
    def client_text(self) -> str:
        return self.client.value + (f" {version_text(self.version)}" if self.version else "")


@dataclass(frozen=True, slots=True)
class NotJudged:
    """What had to be left open, and for want of what."""

    what: str
    why: str


@dataclass(frozen=True, slots=True)
class BrokerBounds:
    """What the coordinator accepts as a session timeout, in milliseconds."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    read: bool = False
    """True if a broker said so; otherwise these are the defaults of Apache Kafka."""


@dataclass(frozen=True, slots=True)
class Facts:
    """All that a run of the rules knows.

    `after` is the group as it is to be. `before` is the group as it is, and empty where no change is judged.
    `assumed_before` is true where the strategies of `before` are a guess from the one that has won the vote.
    """

    after: tuple[MemberConfig, ...]
    before: tuple[MemberConfig, ...] = ()
    assumed_before: bool = False
    live: LiveGroup | None = None
    bounds: BrokerBounds = field(default_factory=BrokerBounds)
    not_judged: tuple[NotJudged, ...] = ()
    """What could not even be read."""
