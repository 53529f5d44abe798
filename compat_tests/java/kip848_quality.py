"""A table of KIP-848's assignors and those of clients, over random groups with a known optimum.

    python -m compat_tests.java.kip848_quality --groups 2000

The groups are those of `tests.exact_families` in which all members' claims are valid; the optimum comes from
`tests.exact_oracle`. Groups whose members all have the same subscription have a table of their own, since
`uniform` treats the two kinds differently.
"""

from __future__ import annotations

import argparse

from rich.console import Console
from rich.progress import track

from compat_tests.corpus.optimum import best_of
from compat_tests.corpus.run import OURS, overall, play_ours
from compat_tests.corpus.scenario import Scenario
from tests.exact_families import draw

FAMILIES = ("fresh", "changed", "grown", "racks")
STRATEGIES = ("kip848-uniform", "kip848-range", "range", "roundrobin", *OURS)


def main() -> None:
    parser = argparse.ArgumentParser(description="The table of KIP-848's assignors beside those of clients.")
    parser.add_argument("--groups", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    alike: list[Scenario] = []
    mixed: list[Scenario] = []
    for number in track(range(options.groups), "drawing", console=Console(stderr=True)):
        family, name = FAMILIES[number % len(FAMILIES)], f"kip848 {options.seed}/{number}"
        group = draw(family, name)
        one_subscription = len({member.topics for member in group.members.values()}) == 1
        (alike if one_subscription else mixed).append(Scenario(family, name, "", (), group, best_of(group)))
    for what, groups in (("all members subscribe to the same topics", alike), ("they do not", mixed)):
        results = [play_ours(name, one) for name in STRATEGIES for one in groups]
        print(f"{len(groups)} groups in which {what}:\n\n{overall(results)}\n")


if __name__ == "__main__":
    main()
