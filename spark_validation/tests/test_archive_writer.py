"""Writing a batch to the archive: it arrives once, wherever an attempt breaks off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from kafka_assignors.group import Topic
from kafka_assignors_confluent.topics import LiveTopic, TopicIdentity
from kafka_assignors_replay.archive import ArchiveError
from kafka_assignors_replay.archive.run import Lag
from kafka_assignors_replay.archive.store import (
    BatchWriter,
    CatalogueLog,
    Ledger,
    LedgerEntry,
    agree,
    batch_name,
    remove_files_of,
)
from kafka_assignors_replay.catalogue import Catalogue, CatalogueEntry, changed_entry
from kafka_assignors_replay.result import MANIFEST
from kafka_assignors_replay.schemas import REPORTED, TOPICS
from kafka_assignors_replay.source.messages import MessageCounts, RangeReport
from kafka_assignors_replay.spark.directory import Directory
from kafka_assignors_replay.spark.session import collect_with_micros

MIDNIGHT = datetime(2026, 3, 2, tzinfo=timezone.utc)
Row = tuple[int, int, datetime, bytes, "bytes | None"]

FIRST = (
    RangeReport(0, 0, 10, MessageCounts(10, {2: 2}, 7, 0, 1, 1), 1_772_323_200_000),
    RangeReport(1, 0, 4, MessageCounts(4, {2: 1}, 3)),
)
ROWS: tuple[Row, ...] = (
    (0, 3, MIDNIGHT - timedelta(milliseconds=1), b"\0\2a", b"before midnight"),
    (0, 8, MIDNIGHT, b"\0\2a", None),
    (1, 2, MIDNIGHT + timedelta(hours=1), b"\0\2b", b"after midnight"),
)


def batch(
    spark: SparkSession, reports: Sequence[RangeReport] = FIRST, rows: Sequence[Row] = ROWS
) -> DataFrame:
    data: list[tuple[object, ...]] = [(*row, None) for row in rows]
    data += [(report.partition, None, None, None, None, report.to_json()) for report in reports]
    return spark.createDataFrame(data, from_arrow_schema(REPORTED))


def begun(folder: Directory, partitions: int = 2) -> Ledger:
    ledger = Ledger(folder)
    if ledger.latest is None:
        ledger.append(LedgerEntry(0, dict.fromkeys(range(partitions), 0)))
    return ledger


def archived(archive: Path) -> list[Row]:
    rows = pq.read_table(archive / "raw").to_pylist()
    return sorted(
        (row["partition"], row["offset"], row["timestamp"], row["key"], row["value"]) for row in rows
    )


class Killed(Exception):
    """Stands for the end of a process."""


class Mortal(Directory):
    """The folder of a process that is killed before its n-th change."""

    changes_left = 0

    def write_parquet(self, rows: DataFrame, folder: str, name: str, *by: str) -> None:
        self._change()
        super().write_parquet(rows, folder, name, *by)

    def move(self, source: str, target: str) -> None:
        self._change()
        super().move(source, target)

    def delete(self, name: str) -> None:
        self._change()
        super().delete(name)

    def _change(self) -> None:
        if not self.changes_left:
            raise Killed
        self.changes_left -= 1


def killed_and_tried_again(
    spark: SparkSession, folder: Path, rows: DataFrame, partitions: int = 2
) -> Iterator[Path]:
    """Yield an archive for each change: the first attempt is killed before it, the second one finishes."""
    for changes in range(40):
        path = folder / str(changes)
        begun(Directory(spark, str(path)), partitions)
        dying = Mortal(spark, str(path))
        dying.changes_left = changes
        try:
            BatchWriter(dying, Ledger(dying), "cluster").write(rows)
        except Killed:
            again = Directory(spark, str(path))
            BatchWriter(again, Ledger(again), "cluster").write(rows)
        yield path
        if dying.changes_left:
            assert changes >= 5
            return
    pytest.fail("a batch takes more than forty changes")


def test_a_batch_arrives_once_wherever_the_first_attempt_ends(spark: SparkSession, tmp_path: Path) -> None:
    for path in killed_and_tried_again(spark, tmp_path, batch(spark).cache()):
        assert archived(path) == sorted(ROWS)
        assert {file.parent.name for file in path.glob("raw/*/*.parquet")} == {
            "date=2026-03-01",
            "date=2026-03-02",
        }
        latest = Ledger(Directory(spark, str(path))).latest
        assert latest is not None
        assert (latest.batches, latest.next, latest.counts.offsets) == (1, {0: 10, 1: 4}, 14)


def test_a_batch_that_is_there_is_not_written_again(spark: SparkSession, tmp_path: Path) -> None:
    folder = Directory(spark, str(tmp_path))
    writer = BatchWriter(folder, begun(folder), "cluster")
    writer(batch(spark), 0)
    files = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.parquet")}
    writer(batch(spark), 0)
    writer(batch(spark, (), ()), 1)
    assert {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.parquet")} == files
    assert Ledger(folder).latest == LedgerEntry(
        1, {0: 10, 1: 4}, MessageCounts(14, {2: 3}, 10, 0, 1, 1), 1_772_323_200_000
    )
    # A batch with offset commits only advances the archive and creates no file.
    writer(batch(spark, [RangeReport(1, 4, 9, MessageCounts(5, {}, 5), 1_772_323_260_000)], ()), 2)
    assert {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.parquet")} == files
    latest = Ledger(folder).latest
    assert latest is not None
    assert (latest.next, latest.counts.offset_commits) == ({0: 10, 1: 9}, 15)


def test_a_batch_that_does_not_follow_the_archive_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    folder = Directory(spark, str(tmp_path))
    writer = BatchWriter(folder, begun(folder), "cluster")
    with pytest.raises(ArchiveError, match=r"goes on at offsets {0: 5}, and the archive at {0: 0}"):
        writer(batch(spark, [RangeReport(0, 5, 10, MessageCounts(5, {2: 1}))]), 0)
    assert writer.failure is not None
    assert writer.idle.is_set()


def test_a_record_without_a_time_has_a_date_all_the_same(spark: SparkSession, tmp_path: Path) -> None:
    folder = Directory(spark, str(tmp_path))
    never = datetime(1970, 1, 1, tzinfo=timezone.utc) - timedelta(milliseconds=1)
    BatchWriter(folder, begun(folder), "cluster").write(batch(spark, rows=[(0, 3, never, b"\0\2a", b"")]))
    assert [file.parent.name for file in tmp_path.glob("raw/*/*.parquet")] == ["date=1969-12-31"]


def test_names_are_made_from_the_batch_and_its_offsets() -> None:
    name = batch_name(7, FIRST)
    assert name.startswith("0000000007-")
    assert batch_name(7, tuple(reversed(FIRST))) == name
    assert batch_name(7, FIRST[:1]) != name


def test_files_that_no_run_would_complete_are_removed(tmp_path: Path, spark: SparkSession) -> None:
    for date in ("date=2026-03-01", "date=2026-03-02"):
        (tmp_path / "raw" / date).mkdir(parents=True)
        for name in ("0000000003-aa.parquet", "0000000004-bb.parquet"):
            (tmp_path / "raw" / date / name).touch()
    remove_files_of(Directory(spark, str(tmp_path)), 4)
    assert {file.name for file in tmp_path.glob("raw/*/*.parquet")} == {"0000000003-aa.parquet"}


def test_an_archive_can_lie_in_any_file_system_of_hadoop(spark: SparkSession, tmp_path: Path) -> None:
    spark.conf.set("fs.viewfs.mounttable.depot.link./data", tmp_path.as_uri())
    folder = Directory(spark, "viewfs://depot/data/groups")
    agree(folder, TopicIdentity("c", "t", "i", 2))
    BatchWriter(folder, begun(folder), "c").write(batch(spark))
    agree(Directory(spark, "viewfs://depot/data/groups"), TopicIdentity("c", "t", "i", 2))
    assert archived(tmp_path / "groups") == sorted(ROWS)


def test_a_ledger_keeps_its_latest_entries(spark: SparkSession, tmp_path: Path) -> None:
    folder = Directory(spark, str(tmp_path))
    ledger = begun(folder)
    for number in range(1, 9):
        ledger.append(LedgerEntry(number, {0: number}))
    assert Ledger(folder).latest == LedgerEntry(8, {0: 8})
    assert len(list(tmp_path.glob("_archive/ledger/0*.json"))) == 5


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "1",
        "[]",
        '"x"',
        '{"next": 1}',
        '{"batches": 1, "next": {"0": 1}, "counts": 1, "last_read": {}}',
        '{"batches": 1, "next": {"0": 1}, "counts": {"group_records": {}}, "last_read": {"0": ["a", "b"]}}',
    ],
)
def test_a_ledger_of_another_form_is_refused_by_name(spark: SparkSession, tmp_path: Path, text: str) -> None:
    folder = Directory(spark, str(tmp_path))
    begun(folder)
    (entry,) = tmp_path.glob("_archive/ledger/0*.json")
    entry.with_name(f".{entry.name}.crc").unlink()
    entry.write_text(text)
    with pytest.raises(ArchiveError, match=r"ledger/0000000000\.json: not an entry of the ledger"):
        Ledger(folder)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (
            TopicIdentity("other", "t", "i", 2),
            "is the archive of cluster c, and this is cluster other: give each",
        ),
        (TopicIdentity("c", "u", "i", 2), "is the archive of topic t, not of u"),
        (TopicIdentity("c", "t", "j", 2), r"topic t was recreated .*\(its id was i, and is j\)"),
        (TopicIdentity("c", "t", "i", 3), "topic t has 3 partitions, and had 2 when"),
    ],
)
def test_an_archive_of_something_else_is_refused(
    spark: SparkSession, tmp_path: Path, found: TopicIdentity, message: str
) -> None:
    folder = Directory(spark, str(tmp_path))
    agree(folder, TopicIdentity("c", "t", "i", 2))
    with pytest.raises(ArchiveError, match=message):
        agree(folder, found)


def test_a_folder_that_is_no_archive_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "raw.parquet").touch()
    folder = Directory(spark, str(tmp_path))
    with pytest.raises(ArchiveError, match=r"raw\.parquet is there already, and no archive\.json"):
        agree(folder, TopicIdentity("c", "t", "i", 2))
    for text, message in (('{"format": 2}', "format 2, and this version knows 1"), ("{", "not the manifest")):
        (tmp_path / MANIFEST).write_text(text)
        with pytest.raises(ArchiveError, match=message):
            agree(folder, TopicIdentity("c", "t", "i", 2))


# The catalogue


def changed(found: LiveTopic, known: CatalogueEntry | None) -> CatalogueEntry | None:
    return changed_entry(known, found.topic, MIDNIGHT, racks_known=found.complete)


def live(name: str, racks: list[set[str]], topic_id: str = "id", complete: bool = True) -> LiveTopic:
    replica_racks = tuple(map(frozenset, racks)) if any(racks) else None
    return LiveTopic(Topic(name, len(racks), replica_racks, topic_id), complete)


def test_a_topic_has_changed_if_its_id_partitions_or_racks_have() -> None:
    known = CatalogueEntry(None, Topic("t", 2, (frozenset("a"), frozenset("b")), "id"))
    other_racks = live("t", [{"a"}, {"c"}])
    assert changed(other_racks, known) == CatalogueEntry(MIDNIGHT, other_racks.topic)
    assert changed(other_racks, None) == CatalogueEntry(None, other_racks.topic)
    assert changed(live("t", [{"a"}, {"b"}]), known) is None
    assert changed(live("t", [{"a"}, {"b"}, {"a"}]), known)
    assert changed(live("t", [{"a"}, {"b"}], topic_id="other"), known)
    assert changed(live("t", [{"a"}, set()], complete=False), known) is None
    assert changed(live("t", [{"a"}, set()], complete=True), known)


def test_the_catalogue_has_a_row_for_every_change_and_no_other(spark: SparkSession, tmp_path: Path) -> None:
    folder = Directory(spark, str(tmp_path))
    later = MIDNIGHT + timedelta(hours=1)
    log = CatalogueLog(spark, folder)
    assert log.note([live("t", [{"a"}]), live("u", [set()])], MIDNIGHT) == 2
    assert log.note([live("t", [{"a"}]), live("u", [set()])], MIDNIGHT) == 0
    log = CatalogueLog(spark, folder)
    assert log.note([live("t", [{"a"}, {"b"}])], later) == 1
    assert log.note([live("t", [{"a"}, {"b"}]), live("u", [set()])], later) == 0
    rows = spark.read.parquet(str(tmp_path / "topics"))
    assert rows.schema == from_arrow_schema(TOPICS)
    catalogue = Catalogue.from_rows(collect_with_micros(rows))
    assert catalogue.at("t", MIDNIGHT - timedelta(days=9)) == Topic("t", 1, (frozenset("a"),), "id")
    assert catalogue.at("t", later) == Topic("t", 2, (frozenset("a"), frozenset("b")), "id")
    assert catalogue.entries("u") == (Topic("u", 1, None, "id"),)


# Counts


def test_counts_add_up_and_tell_what_came_after() -> None:
    one, two = MessageCounts(10, {2: 3}, 5, 1, 1, 1), MessageCounts(7, {2: 1, 5: 2}, 4, 0, 0, 0)
    assert one + two == MessageCounts(17, {2: 4, 5: 2}, 9, 1, 1, 1)
    assert (one + two).since(one) == MessageCounts(7, {2: 1, 5: 2}, 4, 0, 0, 1)
    assert (one + two).records == 6


def test_the_lag_is_that_of_the_oldest_end_that_is_not_reached() -> None:
    lag = Lag()
    lag.look({0: 10, 1: 5}, {0: 0, 1: 5}, now=100.0)
    assert (lag.offsets, lag.seconds) == (10, 0.0)
    lag.look({0: 20, 1: 5}, {0: 4, 1: 5}, now=130.0)
    assert (lag.offsets, lag.seconds) == (16, 30.0)
    lag.look({0: 20, 1: 9}, {0: 12, 1: 5}, now=140.0)
    assert (lag.offsets, lag.seconds) == (12, 10.0)
    lag.look({0: 20, 1: 9}, {0: 20, 1: 9}, now=150.0)
    assert (lag.offsets, lag.seconds) == (0, 0.0)
