"""Which assignors reach the optimum: every scenario of the corpus, with our strategies and the peers'.

    python -m compat_tests.corpus                print the tables; docs/evidence.md has the first
    python -m compat_tests.corpus --only Java    ours, and the assignors of one client

Needs Java, kafka-python and aiokafka, and also asks franz-go if Go is available.
The exit code is 0, or 1 if our strategies miss the optimum in a scenario.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.progress import track

from compat_tests.corpus.run import OURS, run, tables
from compat_tests.corpus.scenario import read_corpus
from compat_tests.peers.asking import CLIENTS, PEERS, available_clients, version_of


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Hold assignors against the optimum in every scenario.")
    parser.add_argument("--only", choices=CLIENTS, action="append", help="ask this client; may be repeated")
    options = parser.parse_args(arguments)
    console = Console(stderr=True)
    clients = options.only or available_clients()
    peers = [peer for peer in PEERS if peer.client in clients]
    scenarios = read_corpus()
    plays = len(scenarios) * (len(OURS) + len(peers))
    results = list(track(run(scenarios, peers), "playing", total=plays, console=console))
    asked = ", ".join(f"{client} {version_of(client)}" for client in clients)
    print(f"{len(scenarios)} scenarios; {asked}.\n\n{tables(results)}")
    wrong = [r for r in results if r.ours and not r.verdict.flawless]
    for result in wrong:
        console.print(
            f"{result.assignor} in {result.scenario.family}/{result.scenario.name}: {result.verdict}"
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
