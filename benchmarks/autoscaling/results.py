"""The figures of a run in a JSON file, so that tables and picture do not need a new run."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.autoscaling.contestants import Run

__all__ = ["RESULTS", "Row", "read", "row", "write"]

RESULTS = Path(__file__).parent / "results.json"


@dataclass(frozen=True, slots=True)
class Row:
    """One contestant on one trace; `kind` and `beside` as in `Run`.

    Attributes:
        consumers: mean number.
        r_score: mean.
        moved: mean number of partitions that change owner at a measurement.
        overloaded: percentage of consumers and intervals with more load than capacity.
        p99_s, p999_s: percentiles of the lateness in seconds if a move pauses 5 s.
        modelled_p99_s, modelled_p999_s: the same with the pauses of our model.
    """

    name: str
    kind: str
    beside: str
    consumers: float
    r_score: float
    moved: float
    overloaded: float
    p99_s: float
    p999_s: float
    modelled_p99_s: float
    modelled_p999_s: float


def row(run: Run) -> Row:
    result = run.result
    return Row(
        run.name,
        run.kind,
        run.beside,
        round(result.mean_consumers, 3),
        round(result.mean_r_score, 4),
        round(result.moved / len(result.consumers), 3),
        round(100 * result.overloaded, 3),
        *(
            round(lateness.percentile_s(percent), 3)
            for lateness in (result.paper, result.modelled)
            for percent in (99, 99.9)
        ),
    )


def write(file: Path, tables: Mapping[str, Mapping[str, Iterable[Row]]]) -> None:
    """Write the rows by table (`prompt`, `late`) and trace."""
    form = {
        table: {trace: [dataclasses.asdict(each) for each in rows] for trace, rows in by_trace.items()}
        for table, by_trace in tables.items()
    }
    file.write_text(json.dumps(form, indent=1) + "\n")


def read(file: Path) -> dict[str, dict[str, Sequence[Row]]]:
    """Read the tables that `write` wrote."""
    form = json.loads(file.read_text())
    return {
        table: {trace: [Row(**each) for each in rows] for trace, rows in by_trace.items()}
        for table, by_trace in form.items()
    }
