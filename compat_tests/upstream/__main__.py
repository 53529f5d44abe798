"""Runs a client's own tests with the stock consumer and with the cooperative one, from its sources.

    python -m compat_tests.upstream aiokafka ../aiokafka    a checkout of the installed version
    python -m compat_tests.upstream kafka-python            the source archive on the package index

Prints each test that does not pass with both, the versions, the counts, and what ran twice. The exit code is
0, 1 if the differences are not exactly those that `differences` allows, or 2 if the tests do not run.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from compat_tests.upstream.differences import ALLOWED
from compat_tests.upstream.suites import SUITES, SuiteError, compare, download, report, run, unpack


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m compat_tests.upstream",
        description="Run a client's own tests with the stock consumer and with the cooperative one.",
    )
    parser.add_argument("client", choices=SUITES)
    parser.add_argument(
        "sources", type=Path, nargs="?", help="a checkout; by default the source archive on the package index"
    )
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="upstream-") as temporary:
        folder = Path(temporary)
        try:
            sources = chosen.sources or unpack(download(chosen.client, folder), folder)
            outcomes = run(SUITES[chosen.client], sources)
        except SuiteError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
    for test, (stock, ours) in outcomes.items():
        if not stock.outcome == ours.outcome == "passed":
            print(test)
            print(f"  stock: {stock.outcome} {stock.reason}")
            print(f"  cooperative: {ours.outcome} {ours.reason}")
    print(*report(chosen.client, outcomes), sep="\n")
    different, allowed = compare(outcomes).keys(), ALLOWED[chosen.client].keys()
    for test in sorted(different - allowed):
        print(f"not allowed: {test}")
    for test in sorted(allowed - different):
        print(f"allowed, but not different: {test}")
    return 0 if different == allowed else 1


if __name__ == "__main__":
    sys.exit(main())
