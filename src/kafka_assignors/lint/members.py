"""The members of a group as they are configured, and the defaults of the clients.

A `MemberConfig` is one kind of member, as a configuration file describes it or as a broker shows it. A value
that neither tells is None; `with_defaults` fills in the client's default, and rules skip a member that lacks
a value they need.

The strategies, defaults and limits of the clients are those in the sources of aiokafka 0.10 to 0.14,
kafka-python 2.0.6 to 3.0.12, librdkafka 2.16 and the Java client 4.4. An unknown version counts as the
newest.

**A running group.** A broker shows the strategy that won the vote, not the lists; the client id, which tells
the library unless it is configured; instance ids and racks; and whether a member held its partitions when it
joined. The group's record has the session and rebalance timeouts. The broker never learns the heartbeat
interval, the poll interval and the clients' request timeouts.

**The vote** by which a coordinator chooses the strategy of a group. The source is
`ClassicGroup.selectProtocol` in group-coordinator of apache/kafka. Candidates are the strategies that every
member lists. Each member votes for the first candidate in its own list, and the most votes win. The
coordinator refuses a member that shares no strategy with all members of the group
(INCONSISTENT_GROUP_PROTOCOL).
"""

from __future__ import annotations

import dataclasses
import enum
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kafka_assignors.live_group import CONSUMER, LiveGroup, LiveMember, hidden_topics_problem
from kafka_assignors.strategy import RebalanceProtocol
from kafka_assignors.wire import GroupMetadata, ProtocolError, decode_member

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
        return self.client.value + (f" {version_text(self.version)}" if self.version else "")


@dataclass(frozen=True, slots=True)
class NotJudged:
    """A question that the rules leave open (`what`), and the missing fact (`why`)."""

    what: str
    why: str


@dataclass(frozen=True, slots=True)
class BrokerBounds:
    """The session timeouts that the coordinator accepts, in milliseconds."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    read: bool = False
    """True if a broker reported them; otherwise they are the defaults of Apache Kafka."""


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
    bounds: BrokerBounds = field(default_factory=BrokerBounds)
    not_judged: tuple[NotJudged, ...] = ()
    """The questions that are open because the cluster hides a fact."""


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


def has_strategy(client: Client, version: Version | None, name: str) -> bool:
    """Whether the client itself has a strategy of this name."""
    return name in _own_strategies(client, version)


def stock_strategy(client: Client, version: Version | None, name: str) -> StrategyUse:
    """The client's own strategy of this name; its protocols are None if the client does not have it."""
    return StrategyUse(name, ours=False, protocols=_own_strategies(client, version).get(name))


def with_defaults(member: MemberConfig) -> MemberConfig:
    """`member` with the defaults of its client for the settings that are None."""
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
    # Only aiokafka has this setting. The other clients send max.poll.interval.ms as the rebalance timeout.
    own_ms = session_timeout_ms if client is Client.AIOKAFKA else max_poll_interval_ms
    strategies = member.strategies
    if strategies is None:
        strategies = tuple(stock_strategy(client, version, name) for name in _DEFAULT_STRATEGIES[client])
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


def live_members(
    group: LiveGroup, record: GroupMetadata | None, listed: Sequence[StrategyUse] = (), no_record: str = ""
) -> tuple[tuple[MemberConfig, ...], tuple[NotJudged, ...]]:
    """The members as they run now, and the questions about them that stay open.

    `listed` are the strategies that they list, if the user gave them; otherwise it is the strategy in use.
    `no_record` is the reason for a missing record.
    """
    timeouts = {member.member_id: member for member in record.members} if record is not None else {}
    members = []
    for member in group.members:
        client, version = client_of_id(member.client_id)
        stored = timeouts.get(member.id)
        uses = tuple(listed)
        # If the broker assigns, the group's "protocol" is the broker's assignor, and no vote chose it.
        if not uses and group.protocol and group.group_type != CONSUMER:
            use = stock_strategy(client, version, group.protocol)
            # The Python clients' own strategies join with version 0 or 1, ours with 3.
            joined = member.subscription.version if member.subscription is not None else 0
            uses = (dataclasses.replace(use, ours=client.runs_our_strategies and joined > 1),)
        members.append(
            MemberConfig(
                member.id,
                client,
                version,
                strategies=uses or None,
                session_timeout_ms=stored.session_timeout_ms if stored else None,
                rebalance_timeout_ms=stored.rebalance_timeout_ms if stored else None,
                instance_id=member.instance_id,
                rack=member.rack,
                kept_partitions=_kept_partitions(group, member),
            )
        )
    return tuple(members), tuple(_not_judged(group, members, no_record))


def _kept_partitions(group: LiveGroup, member: LiveMember) -> bool | None:
    """Whether the member held what it owned when it joined last; None if it owned nothing or hides it."""
    if member.metadata is None or not group.protocol:
        return None
    try:
        joined = decode_member(group.protocol, member.id, member.metadata)
    except ProtocolError:
        return None
    return not joined.revoked if joined.owned else None


def _not_judged(group: LiveGroup, members: Sequence[MemberConfig], no_record: str) -> list[NotJudged]:
    if not members:
        return [
            NotJudged(
                f"group {group.id}", f"it has no members now ({group.state}): nothing shows their settings"
            )
        ]
    left_open = [
        NotJudged(
            "heartbeat, poll and request timeouts", "a broker does not learn them; give the members' files"
        )
    ]
    if group.hidden_topics:
        left_open.append(NotJudged("whether members are idle", hidden_topics_problem(group)))
    unknown = [member for member in members if member.client is Client.UNKNOWN]
    if unknown:
        left_open.append(
            NotJudged(
                f"what the clients of {len(unknown)} members can do",
                "their client ids do not tell the library; give the members' files",
            )
        )
    if group.group_type == CONSUMER:
        left_open.append(
            NotJudged("which strategies the members list", "the broker assigns, and does not tell")
        )
    else:
        if any(member.session_timeout_ms is None for member in members):
            left_open.append(
                NotJudged("session and rebalance timeouts", no_record or "the record is of other members")
            )
    return left_open


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
