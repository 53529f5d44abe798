"""The same replay on a cluster and on this machine, compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from kafka_assignors_replay.replay import run_replay
from kafka_assignors_replay.result import ReplayOptions
from kafka_assignors_replay.schemas import TABLES
from spark_validation.standalone.cluster import StandaloneCluster
from spark_validation.standalone.wheel import bare_python, py_files

__all__ = ["Compared", "compare", "read_tables"]

PROGRAM = "from kafka_assignors_cli import main\nraise SystemExit(main())\n"
"""The whole program that a user writes to run our command by spark-submit."""

Tables = dict[str, list[str]]


@dataclass(frozen=True, slots=True)
class Compared:
    """The tables of both runs as sorted text, the driver's output, the number of workers used, and of tasks
    that ran again because a worker was killed.
    """

    here: Tables
    there: Tables
    printed: str
    workers: int
    tasks_run_again: int

    @property
    def differing(self) -> list[str]:
        return [name for name in TABLES if self.here[name] != self.there[name]]


def compare(
    history: str,
    strategies: str,
    folder: Path,
    timeout_s: float,
    note: Callable[[str], None] = print,
    *,
    kill_a_worker: bool = False,
) -> Compared:
    """Replay `history` by spark-submit on two workers, and here; one may be killed in the middle.

    Raises `RuntimeError` if a replay fails.
    """
    note("building the wheel, and a Python without it")
    packages, python = py_files(folder), bare_python(folder / "python")
    program = folder / "replay.py"
    program.write_text(PROGRAM)
    there, here = folder / "there", folder / "here"
    note("starting a master and two workers")
    with StandaloneCluster(python) as cluster:
        arguments = ["replay", history, "--strategy", strategies, "--tables", str(there)]
        note(f"replaying by spark-submit --master {cluster.master} --py-files {packages.name}")
        done = cluster.submit(
            program, arguments, py_files=packages, timeout_s=timeout_s, kill_a_worker=kill_a_worker
        )
        if done.returncode != 0:
            said = f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
            raise RuntimeError(f"spark-submit ended with {done.returncode}: {said}")
        workers, again = cluster.executors(), cluster.tasks_run_again()
    note("replaying here")
    run_replay(
        ReplayOptions(path=history, strategies=tuple(strategies.split(",")), tables=str(here)),
        lambda _: None,
        engine="spark",
    )
    return Compared(read_tables(here), read_tables(there), done.stdout, workers, again)


def read_tables(folder: Path) -> Tables:
    """The rows of each table, sorted: neither run guarantees an order."""
    return {name: sorted(map(_text, pq.read_table(folder / name).to_pylist())) for name in TABLES}


def _text(value: Any) -> str:
    """A value as text. Floats are rounded: the last digits of a sum depend on the order of its terms."""
    if isinstance(value, float):
        return f"{value:.9g}"
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_text(each)}" for name, each in value.items())
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    return str(value)
