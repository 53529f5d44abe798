"""A replay run from the command line: with progress on stderr, and what goes wrong in one line."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafka_assignors.cli.console import ProgressReport
from kafka_assignors.cli.errors import CannotRun

if TYPE_CHECKING:
    from kafka_assignors_spark.options import Progress, ReplayOptions
    from kafka_assignors_spark.result import ReplayResult

__all__ = ["needs_spark", "run_with_progress"]

_SPARK_EXTRA = {"pyspark", "pyarrow", "confluent_kafka", "plotly", "jinja2"}


@contextlib.contextmanager
def needs_spark(command: str) -> Iterator[None]:
    """Around imports of what the extra `spark` brings: says so if something of it is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _SPARK_EXTRA:
            raise
        raise CannotRun(f'{command} needs {error.name}: pip install "kafka-assignors[spark]"') from None


def run_with_progress(options: ReplayOptions, command: str = "replay") -> ReplayResult:
    """The result of a replay; `command` is what the user ran."""
    with needs_spark(command):
        from kafka_assignors_spark.job import run_replay
        from kafka_assignors_spark.options import ReplayError

    with ProgressReport("starting Spark", delay_s=0.5) as progress:

        def on_progress(step: Progress) -> None:
            progress.update(f"[{step.number}/{step.phases}] {step.phase}", step.done, step.total)

        try:
            return run_replay(options, on_progress)
        except ReplayError as error:
            raise CannotRun(str(error)) from error
