"""A checkpoint is untrusted: no file in it runs code, and an error names a file that no replay writes."""

from __future__ import annotations

import json
import pickle
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_assignors_replay.engine import Limits
from kafka_assignors_replay.replay import run_replay
from kafka_assignors_replay.report.as_json import json_report
from kafka_assignors_replay.result import Mode, ReplayError, ReplayOptions
from kafka_assignors_replay.spark.directory import FILE, Checkpoint
from spark_validation.tests.groups import Log, member, write_history

pytestmark = pytest.mark.exhaustive  # takes minutes, and is the same with every PySpark

LIMITS = Limits(chunk_bytes=800, slice_bytes=1 << 20)
OPTIONS = ReplayOptions(strategies=("range", "sticky"), modes=(Mode.STEADY_STATE,))


class Stopped(Exception):
    """Ends a replay after its first slice."""


@pytest.fixture(scope="module")
def history(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A history with a group that needs several slices, and small groups."""
    log = Log()
    for number in range(1, 7):
        log.generation("g", number, *(member(f"m{each}", gets={"orders": [each]}) for each in range(4)))
    for number in range(30):
        log.generation(f"small-{number}", 1, member("m", gets={"orders": [0, 1, 2, 3]}))
    return write_history(tmp_path_factory.mktemp("history"), log, {"orders": 4})


Replay = Callable[[Path], str]


@pytest.fixture(scope="module")
def replay(spark: SparkSession, history: str) -> Replay:
    """The report of a replay that continues from a checkpoint, without the fields that differ in each run."""

    def go_on(folder: Path) -> str:
        options = replace(OPTIONS, path=history, checkpoint=str(folder))
        result = run_replay(options, lambda _: None, LIMITS)
        return json_report(replace(result, seconds=0.0, options=OPTIONS))

    return go_on


@pytest.fixture(scope="module")
def stopped(replay: Replay, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint of a replay that stopped after its first slice."""
    checkpoint = tmp_path_factory.mktemp("stopped") / "checkpoint"
    keep = Checkpoint.keep

    def keep_the_first(self: Checkpoint, number: int, rows: DataFrame) -> DataFrame:
        if number > 0:
            raise Stopped
        return keep(self, number, rows)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Checkpoint, "keep", keep_the_first)
        with pytest.raises(Stopped):
            replay(checkpoint)
    assert list(checkpoint.glob("slice=*/_rows.json")) == [checkpoint / "slice=00000" / "_rows.json"]
    return checkpoint


@pytest.fixture
def checkpoint(stopped: Path, tmp_path: Path) -> Path:
    """A copy of the checkpoint for a test to change, without Hadoop's checksums, as after an attack."""
    ignored = shutil.ignore_patterns("*.crc")
    return Path(shutil.copytree(stopped, tmp_path / "checkpoint", ignore=ignored))


@pytest.fixture
def keep(spark: SparkSession, stopped: Path) -> Replay:
    """The rows of the first slice, as a replay reads them from a checkpoint."""
    nothing = spark.createDataFrame([], spark.read.parquet(str(stopped / "slice=00000")).schema)
    describes = json.loads((stopped / "replay.json").read_text())

    def kept(folder: Path) -> str:
        rows = Checkpoint(spark, str(folder), describes).keep(0, nothing).drop(FILE)
        return "\n".join(sorted(map(str, rows.collect())))

    return kept


def refusal(go_on: Replay, checkpoint: Path) -> str:
    """The error message for the checkpoint."""
    with pytest.raises(ReplayError) as error:
        go_on(checkpoint)
    said = str(error.value)
    assert "\n" not in said
    assert len(said) < 1_000
    assert said.endswith("and start again")
    return said


@pytest.fixture
def forged(spark: SparkSession, stopped: Path, tmp_path: Path) -> Callable[[str, Column], Path]:
    """A checkpoint with another value in a column of the first slice, and with the matching digest."""

    def forge(column: str, value: Column) -> Path:
        rows = spark.read.parquet(str(stopped / "slice=00000")).withColumn(column, value)
        folder = tmp_path / "forged"
        describes = json.loads((stopped / "replay.json").read_text())
        Checkpoint(spark, str(folder), describes).keep(0, rows.drop(FILE))
        return folder

    return forge


def slices(checkpoint: Path) -> list[Path]:
    return sorted((checkpoint / "slice=00000").glob("*.parquet"))


def where_there_is(column: str, value: bytes) -> Column:
    return F.when(F.col(column).isNotNull(), F.lit(value))


class RunsCode:
    """A pickle of this value creates a file when it is loaded."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, str]]:
        return open, (str(self._file), "w")


def test_a_replay_goes_on_from_the_slices_that_are_there(
    replay: Replay, checkpoint: Path, tmp_path: Path
) -> None:
    written_at = {file: file.stat().st_mtime_ns for file in slices(checkpoint)}
    resumed = replay(checkpoint)
    assert {file: file.stat().st_mtime_ns for file in slices(checkpoint)} == written_at
    assert resumed == replay(tmp_path / "uninterrupted")
    assert len(json.loads(resumed)["groups"]) == 31


def test_a_checkpoint_runs_no_code(
    replay: Replay, forged: Callable[[str, Column], Path], tmp_path: Path
) -> None:
    hostile = pickle.dumps(RunsCode(tmp_path / "made"))
    pickle.loads(hostile).close()
    (tmp_path / "made").unlink()
    checkpoint = forged("state", where_there_is("state", hostile))
    said = refusal(replay, checkpoint)
    assert not (tmp_path / "made").exists()
    assert f"{checkpoint}/slice=00000/part-" in said
    assert "the state of group 'g' does not read: it is not the JSON of a state" in said


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("sums", b'{"format": 2}', "sums of a group do not read: it is not a state of format 1"),
        ("detail", b"x", "the details of group "),
    ],
)
def test_a_checkpoint_value_that_no_replay_writes_is_refused_by_name(
    replay: Replay, forged: Callable[[str, Column], Path], column: str, value: bytes, said: str
) -> None:
    checkpoint = forged(column, where_there_is(column, value))
    refused = refusal(replay, checkpoint)
    assert said in refused
    assert column == "detail" or f"{checkpoint}/slice=00000" in refused


def test_sums_of_another_strategy_are_named(
    replay: Replay, forged: Callable[[str, Column], Path], stopped: Path
) -> None:
    of_others = F.regexp_replace(F.col("sums").cast("string"), '"sticky"', '"stiky"').cast("binary")
    checkpoint = forged("sums", F.when(F.col("sums").isNotNull(), of_others))
    assert "steady-state and stiky are not of this replay" in refusal(replay, checkpoint)


def test_a_part_that_is_not_there_is_named(replay: Replay, forged: Callable[[str, Column], Path]) -> None:
    assert "there is no part 7" in refusal(replay, forged("part", F.lit(7)))


@pytest.mark.parametrize(("column", "value"), [("part", None), ("state", b"x")])
def test_a_row_that_no_replay_writes_is_an_error(
    forged: Callable[[str, Column], Path], column: str, value: bytes | None
) -> None:
    with pytest.raises(
        ReplayError, match=r"/slice=00000: .* rows are not of this replay; remove .* start again"
    ):
        forged(column, F.lit(value).cast("int" if column == "part" else "binary"))


def test_files_of_a_slice_that_are_damaged_are_named(replay: Replay, keep: Replay, checkpoint: Path) -> None:
    (file, *_) = slices(checkpoint)
    whole = file.read_bytes()
    table = pq.read_table(file)
    other = table.set_column(table.schema.names.index("part"), "part", pa.array(["x"] * len(table)))
    for damage in (b"some text", whole[: len(whole) // 2], whole[:-8] + b"\xff\xff\xff\x7fPAR1"):
        file.write_bytes(damage)
        assert "cannot be read: " in refusal(keep, checkpoint)
    assert "cannot be read: " in refusal(replay, checkpoint)
    pq.write_table(other, file)
    assert "cannot be read: " in refusal(keep, checkpoint)
    # Spark reads an empty file as one without rows.
    file.write_bytes(b"")
    assert "these are not the rows that were written" in refusal(keep, checkpoint)
    file.unlink()
    assert "these are not the rows that were written" in refusal(keep, checkpoint)


def test_a_flipped_bit_of_a_slice_changes_no_row(keep: Replay, checkpoint: Path) -> None:
    """Without the checksums, which an attacker removes, Hadoop does not detect the flipped bits."""
    (file, *_) = slices(checkpoint)
    whole, rng = file.read_bytes(), random.Random(3)
    expected = keep(checkpoint)
    refused = 0
    for _ in range(12):
        damaged = bytearray(whole)
        damaged[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        file.write_bytes(damaged)
        try:
            assert keep(checkpoint) == expected
        except ReplayError:
            refusal(keep, checkpoint)
            refused += 1
    assert refused


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\x80\x04.",
        b"[]",
        b"[" * 50_000,
        b'{"version": ' + b"9" * 5_000 + b"}",
        pytest.param(b"{" + b" " * (3 << 20) + b"}", id="3 MiB"),
    ],
)
def test_a_description_that_no_replay_writes_is_an_error(
    spark: SparkSession, tmp_path: Path, text: bytes
) -> None:
    (tmp_path / "replay.json").write_bytes(text)
    describes = {"strategies": [["range", 1]], "modes": ["steady-state"]}
    with pytest.raises(ReplayError, match=r"/replay\.json: is .*; remove .* and start again") as error:
        Checkpoint(spark, str(tmp_path), describes)
    assert len(str(error.value)) < 500


def test_the_description_of_another_replay_says_what_differs(spark: SparkSession, tmp_path: Path) -> None:
    describes = {"strategies": [["range", 1]], "modes": ["steady-state"], "records": 1}
    Checkpoint(spark, str(tmp_path), describes)
    Checkpoint(spark, str(tmp_path), describes)
    (tmp_path / ".replay.json.crc").unlink()
    (tmp_path / "replay.json").write_text(json.dumps({**describes, "records": 2}))
    with pytest.raises(ReplayError, match="another replay: records differs;"):
        Checkpoint(spark, str(tmp_path), describes)
