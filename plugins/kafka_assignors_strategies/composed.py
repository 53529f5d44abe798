"""A strategy that is put together from rules, and those of this package: `rollout`, `standby`, `priority`, …

Each strategy of this package is a fixed list of rules (`kafka_assignors_strategies.rules`) under its own
name, for both protocols. Members announce facts about themselves in the format of
`kafka_assignors.announcements`.

`rollout`: a release with a share gets that share; while releases without a share are mixed, no partition
moves without need (`kafka_assignors_strategies.rules.rollout`). The rest is balanced as `cooperative-sticky`
does, which is also the result in a group of one release.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from kafka_assignors.announcements import WHOLE_SHARE, Facts, Supposed, encode_facts, facts_of, with_supposed
from kafka_assignors.criteria import Criteria, Criterion, racks_outweigh_moves
from kafka_assignors.group import Assignment, Group, quoted
from kafka_assignors.strategy import (
    BOTH_PROTOCOLS,
    SHARED_NAMES,
    MemberContext,
    RebalanceProtocol,
    Strategy,
    is_ours,
)
from kafka_assignors_strategies.rules import (
    Balance,
    FewestMoves,
    FewestRackMisses,
    KeepTogether,
    LevelByPriority,
    LevelByWeight,
    LevelPartitions,
    Place,
    Problem,
    RackTrade,
    Rule,
    ShareByRelease,
    StandbyLast,
)
from kafka_assignors_strategies.rules.rule import Unit

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class RuleOrderError(ValueError):
    """Rules that cannot form one strategy: the message says which, why, and the remedy."""


@dataclass(frozen=True, slots=True)
class Composed(Strategy):
    """Rules in the order in which they matter, as a strategy.

    `name` is the name that members vote on: all members of a group need the same rules under the same name,
    and the leader logs a finding if they differ. `announces` are the facts of this member;
    `change` replaces some. `supposes` are the assumed facts of members that announce none.
    Raises `RuleOrderError` for rules that contradict each other.
    """

    name: str
    rules: tuple[Rule, ...]
    announces: Facts = field(default_factory=Facts)
    protocols: tuple[RebalanceProtocol, ...] = BOTH_PROTOCOLS
    supposes: tuple[Supposed, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "rules", tuple(self.rules))
        object.__setattr__(self, "supposes", tuple(self.supposes))
        require_order(self.rules)
        if self.name in SHARED_NAMES:
            raise RuleOrderError(
                f"the name {self.name!r} belongs to a strategy that members of other clients run: take "
                "one of your own"
            )
        if not _NAME.fullmatch(self.name):
            raise RuleOrderError(
                f"the name {self.name!r} will not do: take up to 100 letters, digits, dots, hyphens and "
                "underscores"
            )

    def follows_racks(self) -> bool:
        """Whether replicas in other racks would make another assignment the best one."""
        return racks_outweigh_moves(self._criteria())

    def member_data(self, member: MemberContext) -> bytes:
        """The facts that this member announces, and a digest of its rules."""
        return encode_facts(replace(self.announces, rules=self.digest()))

    def change(self, **facts: Any) -> None:
        """Announce other facts of these names from the next join on. Raises `InvalidFactError`.

        Any thread may call this, a signal handler as well.
        """
        object.__setattr__(self, "announces", replace(self.announces, **facts))

    def digest(self) -> str:
        """A digest that is equal for equal rules in the same order."""
        return hashlib.sha256(repr((self.rules, self.supposes)).encode()).hexdigest()[:12]

    def assign(self, group: Group) -> Assignment:
        problem = self.problem(group)
        return problem.in_original_group(self._balance().balance(problem, self._criteria()))

    def problem(self, group: Group) -> Problem:
        """The group that the restrictions leave to the balance rule."""
        group = self._lent(group)
        problem = Problem(group, with_supposed(group, facts_of(group), self.supposes))
        for rule in self.rules:
            problem = rule.restrict(problem)
        return problem

    def units(self, group: Group) -> Sequence[Unit]:
        """The partitions that a rule keeps together."""
        if not any(isinstance(rule, KeepTogether) for rule in self.rules):
            return ()
        made = self.problem(group).stands_for.values()
        return [unit for units in made for unit in units if len(unit) > 1]

    def findings(self, group: Group) -> Sequence[str]:
        """Findings about the members' facts, and of the rules."""
        problem = self.problem(group)
        own = self.digest()
        announced = problem.facts.members
        others = sorted(id for id, facts in announced.items() if facts.rules not in (None, own))
        findings = [*problem.facts.findings]
        if others:
            findings.append(
                f"member {quoted(others[0])} runs other rules under the name {self.name!r} ({len(others)} "
                "such members): who leads decides, so give all members the same"
            )
        group = self._lent(group)
        return [*findings, *problem.findings, *(each for rule in self.rules for each in rule.remarks(group))]

    def _lent(self, group: Group) -> Group:
        """The group itself, or a copy if there are rules that are not of this package."""
        return group if all(map(is_ours, map(type, self.rules))) else group.detached()

    def _balance(self) -> Balance:
        return next(rule for rule in self.rules if isinstance(rule, Balance))

    def _criteria(self) -> Criteria:
        """Balance, the tie-breakers in their order, then movement."""
        tie_breakers = [criterion for rule in self.rules for criterion in rule.criteria()]
        return tuple(dict.fromkeys((Criterion.BALANCE, *tie_breakers, Criterion.MOVEMENT)))


def require_order(rules: Sequence[Rule]) -> None:
    """`RuleOrderError` unless these rules can be one strategy."""
    for rule in rules:
        if not isinstance(rule, Rule):
            raise RuleOrderError(f"{rule!r} is not a rule")
    kinds = [rule.kind for rule in rules]
    for earlier, later in pairwise(rules):
        if later.place < earlier.place:
            raise RuleOrderError(
                f"rule {later.kind!r} comes after {earlier.kind!r}: first come rules about who may have "
                "what, then one about balance, then movement and racks"
            )
    for divides in (ShareByRelease.kind, StandbyLast.kind):
        if KeepTogether.kind in kinds and divides in kinds[: kinds.index(KeepTogether.kind)]:
            raise RuleOrderError(
                f"rule {divides!r} comes before {KeepTogether.kind!r}, and would tear apart topics that stay "
                f"together: put {KeepTogether.kind!r} first"
            )
    for kind in kinds:
        if kinds.count(kind) > 1:
            raise RuleOrderError(f"rule {kind!r} comes {kinds.count(kind)} times")
    if RackTrade.kind in kinds and (also := {FewestMoves.kind, FewestRackMisses.kind}.intersection(kinds)):
        raise RuleOrderError(
            f"rule {RackTrade.kind!r} weighs movement and racks against each other, so {min(also)!r} beside "
            "it has nothing to say: leave it out"
        )
    if LevelByWeight.kind in kinds:
        _require_nothing_beside_weights(rules)
    balances = [rule.kind for rule in rules if rule.place is Place.BALANCE]
    if len(balances) != 1:
        found = f"{' and '.join(map(repr, balances))} are too many" if balances else "there is none"
        raise RuleOrderError(f"one rule must say what to balance: {found}")


def _require_nothing_beside_weights(rules: Sequence[Rule]) -> None:
    for rule in rules:
        if rule.place is Place.TIE_BREAKER:
            raise RuleOrderError(
                f"rule {LevelByWeight.kind!r} moves partitions by its own threshold and does not "
                f"look at racks, so {rule.kind!r} beside it has nothing to say: leave it out"
            )
        if isinstance(rule, ShareByRelease):
            raise RuleOrderError(
                f"rule {rule.kind!r} counts partitions and {LevelByWeight.kind!r} weighs them: take one of "
                f"the two, or {LevelPartitions.kind!r} beside the first"
            )


class Rollout(Composed):
    """Releases get their shares, and among releases without one nothing moves while they are mixed.

    `release` is what this member runs, any text of up to 255 bytes; None is a release like any other. `share`
    is the part of every topic that the release asks for, from 0 to 1 and counted in ten-thousandths; None
    asks for none. `announce` changes it while the member runs.
    TypeError or ValueError for anything else.
    """

    __slots__ = ()

    def __init__(self, release: str | None = None, share: float | None = None) -> None:
        if release is not None and not isinstance(release, str):
            raise TypeError(f"a release is text, not {release!r}")
        facts = Facts(release, _ten_thousandths(share))
        rules = (ShareByRelease(), LevelPartitions(), FewestMoves(), FewestRackMisses())
        super().__init__("rollout", rules, facts)

    def __repr__(self) -> str:
        facts = self.announces
        share = None if facts.share is None else facts.share / WHOLE_SHARE
        return f"Rollout(release={facts.release!r}, share={share!r})"

    def announce(self, *, share: float | None) -> None:
        """Announce another share from the next join on.

        The group learns of it when this member joins again: `enforce_rebalance` of our cooperative consumers
        asks for that.
        """
        self.change(share=_ten_thousandths(share))


def _ten_thousandths(share: float | None) -> int | None:
    if share is None:
        return None
    if isinstance(share, bool) or not isinstance(share, (int, float)):
        raise TypeError(f"a share is a number between 0 and 1, not {share!r}")
    if not 0 <= share <= 1:
        raise ValueError(f"a share is between 0 and 1, a tenth being 0.1, not {share!r}")
    return round(share * WHOLE_SHARE)


class Standby(Composed):
    """Exactly balanced among active members; standby members take over where those are missing."""

    __slots__ = ()

    def __init__(self, *, standby: bool = False, active_at_least: int = 1) -> None:
        """`standby`: this member is one. `active_at_least`: how many members of each topic are active,
        standby ones if needed; all members of a group need the same number (ValueError if it is less than 1).
        """
        rules = (StandbyLast(active_at_least), LevelPartitions(), FewestMoves(), FewestRackMisses())
        super().__init__("standby", rules, Facts(standby=standby))


class Priority(Composed):
    """Topics in classes: the first is balanced by itself, then the next on top of it, the rest last."""

    __slots__ = ()

    def __init__(self, first: Iterable[Iterable[str | tuple[str, Iterable[int]]]] = ()) -> None:
        """`first` are the classes, the most important first: `[["alerts"], ["orders", ("pays", [0, 1])]]`.

        Without any it does the same as `cooperative-sticky`, and the leader's log says that nothing comes
        first. Raises as `LevelByPriority` does.
        """
        super().__init__("priority", (LevelByPriority(first), FewestMoves(), FewestRackMisses()))


class CoPartitioned(Composed):
    """Same-numbered partitions of the topics of each set go to one member; balance first, then movement.

        CoPartitioned([["orders", "payments"], ["clicks", "views"]])

    Exactly optimal in balance, then movement, then rack misses, where a set of same-numbered partitions
    counts as one. The sets have to be the same on all members. ValueError for a topic in two sets, or alone
    in one.
    """

    __slots__ = ()

    def __init__(self, topics: Iterable[Iterable[str]]) -> None:
        super().__init__(
            "co-partitioned", (KeepTogether(topics), LevelPartitions(), FewestMoves(), FewestRackMisses())
        )
