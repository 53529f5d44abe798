"""See the package's docstring."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from benchmarks.autoscaling.contestants import late_runs, runs
from benchmarks.autoscaling.report import table, verdict
from benchmarks.autoscaling.results import RESULTS, Row, read, row, write
from benchmarks.autoscaling.traces import LATE, MEASUREMENTS, Trace, read_stream, traces


def measured(trace: Trace) -> list[Row]:
    return [row(run) for run in runs(trace)]


def measured_late(trace: Trace) -> list[Row]:
    return [row(run) for run in late_runs(trace)]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Autoscalers of consumer groups, published and ours.")
    parser.add_argument("--small", action="store_true", help="a tenth of the partitions, ten measurements")
    parser.add_argument("--measurements", type=int, default=MEASUREMENTS, help="of each stream (100)")
    parser.add_argument("--stream", type=Path, help="a stream of the authors in a file, instead")
    parser.add_argument("--read", action="store_true", help=f"the figures of {RESULTS.name}, run nothing")
    parser.add_argument("--write", type=Path, help="write the figures into this file")
    parser.add_argument("--picture", type=Path, help="draw them into this SVG; needs the group `picture`")
    parser.add_argument("--processes", type=int, default=1, help="traces run side by side in so many (1)")
    options = parser.parse_args(arguments)
    if options.read:
        found = read(RESULTS)
        for table_name, by_trace in found.items():
            for trace, rows in by_trace.items():
                _show(table_name, trace, rows)
    else:
        every = (
            [read_stream(options.stream)]
            if options.stream
            else traces(options.measurements, small=options.small)
        )
        found = _run(every, options.processes, options.write)
    print(f"\n{verdict(found['prompt'])}")
    if options.picture:
        # Not at the top: only this needs matplotlib.
        from benchmarks.autoscaling.picture import draw

        draw(found["prompt"], options.picture)
    return 0


def _run(every: Sequence[Trace], processes: int, file: Path | None) -> dict[str, dict[str, Sequence[Row]]]:
    """Run all traces, and return the figures; each trace is shown and written as soon as it is done."""
    found: dict[str, dict[str, Sequence[Row]]] = {"prompt": {}, "late": {}}
    late = [trace for trace in every if trace.name in LATE]
    with ProcessPoolExecutor(processes) as pool:
        tables = {"prompt": (every, pool.map(measured, every)), "late": (late, pool.map(measured_late, late))}
        for table_name, (of_table, results) in tables.items():
            for trace, rows in zip(of_table, results, strict=True):
                found[table_name][trace.name] = rows
                _show(table_name, trace.name, rows)
                if file is not None:
                    write(file, found)
    return found


def _show(table_name: str, trace: str, rows: Sequence[Row]) -> None:
    late = ", decided on the measurement before" if table_name == "late" else ""
    print(f"\n{trace}{late}:\n\n{table(rows)}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
