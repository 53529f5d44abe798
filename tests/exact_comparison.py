"""The solver against the exact optimum, group by group, with counts over many groups.

The command that runs this for hours is `tests.exact_search`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from kafka_assignors.criteria import FEWEST_MOVES, MOVES_THEN_RACKS, PLAIN, RACKS_THEN_MOVES, Scale
from kafka_assignors.group import Assignment, Group, Member
from kafka_assignors.solver import solve
from kafka_assignors_cli.group_form import group_to_json
from tests.exact_groups import SMALL, Limits, random_group
from tests.exact_oracle import Oracle
from tests.exact_score import Order, Score, owners_of, score

__all__ = ["KINDS", "ORDERS", "Comparison", "Failure", "compare", "distribution"]

T = TypeVar("T")

ORDERS = {
    FEWEST_MOVES: Order.MOVEMENT,
    MOVES_THEN_RACKS: Order.MOVEMENT_RACKS,
    RACKS_THEN_MOVES: Order.RACKS_MOVEMENT,
}

KINDS = (
    "mixed subscriptions",
    "prior owners",
    "claims of several generations",
    "double claims",
    "dropped claims",
    "static members",
    "racks",
    "capacities",
    "partitions already there",
)
"""The properties of a group that a comparison counts."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An answer of the solver that is wrong: the group, the order of wishes, and the error."""

    name: str
    order: str
    what: str
    group: Mapping[str, Any]


@dataclass(slots=True)
class Comparison:
    """Counts over groups, and every failure.

    `solved` and `worse` count by the name of the order. A key of `worse` is "MOVEMENT: moved" if `moved` is
    the first wish that the solver does not reach in that order. `settled` counts the groups whose assignment
    stays the same when it is assigned again. `same_in_any_order` counts the groups whose assignment does not
    depend on the order of members, topics and claims.
    """

    groups: int = 0
    solved: Counter[str] = field(default_factory=Counter)
    worse: Counter[str] = field(default_factory=Counter)
    settled: int = 0
    same_in_any_order: int = 0
    failures: list[Failure] = field(default_factory=list)
    sizes: dict[str, Counter[int]] = field(default_factory=dict)
    kinds: Counter[str] = field(default_factory=Counter)

    def add(self, name: str, group: Group, scale: Scale = PLAIN) -> None:
        """Solve one group in every order of wishes, and compare each answer with the optimum."""
        oracle = Oracle(group, scale)
        claims = group.claims
        judged = {
            (t, p): m for m, by_topic in claims.owners.items() for t, ps in by_topic.items() for p in ps
        }
        if judged != oracle.prior:
            self._fail(name, group, "claims", "the claims are judged differently")
            return
        self._describe(group, oracle)
        movement_first = oracle.best(Order.MOVEMENT_RACKS)
        best = {
            Order.MOVEMENT: movement_first,  # its movement is the least, with any rack misses
            Order.MOVEMENT_RACKS: movement_first,
            Order.RACKS_MOVEMENT: oracle.best(Order.RACKS_MOVEMENT)
            if movement_first.rack_misses
            else movement_first,
        }
        for preference, order in ORDERS.items():
            self.solved[order.name] += 1
            assignment = solve(group, claims, criteria=preference, scale=scale)
            try:
                ours = score(group, owners_of(group, assignment), oracle.prior, scale)
            except AssertionError as invalid:
                self._fail(name, group, order.name, str(invalid))
                continue
            self._compare(name, group, order, ours, best[order])
        self._repeat(name, group, scale)

    def _compare(self, name: str, group: Group, order: Order, ours: Score, best: Score) -> None:
        wishes = ("sum_of_squares", *order.value)
        for wish, mine, least in zip(wishes, ours.in_order(order), best.in_order(order), strict=True):
            if mine != least:  # a smaller number is a failure too: the oracle would not be exact
                self.worse[f"{order.name}: {wish}"] += 1
                self._fail(name, group, order.name, f"{ours} where {best} is possible")
                return

    def _repeat(self, name: str, group: Group, scale: Scale) -> None:
        """Assign the answer again, and assign the shuffled group."""
        rng = random.Random(name)
        preference = rng.choice(list(ORDERS))

        def assign(group: Group) -> dict[str, dict[str, list[int]]]:
            return _plain(solve(group, group.claims, criteria=preference, scale=scale))

        answer = assign(group)
        again = assign(_owning(group, answer))
        if again == answer:
            self.settled += 1
        else:
            self._fail(name, group, ORDERS[preference].name, "assigning the answer again moves partitions")
        if assign(_shuffled(rng, group)) == answer:
            self.same_in_any_order += 1
        else:
            self._fail(name, group, ORDERS[preference].name, "the order of members or topics matters")

    def _fail(self, name: str, group: Group, order: str, what: str) -> None:
        self.failures.append(Failure(name, order, what, group_to_json(group)))

    def _describe(self, group: Group, oracle: Oracle) -> None:
        self.groups += 1
        for what, number in {
            "members": len(group.members),
            "topics": len(group.topics),
            "partitions assigned": len(oracle.partitions),
        }.items():
            self.sizes.setdefault(what, Counter())[number] += 1
        members = group.members.values()
        claimed = Counter((t, p) for m in members for t, ps in m.owned.items() for p in set(ps))
        kinds = (
            len({m.topics for m in members}) > 1,
            bool(oracle.prior),
            len({m.generation for m in members if m.owned}) > 1,
            any(times > 1 for times in claimed.values()),
            any(partition not in oracle.prior for partition in claimed),
            any(m.instance_id for m in members),
            any(m.rack for m in members),
            len({oracle.scale.capacity(m.id) for m in members}) > 1,
            any(oracle.scale.has_already(m.id) for m in members),
        )
        self.kinds.update(dict(zip(KINDS, map(int, kinds), strict=True)))

    def merge(self, other: Comparison) -> None:
        """Add the counts of `other`."""
        self.groups += other.groups
        self.settled += other.settled
        self.same_in_any_order += other.same_in_any_order
        self.solved.update(other.solved)
        self.worse.update(other.worse)
        self.kinds.update(other.kinds)
        self.failures += other.failures
        for what, counts in other.sizes.items():
            self.sizes.setdefault(what, Counter()).update(counts)

    def to_json(self) -> dict[str, Any]:
        """The comparison as a value for `json.dumps`; `from_json` reads it."""
        return {
            "groups": self.groups,
            "solved": dict(self.solved),
            "worse": dict(self.worse),
            "settled": self.settled,
            "same_in_any_order": self.same_in_any_order,
            "failures": [[one.name, one.order, one.what, dict(one.group)] for one in self.failures],
            "sizes": {what: sorted(counts.items()) for what, counts in self.sizes.items()},
            "kinds": dict(self.kinds),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Comparison:
        """The comparison that `to_json` wrote."""
        return cls(
            groups=value["groups"],
            solved=Counter(value["solved"]),
            worse=Counter(value["worse"]),
            settled=value["settled"],
            same_in_any_order=value["same_in_any_order"],
            failures=[Failure(*one) for one in value["failures"]],
            sizes={what: Counter(dict(counts)) for what, counts in value["sizes"].items()},
            kinds=Counter(value["kinds"]),
        )

    def table(self) -> str:
        """The counts and the first 20 failures, as text."""
        lines = [f"{self.groups} groups"]
        for what, counts in self.sizes.items():
            lines.append(f"  {what:28} {distribution(counts)}")
        lines += [f"  with {what:23} {number}" for what, number in self.kinds.items()]
        for order in ORDERS.values():
            wishes = ", ".join(("balance", *order.value))
            worse = sum(count for what, count in self.worse.items() if what.startswith(f"{order.name}:"))
            solved = self.solved[order.name]
            lines.append(f"{wishes:29} {solved} solved, {worse} not optimal")
        lines.append(f"the answer assigned again is the same in {self.settled}")
        lines.append(f"in another order of members, topics and claims the same in {self.same_in_any_order}")
        return "\n".join([*lines, *(f"{one.name}, {one.order}: {one.what}" for one in self.failures[:20])])


def distribution(counts: Counter[int]) -> str:
    """How often each number occurred, or each range of numbers if there are many."""
    width = 1 + max(counts) // 12
    ranges: Counter[int] = Counter()
    for number, count in counts.items():
        ranges[number // width] += count
    named = (f"{n}" if width == 1 else f"{n * width}-{n * width + width - 1}" for n in sorted(ranges))
    return "  ".join(f"{name}: {ranges[n]}" for name, n in zip(named, sorted(ranges), strict=True))


def _plain(assignment: Assignment) -> dict[str, dict[str, list[int]]]:
    """The assignment with each sequence of partitions as a list."""
    return {m: {t: list(ps) for t, ps in by_topic.items()} for m, by_topic in assignment.members.items()}


def _owning(group: Group, owned: Mapping[str, Mapping[str, list[int]]]) -> Group:
    """The group one generation later, when every member owns its assignment."""
    generation = 1 + max(0, group.generation or 0)

    def later(member: Member) -> Member:
        return replace(member, owned=owned[member.id], generation=generation)

    members = {member.id: later(member) for member in group.members.values()}
    return Group(group.topics, members, generation + 1)


def _shuffled(rng: random.Random, group: Group) -> Group:
    """The same group with its members, topics and claims in another order."""

    def shuffled(items: list[T]) -> list[T]:
        return rng.sample(items, len(items))

    members = {
        member_id: replace(
            member,
            topics=frozenset(shuffled(sorted(member.topics))),
            owned={t: shuffled(list(ps)) for t, ps in shuffled(list(member.owned.items()))},
        )
        for member_id, member in shuffled(list(group.members.items()))
    }
    return Group(dict(shuffled(list(group.topics.items()))), members, group.generation)


def compare(
    groups: int,
    seed: int,
    limits: Limits = SMALL,
    make: Callable[[random.Random, Limits], Group] = random_group,
    make_scale: Callable[[random.Random, Group], Scale] | None = None,
) -> Comparison:
    """Compare random groups; a failure names the seed of its group."""
    comparison = Comparison()
    for number in range(groups):
        name = f"{seed}/{number}"
        rng = random.Random(name)
        group = make(rng, limits)
        comparison.add(name, group, PLAIN if make_scale is None else make_scale(rng, group))
    return comparison
