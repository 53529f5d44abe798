"""The command over broken Parquet: exit code 2, and one line that names the file or the history."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from compat_tests.support.hang_limit import HANG_S
from kafka_assignors_cli import main
from kafka_assignors_cli.console import ExitCode
from kafka_assignors_replay.engine import ENGINES
from spark_validation.tests.test_foreign_parquet import not_utf8, retyped, table, with_column
from tests.test_cli import without_progress

pytestmark = pytest.mark.exhaustive  # takes minutes, and is the same with every PySpark

BYTES: dict[str, Callable[[bytes], bytes]] = {
    "an empty file": lambda whole: b"",
    "half of a file": lambda whole: whole[: len(whole) // 2],
    "a file without its last byte": lambda whole: whole[:-1],
    "a footer that claims 2 GiB": lambda whole: whole[:-8] + b"\xff\xff\xff\x7f" + whole[-4:],
    "pages of zeros": lambda whole: whole[:4] + bytes(len(whole) // 2 - 4) + whole[len(whole) // 2 :],
}
"""The damage to the bytes of raw.parquet."""

COLUMNS: dict[str, tuple[pa.Table, str]] = {
    "a text partition": (retyped("partition", pa.string()), "{file}: column partition has type string"),
    "a huge partition": (
        with_column("partition", [0, 2**40, 0], pa.int64()),
        "{folder}: column partition is null, negative or too large in 1 records",
    ),
    "a huge offset": (
        with_column("offset", [0, 2**64 - 1, 2], pa.uint64()),
        "{folder}: column offset is null, negative or too large in 1 records",
    ),
    "a cluster that is not UTF-8": (
        table().append_column("cluster_id", not_utf8(3)),
        "{file}: cannot be read as Parquet: In column 5: Invalid: Invalid UTF8 sequence",
    ),
}
"""raw.parquet with other columns, and the error message. Numbers are counted over all files of a history."""


def broken(folder: Path, name: str) -> str:
    """Write a history with this defect, and return the error message."""
    file = folder / "raw.parquet"
    raw, said = COLUMNS.get(name, (table(), "{file}: cannot be read as Parquet: "))
    pq.write_table(raw, file)
    file.write_bytes(BYTES.get(name, bytes)(file.read_bytes()))
    return said.format(file=file, folder=folder)


@pytest.mark.parametrize("name", [*BYTES, *COLUMNS])
def test_replay_names_a_broken_file_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    said = broken(tmp_path, name)
    code = main(["replay", str(tmp_path), "--engine", "local"])
    assert said in refusal(code, *capsys.readouterr())


@pytest.mark.parametrize("engine", ENGINES)
def test_a_process_of_its_own_says_no_more(tmp_path: Path, engine: str) -> None:
    """Neither Spark, which the process starts, nor the end of the interpreter adds a line."""
    said = broken(tmp_path, "half of a file")
    done = subprocess.run(
        [sys.executable, "-m", "kafka_assignors_cli", "replay", str(tmp_path), "--engine", engine],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert said in refusal(done.returncode, done.stdout, done.stderr)


def refusal(code: int, out: str, err: str) -> str:
    """The line with which the command refuses a history."""
    assert (code, out) == (ExitCode.CANNOT_RUN, ""), err
    [line] = [line for line in without_progress(err).splitlines() if ": engine: " not in line]
    assert line.startswith("kafka-assignors: error: ")
    return line
