"""Tables: which assignors find the optimum of random groups, and the results of `tests.exact_search`.

    python -m compat_tests.peers.optimality peers --groups 8000 --slow-groups 800
    python -m compat_tests.peers.optimality search search.json

`peers` draws the first groups of the search again and plays each, until it is at rest, with our strategies,
Java's assignors and, if Go is available, franz-go's. The assignors of kafka-python and aiokafka are slow, and
play fewer groups. The optimum comes from `tests.exact_oracle`. The exit code is 0, or 1 if our strategies
missed the optimum.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import track

from compat_tests.corpus.build import best_of
from compat_tests.corpus.run import OURS, Result, by_family, ended_badly, markdown, overall, run
from compat_tests.corpus.scenario import Scenario
from compat_tests.peers.asking import PEERS, Peer, available_clients, version_of
from tests.exact_comparison import KINDS, ORDERS
from tests.exact_families import FAMILIES, draw
from tests.exact_search import Search

SLOW = ("kafka-python", "aiokafka")
STICKY = [peer for peer in PEERS if "sticky" in peer.assignor]


def drawn(groups: int, seed: int) -> list[Scenario]:
    """The first groups of the search with this seed, with their optimum."""
    scenarios = []
    for number in range(groups):
        family, name = FAMILIES[number % len(FAMILIES)], f"{seed}/{number}"
        group = draw(family, name)
        scenarios.append(Scenario(family, name, "", (), group, best_of(group)))
    return scenarios


def play(scenarios: Sequence[Scenario], peers: Sequence[Peer], console: Console) -> tuple[str, list[Result]]:
    """The tables of one set of groups, and the results."""
    plays = len(scenarios) * (len(OURS) + len(peers))
    results = list(track(run(scenarios, peers), "playing", total=plays, console=console))
    clients = dict.fromkeys(peer.client for peer in peers)
    asked = ", ".join(f"{client} {version_of(client)}" for client in clients)
    parts = [f"{len(scenarios)} groups; {asked}.", overall(results), "Best, by family:", by_family(results)]
    if any(not result.verdict.flawless for result in results):
        parts += ["What ended badly, and the first group in which it did:", ended_badly(results)]
    return "\n\n".join(parts), results


def search_tables(search: Search) -> str:
    """The comparisons of the search by family, and their results."""
    counted = {**search.by_family, "all": search.total()}
    kinds = [kind for kind in KINDS if search.total().kinds[kind]]
    total = search.total()
    orders = [
        [
            ", ".join(("balance", *order.value)).replace("_", " "),
            total.solved[order.name],
            sum(times for what, times in total.worse.items() if what.startswith(f"{order.name}:")),
        ]
        for order in ORDERS.values()
    ]
    return "\n\n".join(
        [
            f"Seed {search.seed}; {total.groups} groups, {len(total.failures)} wrong.",
            markdown(["wishes, the greater first", "groups solved", "not optimal"], orders),
            f"The answer, assigned again, stayed as it was in {total.settled} groups; with members, topics\n"
            f"and claims in another order it was the same in {total.same_in_any_order}.",
            "Sizes, as least / lower quartile / median / upper quartile / greatest:",
            markdown(
                ["family", "groups", *total.sizes],
                (
                    [family, counts.groups, *(_quartiles(counts.sizes[what]) for what in total.sizes)]
                    for family, counts in counted.items()
                ),
            ),
            "How many groups had:",
            markdown(
                ["family", *kinds],
                ([family, *(counts.kinds[kind] for kind in kinds)] for family, counts in counted.items()),
            ),
        ]
    )


def _quartiles(counts: Counter[int]) -> str:
    """The quartiles of a distribution; `counts` has the frequency of each number."""
    if not counts:
        return ""
    numbers = sorted(counts)
    upto, reached = 0, []
    for number in numbers:
        upto += counts[number]
        reached.append((upto, number))
    total = upto
    middle = (
        next(number for upto, number in reached if 4 * upto >= quarter * total) for quarter in (1, 2, 3)
    )
    return " / ".join(map(str, (numbers[0], *middle, numbers[-1])))


def main(arguments: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Tables of who finds the optimum of random groups.")
    commands = parser.add_subparsers(dest="command", required=True)
    peers = commands.add_parser("peers", help="play random groups with every assignor")
    peers.add_argument("--groups", type=int, default=8000)
    peers.add_argument("--slow-groups", type=int, default=800, help="for kafka-python and aiokafka")
    peers.add_argument("--seed", type=int, default=1)
    search = commands.add_parser("search", help="tell what a search found")
    search.add_argument("file", type=Path, help="what tests.exact_search wrote")
    options = parser.parse_args(None if arguments is None else list(arguments))
    console = Console(stderr=True)
    if options.command == "search":
        found = Search.read(options.file)
        print(search_tables(found))
        return 1 if found.total().failures else 0
    failed = False
    scenarios = drawn(options.groups, options.seed)
    for slow, number in ((False, options.groups), (True, options.slow_groups)):
        asked = [p for p in STICKY if (p.client in SLOW) == slow and p.client in available_clients()]
        text, results = play(scenarios[:number], asked, console)
        print(text)
        failed |= any(result.ours and not result.verdict.flawless for result in results)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
