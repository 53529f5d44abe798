"""The facts about a group that rules judge, the form of a rule and of a finding, and the words they share.

A `MemberConfig` is one kind of member, as a configuration file describes it or as a broker shows it.

**The vote** by which a coordinator chooses the strategy of a group. The source is
`ClassicGroup.selectProtocol` in group-coordinator of apache/kafka. Candidates are the strategies that every
member lists. Each member votes for the first candidate in its own list, and the most votes win. The
coordinator refuses a member that shares no strategy with all members of the group
(INCONSISTENT_GROUP_PROTOCOL).
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from kafka_assignors.group import some_of
from kafka_assignors.strategy import RebalanceProtocol
from kafka_assignors_ops.live_group import LiveGroup

# ---- the facts

Version = tuple[int, ...]


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

    The member votes for `name`. `ours` is true if a member of aiokafka or kafka-python runs the strategy
    through kafka-assignors, false if the strategy is the client's own. `protocols` are the rebalance
    protocols that the strategy supports; None if they are unknown, as for a third-party class.
    """

    name: str
    ours: bool = False
    protocols: frozenset[RebalanceProtocol] | None = None


@dataclass(frozen=True, slots=True)
class MemberConfig:
    """One kind of member. Times are milliseconds.

    `source` tells the user where it comes from: a file, or a member id. `given` are the names of the settings
    in the file; other fields hold the client's defaults. `strategies` are in the order of preference; None if
    the broker does not show them. `kept_partitions` tells whether a live member held its partitions when it
    joined last, as cooperative consumers do; None if that is unknown.
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
    kept_partitions: bool | None = None
    given: frozenset[str] = frozenset()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its strategies, the preferred one first."""
        return tuple(use.name for use in self.strategies or ())

    @property
    def classic(self) -> bool:
        """Whether it uses the classic protocol, in which the members' strategy assigns."""
        return self.group_protocol != "consumer"

    @property
    def client_text(self) -> str:
        return f"{self.client.value} {'.'.join(map(str, self.version or ()))}".rstrip()


@dataclass(frozen=True, slots=True)
class NotJudged:
    """A question that the rules leave open (`what`), and the missing fact (`why`)."""

    what: str
    why: str


@dataclass(frozen=True, slots=True)
class LintFacts:
    """The input of the rules.

    `after` is the group as planned. `before` is the group as it runs; it is empty if no change is judged.
    `assumed_before` is true if the strategies of `before` are inferred from the strategy that won the vote.
    """

    after: tuple[MemberConfig, ...]
    before: tuple[MemberConfig, ...] = ()
    assumed_before: bool = False
    live: LiveGroup | None = None
    not_judged: tuple[NotJudged, ...] = ()
    """The questions that are open because the cluster hides a fact."""


# ---- the vote


def voters(members: Iterable[MemberConfig]) -> tuple[MemberConfig, ...]:
    """The members that vote and whose vote is known: those of the classic protocol with a list."""
    return tuple(member for member in members if member.classic and member.strategies)


def candidates(members: Iterable[MemberConfig]) -> tuple[str, ...]:
    """The strategies that all voters list, in the order of the first one's list."""
    first, *others = voters(members) or (None,)
    if first is None:
        return ()
    return tuple(name for name in first.names if all(name in other.names for other in others))


def count_votes(members: Sequence[MemberConfig]) -> Counter[str]:
    """The number of votes for each candidate that has any."""
    common = set(candidates(members))
    votes: Counter[str] = Counter()
    for member in voters(members):
        choice = next((name for name in member.names if name in common), None)
        if choice is not None:
            votes[choice] += member.members
    return votes


def winners(members: Sequence[MemberConfig]) -> tuple[str, ...]:
    """The strategy with the most votes; several in a tie, none without a candidate."""
    votes = count_votes(members)
    most = max(votes.values(), default=0)
    return tuple(sorted(name for name, count in votes.items() if count == most))


# ---- a rule and its findings


class Severity(enum.Enum):
    """The severity of a finding, the worst first."""

    ERROR = "error"
    """A member is refused or expelled, or the group runs another strategy than configured."""

    WARNING = "warning"
    """It works until an ordinary event: a restart, a slow listener, a leader of another client."""

    INFO = "info"
    """Good to know; no action is needed."""


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a rule for these members (their sources): what happens, and what to do in this case.

    Where `to_do` or `severity` is None, that of the rule applies. `to_do` is empty if no action is needed.
    """

    members: tuple[str, ...]
    what: str
    to_do: str | None = None
    severity: Severity | None = None


@dataclass(frozen=True, slots=True)
class LintFinding:
    """A `Found` with its rule. `why` and `to_do` are empty if no action is needed."""

    rule: str
    severity: Severity
    members: tuple[str, ...]
    what: str
    why: str
    to_do: str


@dataclass(frozen=True, slots=True)
class LintRule:
    """A rule and its documentation: `happens`, `why` and `to_do` hold for every group.

    docs/lint.md is generated from them.
    """

    id: str
    severity: Severity
    happens: str
    why: str
    to_do: str
    check: Callable[[LintFacts], Iterable[Found | NotJudged]]

    def judge(self, facts: LintFacts) -> Iterator[LintFinding | NotJudged]:
        for found in self.check(facts):
            if isinstance(found, NotJudged):
                yield found
            else:
                severity = found.severity or self.severity
                to_do = self.to_do if found.to_do is None else found.to_do
                why = self.why if to_do else ""
                yield LintFinding(self.id, severity, found.members, found.what, why, to_do)


def rule(
    id: str, severity: Severity, *, happens: str, why: str, to_do: str
) -> Callable[[Callable[[LintFacts], Iterable[Found | NotJudged]]], LintRule]:
    """Make a `LintRule` of the decorated function, which takes the facts and yields what it finds."""

    def made(check: Callable[[LintFacts], Iterable[Found | NotJudged]]) -> LintRule:
        return LintRule(id, severity, happens, why, to_do, check)

    return made


# ---- the words of findings

_SHOWN = 3


def sources(members: Iterable[MemberConfig]) -> tuple[str, ...]:
    """The sources of the members, each once."""
    return tuple(dict.fromkeys(member.source for member in members))


def strategy_lists(offers: Iterable[tuple[str, Iterable[str]]]) -> str:
    """Distinct lists: "[range] (a.toml), [sticky] (b.toml)"; "[range]" if all members have the same."""
    by_list: dict[str, dict[str, None]] = {}
    for source, names in offers:
        by_list.setdefault(f"[{', '.join(names)}]", {})[source] = None
    if len(by_list) == 1:
        return next(iter(by_list))
    return ", ".join(f"{names} ({enumerated(found)})" for names, found in by_list.items())


def enumerated(names: Iterable[str]) -> str:
    """The first names, and the number of the others."""
    return some_of(list(names), _SHOWN)


def seconds_text(ms: int) -> str:
    """Milliseconds in seconds: 45 s, 1.5 s."""
    return f"{ms / 1000:g} s"
