"""Ours against the exact optimum, over random groups.

As a command, which exits 1 if ours was worse anywhere:

    python -m tests.exact_comparison --groups 5000 --seed 1
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from kafka_assignors.claims import judge_claims
from kafka_assignors.group import Group
from kafka_assignors.solver import RackPreference, solve
from tests.exact_groups import SMALL, Limits, random_group
from tests.exact_oracle import Oracle, Order, Score, owners_of, score

PREFERENCES = {
    RackPreference.NONE: Order.MOVEMENT,
    RackPreference.AFTER_MOVEMENT: Order.MOVEMENT_RACKS,
    RackPreference.BEFORE_MOVEMENT: Order.RACKS_MOVEMENT,
}


@dataclass(slots=True)
class Comparison:
    """Counts over groups, and every case in which the two differ."""

    groups: int = 0
    solved: Counter[str] = field(default_factory=Counter)
    worse: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    sizes: dict[str, Counter[int]] = field(default_factory=dict)
    kinds: Counter[str] = field(default_factory=Counter)

    def add(self, name: str, group: Group) -> None:
        """Solve one group in every order in which it differs."""
        oracle = Oracle(group)
        claims = judge_claims(group)
        judged = {(t, p): m for m, by_topic in claims.prior.items() for t, ps in by_topic.items() for p in ps}
        assert judged == oracle.prior, f"{name}: the claims were judged differently"
        self._describe(group, oracle)
        racks = any(member.rack for member in group.members.values())
        for preference, order in PREFERENCES.items():
            if preference is RackPreference.NONE or racks:
                owner_now = owners_of(group, solve(group, claims, racks=preference))
                self._compare(name, order, score(group, owner_now, oracle.prior), oracle.best(order))

    def _compare(self, name: str, order: Order, ours: Score, best: Score) -> None:
        self.solved[order.name] += 1
        wishes = ("sum_of_squares", *order.value)
        for wish, mine, least in zip(wishes, ours.in_order(order), best.in_order(order), strict=True):
            if mine != least:  # a smaller number would be as wrong: the oracle would not be exact
                self.worse[f"{order.name}: {wish}"] += 1
                self.failures.append(f"{name}, {order.name}: {ours} where {best} is possible")
                return

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
        self.kinds.update(
            {
                "mixed subscriptions": len({m.topics for m in members}) > 1,
                "prior owners": bool(oracle.prior),
                "claims of several generations": len({m.generation for m in members if m.owned}) > 1,
                "double claims": any(times > 1 for times in claimed.values()),
                "dropped claims": any(partition not in oracle.prior for partition in claimed),
                "static members": any(m.instance_id for m in members),
                "racks": any(m.rack for m in members),
            }
        )

    def table(self) -> str:
        """What was compared, and what came of it."""
        lines = [f"{self.groups} groups"]
        for what, counts in self.sizes.items():
            lines.append(f"  {what:28} {_distribution(counts)}")
        lines += [f"  with {what:23} {number}" for what, number in self.kinds.items()]
        for preference, order in PREFERENCES.items():
            wishes = ", ".join(("balance", *order.value))
            worse = sum(count for what, count in self.worse.items() if what.startswith(f"{order.name}:"))
            solved = self.solved[order.name]
            lines.append(f"{preference.name:16} {wishes:29} {solved} solved, {worse} not optimal")
        return "\n".join([*lines, *self.failures[:20]])


def _distribution(counts: Counter[int]) -> str:
    """How often each number came, or from each range of numbers if there are many."""
    width = 1 + max(counts) // 12
    ranges: Counter[int] = Counter()
    for number, count in counts.items():
        ranges[number // width] += count
    named = (f"{n}" if width == 1 else f"{n * width}-{n * width + width - 1}" for n in sorted(ranges))
    return "  ".join(f"{name}: {ranges[n]}" for name, n in zip(named, sorted(ranges), strict=True))


def compare(groups: int, seed: int, limits: Limits = SMALL) -> Comparison:
    """Compare over so many random groups; the seed of each is named where it matters."""
    comparison = Comparison()
    for number in range(groups):
        name = f"{seed}/{number}"
        comparison.add(name, random_group(random.Random(name), limits))
    return comparison


def main(arguments: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Compare the solver with an exact one of another kind.")
    parser.add_argument("--groups", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--members", type=int, default=SMALL.members, help="at most so many")
    parser.add_argument("--topics", type=int, default=SMALL.topics, help="at most so many")
    parser.add_argument("--partitions", type=int, default=SMALL.partitions, help="at most so many a topic")
    options = parser.parse_args(None if arguments is None else list(arguments))
    limits = Limits(options.members, options.topics, options.partitions)
    comparison = compare(options.groups, options.seed, limits)
    print(comparison.table())
    return 1 if comparison.failures else 0


if __name__ == "__main__":
    sys.exit(main())
