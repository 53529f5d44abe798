"""A replay in chunks is the replay in one; one that was killed goes on where it was; and what Spark computes
is what a plain loop computes, or the run fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import astuple, dataclass, replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from compat_tests.support.hang_limit import HANG_S
from kafka_assignors.pause_model import PauseModel
from kafka_assignors.strategies.registry import load_strategy
from kafka_assignors_spark.catalogue import Catalogue
from kafka_assignors_spark.folds.local import local_generations
from kafka_assignors_spark.folds.rebalances import Generation
from kafka_assignors_spark.folds.records import decode_record
from kafka_assignors_spark.job import run_replay
from kafka_assignors_spark.jobs import history as group_history
from kafka_assignors_spark.jobs import kip848
from kafka_assignors_spark.jobs.checkpoint import Checkpoint
from kafka_assignors_spark.jobs.per_group import with_micros
from kafka_assignors_spark.jobs.read import catalogue_of, recorded_records
from kafka_assignors_spark.jobs.replay import replay
from kafka_assignors_spark.jobs.sample import check_sample, draw
from kafka_assignors_spark.jobs.slices import InMemorySlices, Limits, plan, replay_slices
from kafka_assignors_spark.options import Mode, ReplayError, ReplayOptions
from kafka_assignors_spark.result import ReplayResult, SampleCheck, Verdict
from spark_validation.fleet import history
from spark_validation.fleet.profile import FleetOptions
from spark_validation.tests.groups import write_history
from spark_validation.tests.test_kip848_fold import ORDERS
from spark_validation.tests.test_kip848_job import story

FLEET = FleetOptions(groups=12, generations=240, days=0.05, seed=6)
NAMES = ("range", "cooperative-sticky")
CHUNKS = Limits(chunk_bytes=64 << 10, slice_bytes=1 << 20)
"""So that the largest group comes in several chunks."""


@pytest.fixture(scope="module")
def path(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("fleet") / "out")
    history.write(spark, FLEET, path)
    return path


def run(path: str, limits: Limits | None = None, **options: object) -> ReplayResult:
    given = replace(ReplayOptions(path=path, strategies=NAMES), **options)  # type: ignore[arg-type]
    return run_replay(given, lambda _: None, limits or Limits())


@pytest.fixture(scope="module")
def in_one(spark: SparkSession, path: str) -> ReplayResult:
    return run(path)


def figures(verdicts: Iterable[Verdict]) -> list[tuple[object, ...]]:
    """Means depend, in their last digit, on the order in which Spark adds up."""
    return [
        tuple(round(value, 9) if isinstance(value, float) else value for value in astuple(verdict))
        for verdict in verdicts
    ]


def same(one: ReplayResult, other: ReplayResult) -> bool:
    return (figures(one.verdicts), one.groups, one.timeline) == (
        figures(other.verdicts),
        other.groups,
        other.timeline,
    )


@pytest.mark.exhaustive
def test_a_replay_in_pieces_is_the_replay_in_one(path: str, in_one: ReplayResult) -> None:
    phases: list[str] = []
    in_pieces = run_replay(
        ReplayOptions(path=path, strategies=NAMES), lambda step: phases.append(step.phase), CHUNKS
    )
    slices = {phase for phase in phases if "slice" in phase}
    assert len(slices) > 2, "the fleet is too small to come in chunks"
    assert same(in_pieces, in_one)


KILLED = """
import sys
from kafka_assignors_spark.job import run_replay
from kafka_assignors_spark.options import Mode, ReplayOptions
from kafka_assignors_spark.jobs.slices import Limits
path, checkpoint, names, chunk_bytes, slice_bytes = sys.argv[1:]
strategies, modes = tuple(names.split(",")), (Mode.STEADY_STATE,)
options = ReplayOptions(path, strategies=strategies, modes=modes, master="local[1]", checkpoint=checkpoint)
run_replay(options, lambda step: None, Limits(int(chunk_bytes), int(slice_bytes)))
"""


class Stopped(Exception):
    """Ends a replay after its first slice."""


@pytest.mark.exhaustive
def test_a_replay_that_was_stopped_goes_on_where_it_was(
    path: str, in_one: ReplayResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = tmp_path / "checkpoint"
    keep = Checkpoint.keep

    def keep_the_first(self: Checkpoint, number: int, rows: DataFrame) -> DataFrame:
        if number > 0:
            raise Stopped
        return keep(self, number, rows)

    with monkeypatch.context() as patched:
        patched.setattr(Checkpoint, "keep", keep_the_first)
        with pytest.raises(Stopped):
            run(path, CHUNKS, checkpoint=str(checkpoint), modes=(Mode.STEADY_STATE,))
    (first,) = checkpoint.glob("slice=*/_rows.json")
    written_at = first.stat().st_mtime_ns
    resumed = run(path, CHUNKS, checkpoint=str(checkpoint), modes=(Mode.STEADY_STATE,))
    assert len(list(checkpoint.glob("slice=*/_rows.json"))) > 1
    assert first.stat().st_mtime_ns == written_at
    assert figures(resumed.verdicts) == figures(v for v in in_one.verdicts if v.mode is Mode.STEADY_STATE)


@pytest.mark.slow
def test_a_replay_in_one_mode_that_was_killed_goes_on_where_it_was(
    spark: SparkSession, path: str, in_one: ReplayResult, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    limits = (str(CHUNKS.chunk_bytes), str(CHUNKS.slice_bytes))
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, path, str(checkpoint), ",".join(NAMES), *limits],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + HANG_S
        while not list(checkpoint.glob("slice=*/_rows.json")):
            assert process.poll() is None, "it ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    done = {marker.parent.name: marker.stat().st_mtime_ns for marker in checkpoint.glob("slice=*/_rows.json")}
    resumed = run(path, CHUNKS, checkpoint=str(checkpoint), modes=(Mode.STEADY_STATE,))
    after = {
        marker.parent.name: marker.stat().st_mtime_ns for marker in checkpoint.glob("slice=*/_rows.json")
    }
    assert len(after) > len(done)
    assert {name: when for name, when in after.items() if name in done} == done
    assert figures(resumed.verdicts) == figures(v for v in in_one.verdicts if v.mode is Mode.STEADY_STATE)
    assert resumed.groups == in_one.groups
    assert resumed.timeline == tuple(row for row in in_one.timeline if row.mode is Mode.STEADY_STATE)

    # The same records elsewhere, with another catalogue.
    changed = tmp_path / "changed"
    changed.mkdir()
    (changed / "raw").symlink_to(Path(path) / "raw")
    topics = spark.read.parquet(f"{path}/topics.parquet")
    topics.limit(topics.count() - 1).write.parquet(str(changed / "topics.parquet"))
    with pytest.raises(ReplayError, match="another replay: catalogue, history, strategies differ;"):
        run(
            str(changed),
            CHUNKS,
            checkpoint=str(checkpoint),
            modes=(Mode.STEADY_STATE,),
            strategies=("range",),
        )


def test_a_checkpoint_needs_a_history() -> None:
    options = ReplayOptions(bootstrap_servers="127.0.0.1:1", checkpoint="somewhere")
    with pytest.raises(ReplayError, match="a checkpoint needs a history"):
        run_replay(options, lambda _: None)


@dataclass
class Parts:
    """What the check of a sample is given."""

    raw: DataFrame
    events: DataFrame
    replayed: DataFrame
    groups: tuple[str, ...]
    catalogue: Catalogue

    def check(self, replayed: DataFrame) -> SampleCheck:
        strategies = {name: load_strategy(name) for name in NAMES}
        return check_sample(
            self.raw,
            self.events,
            replayed,
            self.groups,
            self.catalogue,
            strategies,
            tuple(Mode),
            PauseModel(),
        )


@pytest.fixture(scope="module")
def parts(spark: SparkSession, path: str) -> Parts:
    raw = group_history.group_records(recorded_records(spark, path))
    events = group_history.decode(group_history.unique(raw)).cache()
    catalogue, warnings = catalogue_of(spark, ReplayOptions(path=path), ())
    assert not warnings
    folded = kip848.fold(events, catalogue)
    generations = group_history.generations(folded).cache()
    steps = group_history.of_consumers(group_history.steps(generations, folded))
    groups = draw(generations, 2, 0)
    assert len(groups) == 2
    assert draw(generations, 2, 0) == groups
    assert draw(generations, 2, 1) != groups
    replayed = replay(steps.where(F.col("group").isin(*groups)), catalogue, NAMES).cache()
    return Parts(raw, events, replayed, groups, catalogue)


def test_a_sample_is_replayed_without_spark(parts: Parts, in_one: ReplayResult) -> None:
    assert parts.check(parts.replayed) == SampleCheck(parts.groups, parts.replayed.count())
    assert len(in_one.sample.groups) == 3
    assert in_one.sample.rows > 0


@pytest.mark.parametrize(
    ("planted", "said"),
    [
        (lambda rows: rows.withColumn("moved", F.col("moved") + F.lit(1)), "moved is"),
        (lambda rows: rows.where("generation % 3 > 0"), "no such row from Spark"),
        (lambda rows: rows.unionAll(rows), "rows of it, and"),
    ],
)
def test_a_difference_is_an_error(parts: Parts, planted: Callable[[DataFrame], DataFrame], said: str) -> None:
    with pytest.raises(ReplayError, match=said):
        parts.check(planted(parts.replayed))


def test_a_run_without_a_sample_has_none(parts: Parts) -> None:
    strategies = {name: load_strategy(name) for name in NAMES}
    nothing = check_sample(
        parts.raw, parts.events, parts.replayed, (), parts.catalogue, strategies, (), PauseModel()
    )
    assert nothing == SampleCheck((), 0)


# Groups of KIP-848


@pytest.fixture(scope="module")
def raw_of_both(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """Groups of either protocol, and one that changed it twice."""
    return recorded_records(spark, write_history(tmp_path_factory.mktemp("both"), story()))


@pytest.fixture(scope="module")
def folded(raw_of_both: DataFrame) -> DataFrame:
    events = group_history.decode(group_history.unique(raw_of_both))
    return kip848.fold(events, ORDERS).cache()


def test_groups_of_kip848_come_in_pieces_too_and_in_samples(
    raw_of_both: DataFrame, folded: DataFrame
) -> None:
    generations = group_history.generations(folded)
    planned, slices = plan(generations, Limits(chunk_bytes=400, slice_bytes=1 << 20))
    giants = {row["group"] for row in planned.where("giant and type = 'consumer'").collect()}
    assert giants == {"g"}
    assert slices > 2
    in_pieces = replay_slices(
        group_history.steps(planned, folded),
        slices,
        ORDERS,
        NAMES,
        tuple(Mode),
        InMemorySlices(lambda rows: rows.cache()),
    )
    in_one = replay(group_history.steps(generations, folded), ORDERS, NAMES)
    assert sorted(map(str, in_pieces.collect())) == sorted(map(str, in_one.collect()))

    events = group_history.decode(group_history.unique(raw_of_both))
    drawn = tuple(sorted(draw(generations, 3, 0)))
    assert drawn == ("again", "g", "old")
    check = Parts(raw_of_both, events, in_pieces, drawn, ORDERS).check
    assert check(in_pieces) == SampleCheck(drawn, in_pieces.count())
    with pytest.raises(ReplayError, match="group 'g' differently"):
        check(in_pieces.where("`group` != 'g' or offset != 13"))


def test_a_plain_loop_finds_the_same_generations_of_them(raw_of_both: DataFrame, folded: DataFrame) -> None:
    rows = with_micros(raw_of_both).orderBy("partition", "offset").collect()
    steps = group_history.steps(group_history.generations(folded), folded)
    on_spark = [Generation.from_row(row) for row in with_micros(steps).orderBy("offset").collect()]
    for group in ("again", "g", "old"):
        of_group = [row for row in rows if decode_record(bytes(row["key"]), None).group == group]
        here = [comparable(each) for each in local_generations(of_group, ORDERS)]
        assert here == [comparable(each) for each in on_spark if each.group == group]
        assert len(here) == {"again": 3, "g": 5, "old": 1}[group]


def comparable(generation: Generation) -> tuple[object, ...]:
    """Without the difference between a list and a tuple."""
    members = [group_history.member_row(member) for member in generation.members.values()]
    return (replace(generation, members={}), sorted(members))
