"""The results of `benchmarks.assign` as tables; docs/evidence.md has some of the rows.

python -m benchmarks.report
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from benchmarks.assign import RESULTS
from benchmarks.contestants import CONTESTANTS

Results = Mapping[str, Any]


def times_table(results: Results, what: str, names: Iterable[str]) -> Iterator[str]:
    """Milliseconds of every contestant, and in brackets our time over theirs."""
    measured = {group: of[what] for group, of in results["groups"].items() if what in of}
    names = [name for name in names if any(name in times for times in measured.values())]
    yield f"| members x partitions | ours, ms | {' | '.join(names)} |"
    yield f"|---|---:|{'---:|' * len(names)}"
    for group, times in measured.items():
        ours = times["ours"] and statistics.median(times["ours"])
        cells = [_time(ours, times[name]) if name in times else "" for name in names]
        yield f"| {group} | {_ms(ours)} | {' | '.join(cells)} |"


def _time(ours: float | None, samples: list[float] | None) -> str:
    """The median of a peer; no samples are those of one that was too slow."""
    if not samples:
        return "too slow"
    median = statistics.median(samples)
    if not ours:
        return _ms(median)
    return f"{_ms(median)} ({ours / median:.{4 if ours < median / 100 else 2}f})"


def _ms(milliseconds: float | None) -> str:
    if milliseconds is None:
        return "too slow"
    if milliseconds < 0.1:
        return f"{milliseconds:.3f}"
    return f"{milliseconds:.2f}" if milliseconds < 10 else f"{milliseconds:,.0f}"


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    versions = ", ".join(f"{name} {version}" for name, version in sorted(results["versions"].items()))
    print(f"Measured until {results['measured']}: {versions}.\n")
    for what in ("assign", "lead"):
        print(f"## {what}\n\n" + "\n".join(times_table(results, what, [*CONTESTANTS][1:])) + "\n")


if __name__ == "__main__":
    main()
