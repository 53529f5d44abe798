"""The memory of the local engine: one file of records at a time, for a history of any size."""

from __future__ import annotations

import tempfile
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_assignors_replay.folds.records import group_bytes
from kafka_assignors_replay.local import files
from kafka_assignors_replay.local.engine import LocalEngine
from kafka_assignors_replay.local.files import sorted_records
from kafka_assignors_replay.result import ReplayError, ReplayOptions
from kafka_assignors_replay.schemas import RAW

GROUPS, VALUE = 40, 1_000


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


@pytest.fixture(autouse=True)
def small_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_WAITING_BYTES", 1 << 18)


def test_every_record_is_in_one_file_in_order_and_a_group_in_one(tmp_path: Path) -> None:
    with LocalEngine.opened(options(tmp_path / "history", 12_000)) as engine:
        assert not engine.survey().torn
        found = [[*sorted_records(path)] for path in engine._records.paths]
        assert sorted(each.offset for records in found for each in records) == list(range(12_000))
        assert all(
            records == sorted(records, key=lambda each: (each.group, each.offset)) for records in found
        )
        groups = [group for records in found for group in {each.group for each in records}]
        assert len(groups) == len(set(groups)) == GROUPS
        assert len(engine.records_of(["group-0", "group-1"])) == 4_400


def peak(given: ReplayOptions) -> int:
    """The peak of Python's memory in bytes while the records are read, and read file by file."""
    tracemalloc.start()
    try:
        with LocalEngine.opened(given) as engine:
            engine.survey()
            for path in engine._records.paths:
                for _ in sorted_records(path):
                    pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_the_memory_does_not_grow_with_the_records(tmp_path: Path) -> None:
    few, many = 12_000, 24_000
    grown = peak(options(tmp_path / "many", many)) - peak(options(tmp_path / "few", few))
    assert grown < (many - few) * VALUE / 6


def test_an_error_names_the_place_for_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = options(tmp_path / "history", 2_000)
    with LocalEngine.opened(given) as engine:
        monkeypatch.setattr(tempfile, "tempdir", "/dev")
        monkeypatch.setattr(type(engine._records), "path", lambda self, number: "/dev/full")
        with pytest.raises(
            ReplayError, match=r"/dev: records cannot be written there: .*TMPDIR names another"
        ):
            engine.survey()
