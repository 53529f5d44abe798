"""A checkpoint is read as untrusted: no file in it runs code, and one that no replay writes is an error that
names it."""

from __future__ import annotations

import json
import pickle
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_assignors.group import Topic
from kafka_assignors_spark.catalogue import Catalogue, CatalogueEntry
from kafka_assignors_spark.jobs import history, kip848
from kafka_assignors_spark.jobs.checkpoint import Checkpoint
from kafka_assignors_spark.jobs.read import recorded_records
from kafka_assignors_spark.jobs.replay import CHUNK
from kafka_assignors_spark.jobs.slices import Limits, plan, replay_slices
from kafka_assignors_spark.jobs.spark_errors import SPARK_ERRORS, one_line
from kafka_assignors_spark.options import Mode, ReplayError
from spark_validation.tests.groups import Log, member, write_history

NAMES = ("range", "sticky")
MODES = (Mode.STEADY_STATE,)
DESCRIBES = {"strategies": [[name, 1] for name in NAMES], "modes": ["steady-state"]}
ORDERS = Catalogue([CatalogueEntry(None, None, Topic("orders", 4))])


class Stopped(Exception):
    """Ends a replay after its first slice."""


@pytest.fixture(scope="module")
def steps(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[DataFrame, int]:
    """A group that comes in several slices, and how many they are."""
    log = Log()
    for number in range(1, 7):
        log.generation("g", number, *(member(f"m{each}", gets={"orders": [each]}) for each in range(4)))
    raw = recorded_records(spark, write_history(tmp_path_factory.mktemp("steps"), log))
    events = history.decode(history.unique(raw))
    folded = kip848.fold(events, ORDERS).cache()
    planned, slices = plan(history.generations(folded), Limits(chunk_bytes=800, slice_bytes=1 << 20))
    assert slices > 2
    return history.steps(planned, folded).cache(), slices


Replay = Callable[[Path], list[str]]


@pytest.fixture(scope="module")
def replay(spark: SparkSession, steps: tuple[DataFrame, int]) -> Replay:
    """The rows of the replay that goes on from a checkpoint, as texts."""

    def go_on(folder: Path) -> list[str]:
        store = Checkpoint(spark, str(folder), DESCRIBES)
        return sorted(map(str, replay_slices(*steps, ORDERS, NAMES, MODES, store).collect()))

    return go_on


@pytest.fixture(scope="module")
def stopped(replay: Replay, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint of a replay that was stopped after its first slice."""
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
    """A copy of it for a test to change. Hadoop's own checksums are left out, as an attacker would do."""
    ignored = shutil.ignore_patterns("*.crc")
    return Path(shutil.copytree(stopped, tmp_path / "checkpoint", ignore=ignored))


def refusal(replay: Replay, checkpoint: Path) -> str:
    """What a replay says that is to go on from the checkpoint, in the line of `job`."""
    with pytest.raises((ReplayError, *SPARK_ERRORS)) as error:
        replay(checkpoint)
    said = str(error.value) if isinstance(error.value, ReplayError) else one_line(error.value)
    assert "\n" not in said
    assert len(said) < 1_000
    assert said.endswith("and start again")
    assert f"{checkpoint}/slice=00000" in said
    return said


@pytest.fixture
def forged(spark: SparkSession, stopped: Path, tmp_path: Path) -> Callable[[str, Column], Path]:
    """A checkpoint with another value in a column of the first slice, and the digest to go with it."""

    def forge(column: str, value: Column) -> Path:
        rows = spark.read.parquet(str(stopped / "slice=00000")).withColumn(column, value)
        folder = tmp_path / "forged"
        Checkpoint(spark, str(folder), DESCRIBES).keep(0, rows)
        return folder

    return forge


def slices(checkpoint: Path) -> list[Path]:
    return sorted((checkpoint / "slice=00000").glob("*.parquet"))


def states(value: bytes) -> Column:
    return F.when(F.col("state").isNotNull(), F.lit(value))


class RunsCode:
    """A pickle of this value makes a file where it is loaded."""

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
    assert len(resumed) == 18


def test_a_checkpoint_runs_no_code(
    replay: Replay, forged: Callable[[str, Column], Path], tmp_path: Path
) -> None:
    hostile = pickle.dumps(RunsCode(tmp_path / "made"))
    pickle.loads(hostile).close()
    (tmp_path / "made").unlink()
    checkpoint = forged("state", states(hostile))
    said = refusal(replay, checkpoint)
    assert not (tmp_path / "made").exists()
    assert f"{checkpoint}/slice=00000/part-" in said
    assert "the state of group 'g' does not read: it is not the JSON of a state" in said


@pytest.mark.parametrize("forgery", ["nested", "version", "part"])
def test_a_state_that_no_replay_writes_is_named(
    replay: Replay, forged: Callable[[str, Column], Path], forgery: str
) -> None:
    column, value, words = {
        "nested": ("state", states(b"[" * 50_000), "nested too deeply"),
        "version": ("state", states(b'{"format": 2}'), "not a state of format 1"),
        "part": ("part", F.lit(7), "there is no part 7"),
    }[forgery]
    assert words in refusal(replay, forged(column, value))


@pytest.mark.parametrize(
    ("column", "value"), [("state", None), ("group", None), ("part", None), ("strategy", "x"), ("mode", "x")]
)
def test_a_row_that_no_replay_writes_is_an_error(
    forged: Callable[[str, Column], Path], column: str, value: str | None
) -> None:
    with pytest.raises(
        ReplayError, match=r"/slice=00000: .* rows are not of this replay; remove .* start again"
    ):
        forged(column, F.lit(value).cast(CHUNK[column].dataType))


def test_files_of_a_slice_that_are_damaged_are_named(replay: Replay, checkpoint: Path) -> None:
    (file, *_) = slices(checkpoint)
    whole = file.read_bytes()
    table = pq.read_table(file)
    other = table.set_column(table.schema.names.index("moved"), "moved", pa.array(["x"] * len(table)))
    for damage in (b"some text", whole[: len(whole) // 2], whole[:-8] + b"\xff\xff\xff\x7fPAR1"):
        file.write_bytes(damage)
        assert "cannot be read: " in refusal(replay, checkpoint)
    pq.write_table(other, file)
    assert "cannot be read: " in refusal(replay, checkpoint)
    # Spark takes an empty file for one without rows.
    file.write_bytes(b"")
    assert "these are not the rows that were written" in refusal(replay, checkpoint)
    file.unlink()
    assert "these are not the rows that were written" in refusal(replay, checkpoint)


def test_a_flipped_bit_of_a_slice_changes_no_row(replay: Replay, checkpoint: Path) -> None:
    """Hadoop's checksums, which an attacker removes, would show each of them before."""
    (file, *_) = slices(checkpoint)
    whole, rng = file.read_bytes(), random.Random(3)
    expected = replay(checkpoint)
    refused = 0
    for _ in range(12):
        damaged = bytearray(whole)
        damaged[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        file.write_bytes(damaged)
        try:
            assert replay(checkpoint) == expected
        except ReplayError:
            refusal(replay, checkpoint)
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
