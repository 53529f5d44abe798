"""The rates of a group over a whole history."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_assignors_replay.history import rates_of_history
from kafka_assignors_replay.result import ReplayError
from spark_validation.tests.groups import Log, write_commits, write_history


def kept(folder: Path, topics: dict[str, int] | None = None) -> str:
    """Two partitions of a group with commits every two seconds: 100 records each time, and 500 once."""
    log = Log()
    for number in range(20):
        log.commit("g", "orders", 0, 100 * number)
        log.commit("g", "orders", 1, 100 * number + (400 if number >= 15 else 0))
    log.commit("other", "orders", 2, 5)
    log.commit("g", "audit", 1, 5)
    path = write_history(folder, log, topics)
    write_commits(folder, log, 2)
    return path


def test_partitions_have_the_rate_at_a_percentile_of_their_time(tmp_path: Path) -> None:
    path = kept(tmp_path)
    assert rates_of_history(path, "g", 50) == {"audit": [None, None], "orders": [50_000, 50_000]}
    assert rates_of_history(path, "g", 95) == {"audit": [None, None], "orders": [50_000, 250_000]}
    assert rates_of_history(path, "g", 100) == rates_of_history(path, "g", 95)


def test_the_catalogue_says_how_many_partitions_there_are(tmp_path: Path) -> None:
    path = kept(tmp_path, {"orders": 4, "audit": 1})
    assert rates_of_history(path, "g", 50)["orders"] == [50_000, 50_000, None, None]
    assert rates_of_history(path, "g", 50)["audit"] == [None, None]


def test_the_order_of_rows_and_files_changes_nothing(tmp_path: Path) -> None:
    path = kept(tmp_path)
    expected = rates_of_history(path, "g", 90)
    table = pq.read_table(tmp_path / "committed.parquet")
    (tmp_path / "committed.parquet").unlink()
    for name, rows in (("b", range(0, table.num_rows, 2)), ("a", range(1, table.num_rows, 2))):
        (tmp_path / "committed" / f"date={name}").mkdir(parents=True)
        some = table.take(pa.array(list(rows)[::-1]))
        pq.write_table(some, tmp_path / "committed" / f"date={name}" / "1.parquet")
    assert rates_of_history(path, "g", 90) == expected


@pytest.mark.parametrize("unit", ["ms", "ns"])
@pytest.mark.parametrize("zone", ["UTC", None])
def test_files_may_have_numbers_and_times_of_different_types(
    tmp_path: Path, unit: str, zone: str | None
) -> None:
    path = kept(tmp_path)
    expected = rates_of_history(path, "g", 90)
    table = pq.read_table(tmp_path / "committed.parquet")
    half = table.num_rows // 2
    (tmp_path / "committed.parquet").unlink()
    (tmp_path / "committed").mkdir()
    pq.write_table(table.slice(0, half), tmp_path / "committed" / "one.parquet")
    other = table.slice(half)
    for name, kind in (("topic_partition", pa.int64()), ("timestamp", pa.timestamp(unit, zone))):
        other = other.set_column(other.schema.get_field_index(name), name, other[name].cast(kind))
    pq.write_table(other, tmp_path / "committed" / "other.parquet")
    assert rates_of_history(path, "g", 90) == expected


def test_rows_that_are_no_commits_of_a_partition_are_left_out(tmp_path: Path) -> None:
    path = kept(tmp_path)
    table = pq.read_table(tmp_path / "committed.parquet")
    strange = {"topic_partition": 2**31 - 1, "group": "g", "topic": "orders", "interval_s": 2}
    more = pa.Table.from_pylist([strange, {"group": "g"}], table.schema)
    pq.write_table(pa.concat_tables([table, more]), tmp_path / "committed.parquet")
    assert rates_of_history(path, "g", 50)["orders"] == [50_000, 50_000]


def test_what_cannot_be_told_is_said(tmp_path: Path) -> None:
    path = kept(tmp_path)
    with pytest.raises(ReplayError, match="there are no committed offsets of group 'absent'"):
        rates_of_history(path, "absent")
    with pytest.raises(ValueError, match="percentile must be from 0 to 100, not 101"):
        rates_of_history(path, "g", 101)
    pq.write_table(pq.read_table(tmp_path / "committed.parquet")[:0], tmp_path / "committed.parquet")
    with pytest.raises(ReplayError, match="there are no committed offsets of group 'g'"):
        rates_of_history(path, "g")
    (tmp_path / "committed.parquet").unlink()
    with pytest.raises(ReplayError, match=r"no committed offsets are kept here; archive --committed-offsets"):
        rates_of_history(path, "g")
    with pytest.raises(ReplayError, match=r"none: there is no such file or directory"):
        rates_of_history(str(tmp_path / "none"), "g")
