"""The memory of the local engine: one bucket of records at a time, for a history of any size."""

from __future__ import annotations

import tempfile
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_assignors_replay.engine import RECORD_BYTES, Limits
from kafka_assignors_replay.folds.records import group_bytes
from kafka_assignors_replay.local import buckets
from kafka_assignors_replay.local.engine import LocalEngine
from kafka_assignors_replay.result import ReplayError, ReplayOptions
from kafka_assignors_replay.schemas import RAW
from spark_validation.tests.folding import work_on
from spark_validation.tests.test_kip848_fold import ORDERS

GROUPS, VALUE = 40, 1_000
LIMITS = Limits(chunk_bytes=1 << 20)
BUFFERS = ("MEMORY_BYTES", "_WAITING_BYTES")


def options(folder: Path, records: int) -> ReplayOptions:
    """A history with this many records; a third of them belong to one group."""
    folder.mkdir()
    names = [group_bytes(f"group-{number % GROUPS if number % 3 else 0}") for number in range(records)]
    columns = {
        "partition": [0] * records,
        "offset": range(records),
        "timestamp": [1_700_000_000_000_000] * records,
        "key": [b"\0\2" + len(name).to_bytes(2, "big") + name for name in names],
        "value": [number.to_bytes(VALUE, "big") for number in range(records)],
    }
    pq.write_table(pa.table(columns, RAW), folder / "raw.parquet")
    return ReplayOptions(path=str(folder))


@pytest.fixture
def small_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in BUFFERS:
        monkeypatch.setattr(buckets, name, 1 << 18)


@pytest.mark.usefixtures("small_buffers")
def test_no_task_has_more_records_than_a_chunk_and_every_record_is_in_one(tmp_path: Path) -> None:
    with LocalEngine.opened(options(tmp_path / "history", 12_000)) as engine:
        survey = engine.survey(LIMITS)
        assert survey.slices == survey.giants[b"group-0"] > 3
        work = work_on((), ORDERS, giants=survey.giants, strategies=("range",))
        engine.begin(work)
        found: dict[int, list[int]] = {}
        most = LIMITS.chunk_bytes + VALUE + RECORD_BYTES  # a chunk ends with the record that fills it
        for number in range(survey.slices):
            for task in engine._tasks(number):
                records = task.records()
                assert sum(len(each.value or b"") + RECORD_BYTES for each in records) < most
                found.setdefault(task.part, []).extend(each.offset for each in records)
        giant, others = sorted(found.pop(1)), found.pop(0)
        assert giant == sorted(found.pop(2))
        assert not found
        assert sorted(giant + others) == list(range(12_000))


def peak(given: ReplayOptions) -> int:
    """The peak of allocated memory in bytes while the records are read, divided, and read task by task."""
    tracemalloc.start()
    try:
        with LocalEngine.opened(given) as engine:
            survey = engine.survey(LIMITS)
            engine.begin(work_on((), ORDERS, giants=survey.giants, strategies=("range",)))
            for number in range(survey.slices):
                for task in engine._tasks(number):
                    task.records()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.usefixtures("small_buffers")
def test_the_memory_does_not_grow_with_the_records(tmp_path: Path) -> None:
    few, many = 12_000, 24_000
    grown = peak(options(tmp_path / "many", many)) - peak(options(tmp_path / "few", few))
    assert grown < (many - few) * VALUE / 6


def test_few_records_need_no_disk_and_an_error_names_the_place_for_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = options(tmp_path / "history", 2_000)
    monkeypatch.setattr(tempfile, "tempdir", "/no/such/directory")
    with LocalEngine.opened(given) as engine:
        assert len(engine.records_of(["group-1"])) == 0  # before the survey
        engine.survey(Limits())
        assert len(engine.records_of(["group-1"])) > 10
    for name in BUFFERS:
        monkeypatch.setattr(buckets, name, 1 << 18)
    said = "/no/such/directory: records cannot be written there: No such file"
    with LocalEngine.opened(given) as engine, pytest.raises(ReplayError, match=said):
        engine.survey(Limits())
