"""`python -m compat_tests.soak --minutes 120` runs consumers of each kind, and reports the counts that grow.

The exit code is 1 if a count of this project's consumers grew, and 2 if there are too few samples. `--report`
judges the samples of a run that is still under way or was ended; `--picture` draws them.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from compat_tests.soak.report import judge, table, write_json
from compat_tests.soak.run import run


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m compat_tests.soak", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument(
        "--every", type=float, metavar="SECONDS", help="from sample to sample; default: by the length"
    )
    parser.add_argument(
        "--only", default="", metavar="NAMES", help="such as *-cooperative-*,kafka_python-stock-idle"
    )
    parser.add_argument("--folder", type=Path, default=Path("soak"), help="of the samples; default: soak")
    parser.add_argument("--report", action="store_true", help="run nothing, judge what is in the folder")
    parser.add_argument("--picture", type=Path, metavar="SVG", help="draw the curves (needs matplotlib)")
    chosen = parser.parse_args(arguments)
    if not chosen.report:
        every_s = chosen.every or min(30.0, max(2.0, chosen.minutes * 60 / 100))
        run(chosen.folder, chosen.minutes, every_s, [*filter(None, chosen.only.split(","))], _tell)
    try:
        found = judge(chosen.folder)
    except ValueError as error:
        print(f"not judged: {error}", file=sys.stderr)
        return 2
    print(table(found))
    write_json(found, chosen.folder / "soak.json")
    if chosen.picture:
        from compat_tests.soak.picture import draw

        draw(found, chosen.picture)
    broken = [one for one in found if one.broken]
    for one in broken:
        print(f"grows: {one.client} {one.consumer} {one.role}: {', '.join(one.growing)}")
    print(f"{len(found)} consumers, {sum(one.is_ours for one in found)} of them judged, {len(broken)} grow")
    return 1 if broken else 0


def _tell(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
