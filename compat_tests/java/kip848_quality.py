"""A table of KIP-848's assignors and those of clients, over random groups with a known optimum.

    python -m compat_tests.java.kip848_quality --groups 2000

The groups are those of `tests.exact_families` in which all members' claims are valid; the optimum comes from
`tests.exact_oracle`. Groups whose members all have the same subscription have a table of their own, since
`uniform` treats the two kinds differently. The exit code is 0, or 1 if a strategy that promises the optimum
missed it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from dataclasses import dataclass

from rich.console import Console
from rich.progress import track

from compat_tests.corpus.optimum import best_of
from compat_tests.corpus.run import OURS, markdown
from compat_tests.corpus.scenario import Best
from kafka_assignors.group import Group
from kafka_assignors.quality import Quality, measure
from kafka_assignors.strategies import load_strategy
from tests.exact_families import draw

FAMILIES = ("fresh", "changed", "grown", "racks")
STRATEGIES = ("kip848-uniform", "kip848-range", "range", "roundrobin", *OURS)


@dataclass(frozen=True, slots=True)
class Reached:
    """The result of a strategy for a group, and the optimum."""

    quality: Quality
    loads: tuple[int, ...]
    best: Best

    @property
    def balanced(self) -> bool:
        return self.loads == expanded(self.best)

    @property
    def least_moved(self) -> bool:
        return self.balanced and self.quality.moved == self.best.moved_then_misses[0]


def expanded(best: Best) -> tuple[int, ...]:
    """The optimal loads of all members, ascending."""
    return tuple(sorted(load for load, count in best.loads.items() for _ in range(count)))


def reached(name: str, group: Group, best: Best) -> Reached:
    assignment = load_strategy(name).assign(group)
    loads = tuple(sorted(map(assignment.load, group.members)))
    return Reached(measure(group, assignment), loads, best)


def table(by_strategy: dict[str, list[Reached]]) -> str:
    head = ["strategy", "balanced", "and least moved", "moved", "rack misses", "above the best loads"]
    rows = []
    for name, results in by_strategy.items():
        above = sum(
            sum(max(0, load - least) for load, least in zip(one.loads, expanded(one.best), strict=True))
            for one in results
        )
        rows.append(
            [
                f"`{name}`",
                sum(one.balanced for one in results),
                sum(one.least_moved for one in results),
                sum(one.quality.moved for one in results),
                sum(one.quality.rack_misses or 0 for one in results),
                above,
            ]
        )
    any_results = next(iter(by_strategy.values()))
    least_moved = sum(one.best.moved_then_misses[0] for one in any_results)
    least_misses = sum(one.best.misses_then_moved[0] for one in any_results)
    rows.append(["the best there is", len(any_results), len(any_results), least_moved, least_misses, 0])
    return markdown(head, rows)


def main(arguments: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="The table of KIP-848's assignors beside those of clients.")
    parser.add_argument("--groups", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(None if arguments is None else list(arguments))
    alike: list[tuple[Group, Best]] = []
    mixed: list[tuple[Group, Best]] = []
    for number in track(range(options.groups), "drawing", console=Console(stderr=True)):
        group = draw(FAMILIES[number % len(FAMILIES)], f"kip848 {options.seed}/{number}")
        one_subscription = len({member.topics for member in group.members.values()}) == 1
        (alike if one_subscription else mixed).append((group, best_of(group)))
    texts: list[str] = []
    failed = False
    for what, groups in (("all members subscribe to the same topics", alike), ("they do not", mixed)):
        by_strategy = {name: [reached(name, *group) for group in groups] for name in STRATEGIES}
        failed |= any(not one.balanced for name in OURS for one in by_strategy[name])
        owning = sum(bool(group.claims.owners) for group, _ in groups)
        head = f"{len(groups)} groups in which {what}, {owning} of them with earlier owners:"
        texts += [head, table(by_strategy)]
    print("\n\n".join(texts))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
