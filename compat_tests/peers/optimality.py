"""Tables: which assignors find the optimum of random groups, or of the named situations of the corpus.

    python -m compat_tests.peers.optimality --groups 8000 --slow-groups 800
    python -m compat_tests.peers.optimality --corpus
    python -m compat_tests.peers.optimality --kip848 --groups 2000

It draws the groups of `tests.exact_comparison` and plays each, until it is at rest, with our strategies,
Java's assignors and, if Go is available, franz-go's. The assignors of kafka-python and aiokafka are slow, and
play fewer groups. The optimum comes from `tests.exact_oracle`. The exit code is 0, or 1 if our strategies
missed the optimum.

With `--kip848` it plays KIP-848's assignors beside those of clients, in groups in which all members' claims
are valid. Groups whose members all have the same subscription have a table of their own, since `uniform`
treats the two kinds differently.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.progress import track

from compat_tests.corpus.optimum import best_of
from compat_tests.corpus.run import OURS, Result, overall, play_ours, run
from compat_tests.corpus.scenario import Scenario, read_corpus
from compat_tests.peers.asking import PEERS, Peer, available_clients, version_of
from tests.exact_groups import FAMILIES, draw

SLOW = ("kafka-python", "aiokafka")
STICKY = [peer for peer in PEERS if "sticky" in peer.assignor]


KIP848_FAMILIES = ("fresh", "changed", "grown", "racks")
KIP848 = ("kip848-uniform", "kip848-range", "range", "roundrobin", *OURS)


def drawn(groups: int, seed: str, families: Sequence[str] = FAMILIES) -> list[Scenario]:
    """The groups of the search with this seed, with their optimum."""
    scenarios = []
    for number in range(groups):
        family, name = families[number % len(families)], f"{seed}/{number}"
        group = draw(family, name)
        scenarios.append(Scenario(family, name, group, best_of(group)))
    return scenarios


def play(scenarios: Sequence[Scenario], peers: Sequence[Peer], console: Console) -> tuple[str, list[Result]]:
    """The table of one set of groups, and the results."""
    plays = len(scenarios) * (len(OURS) + len(peers))
    results = list(track(run(scenarios, peers), "playing", total=plays, console=console))
    clients = dict.fromkeys(peer.client for peer in peers)
    asked = ", ".join(f"{client} {version_of(client)}" for client in clients)
    missed = [one for one in results if one.ours and not one.verdict.flawless]
    parts = [f"{len(scenarios)} groups; {asked}.", overall(results)]
    parts += [f"{one.assignor} missed the optimum of {one.scenario.name}" for one in missed]
    return "\n\n".join(parts), results


def print_kip848(groups: int, seed: int) -> None:
    by_kind: dict[bool, list[Scenario]] = {True: [], False: []}
    for one in drawn(groups, f"kip848 {seed}", KIP848_FAMILIES):
        by_kind[len({member.topics for member in one.group.members.values()}) == 1].append(one)
    for alike, scenarios in by_kind.items():
        what = "all members subscribe to the same topics" if alike else "they do not"
        results = [play_ours(name, one) for name in KIP848 for one in scenarios]
        print(f"{len(scenarios)} groups in which {what}:\n\n{overall(results)}\n")


def main(arguments: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Tables of who finds the optimum of random groups.")
    parser.add_argument("--groups", type=int, default=8000)
    parser.add_argument("--slow-groups", type=int, default=800, help="for kafka-python and aiokafka")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--corpus", action="store_true", help="the corpus, with all assignors, in place of groups"
    )
    parser.add_argument("--kip848", action="store_true", help="KIP-848's assignors and those of clients")
    options = parser.parse_args(None if arguments is None else list(arguments))
    console = Console(stderr=True)
    failed = False
    if options.kip848:
        print_kip848(options.groups, options.seed)
        return 0
    if options.corpus:
        text, results = play(read_corpus(), [p for p in PEERS if p.client in available_clients()], console)
        print(text)
        return int(any(result.ours and not result.verdict.flawless for result in results))
    scenarios = drawn(options.groups, str(options.seed))
    for slow, number in ((False, options.groups), (True, options.slow_groups)):
        asked = [p for p in STICKY if (p.client in SLOW) == slow and p.client in available_clients()]
        text, results = play(scenarios[:number], asked, console)
        print(text)
        failed |= any(result.ours and not result.verdict.flawless for result in results)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
