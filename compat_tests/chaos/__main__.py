"""`python -m compat_tests.chaos --seed 7 --minutes 10`, or `--seeds 1-20 --minutes 3`, one after the other.

Exit code 1 if a rule was broken, 2 if brokers failed so that a seed could not be judged. The sequence of
events is that of the seed; when exactly they meet the members is not.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from compat_tests.chaos.chaos_group import COPYING_KINDS, KINDS
from compat_tests.chaos.run import Totals, chaos_brokers, run, table
from compat_tests.support.kafka_admin import KafkaError


def seeds(text: str) -> list[int]:
    """`1,4,7-9` as numbers."""

    def each() -> Iterator[int]:
        for part in text.split(","):
            first, _, last = part.partition("-")
            yield from range(int(first), int(last or first) + 1)

    return list(each())


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m compat_tests.chaos", description=__doc__)
    parser.add_argument(
        "--seed", "--seeds", type=seeds, default=[1], dest="seeds", help="such as 7 or 1,4,7-9"
    )
    parser.add_argument("--minutes", type=float, default=2.0, help="for each seed")
    parser.add_argument("--kinds", default=",".join(KINDS), help=f"of members, by default {','.join(KINDS)}")
    parser.add_argument(
        "--transactions",
        action="store_true",
        help="instead of --kinds: each seed with each of our clients, whose members copy in transactions",
    )
    parser.add_argument("--logs", type=Path, help="keep the logs of runs with violations in this folder")
    chosen = parser.parse_args(arguments)
    groups = [[kind] for kind in COPYING_KINDS] if chosen.transactions else [chosen.kinds.split(",")]
    if unknown := {kind for kinds in groups for kind in kinds} - KINDS.keys() - COPYING_KINDS.keys():
        parser.error(f"no such kind: {', '.join(sorted(unknown))}")
    runs = [(seed, kinds) for seed in chosen.seeds for kinds in groups]

    totals: list[Totals] = []
    settled_in_s: list[float] = []
    violated: list[int] = []
    unjudged: list[int] = []
    for seed, kinds in runs:
        try:
            with chaos_brokers() as kafka:
                logs = chosen.logs and chosen.logs / f"seed-{seed}-{time.strftime('%H%M%S')}"
                found = run(kafka, seed, chosen.minutes, kinds, _tell, logs)
        except KafkaError as error:  # A broker did not return, or did not obey.
            print(f"== seed {seed}: not judged: {error}", flush=True)
            unjudged.append(seed)
            continue
        name = f"seed {seed}, {', '.join(kinds)}"
        shown = table([found.totals], found.settled_in_s)
        print(f"== {name}: {len(found.violations)} violations\n{shown}", flush=True)
        totals.append(found.totals)
        settled_in_s.extend(found.settled_in_s)
        if found.violations:
            violated.append(seed)
            print(found.story(), flush=True)
    if len(totals) > 1:
        print(f"== all seeds\n{table(totals, settled_in_s)}")
    print(
        f"{len(totals)} seeds judged, with violations: {violated or 'none'}, not judged: {unjudged or 'none'}"
    )
    return 1 if violated else 2 if unjudged else 0


def _tell(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
