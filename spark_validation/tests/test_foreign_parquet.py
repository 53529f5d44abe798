"""Parquet of any origin as a history: the rows are right, or one line names the file and the column.

Both engines read the same rows here; what they make of rows of these types is the subject of other tests.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kafka_assignors_replay import history_files
from kafka_assignors_replay.engine import ENGINES
from kafka_assignors_replay.history.records import FIRST_MICROS, LAST_MICROS, from_micros, to_micros
from kafka_assignors_replay.report.as_html import html_report
from kafka_assignors_replay.result import OFFSETS_TOPIC, TOPICS_NAMES, ReplayError
from kafka_assignors_replay.schemas import RAW
from kafka_assignors_replay.schemas import TOPICS as TOPICS_COLUMNS
from kafka_assignors_replay.spark.read import read_first, recorded_records
from kafka_assignors_replay.spark.spark_session import one_line_errors, spark_session
from spark_validation.tests.groups import ALL, START, Log, member
from spark_validation.tests.replaying import replay, replay_on_both_engines

ZONE = "spark.sql.session.timeZone"
TOPICS = "topics.parquet"
TOPIC = {"topic": "orders", "topic_id": None, "from": START, "partitions": 4, "replica_racks": None}

Rows = list[tuple[Any, ...]]


def table() -> pa.Table:
    """Three generations of a group."""
    return Log().three_generations("g").table()


def with_column(name: str, values: Any, kind: Any = None) -> pa.Table:
    whole = table()
    array = values if isinstance(values, (pa.Array, pa.ChunkedArray)) else pa.array(values, kind)
    return whole.set_column(whole.schema.names.index(name), name, array)


def retyped(name: str, kind: Any) -> pa.Table:
    return with_column(name, table()[name].cast(kind))


def write_topics(folder: Path, *rows: dict[str, Any], since: Any = None) -> None:
    """Write a catalogue; `since` replaces the column of times."""
    topics = pa.Table.from_pylist(rows, TOPICS_COLUMNS)
    if since is not None:
        topics = topics.set_column(topics.schema.names.index("from"), "from", since)
    pq.write_table(topics, folder / TOPICS)


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    """The caller's session uses a time zone other than UTC."""
    before = str(spark.conf.get(ZONE))
    spark.conf.set(ZONE, "Asia/Kathmandu")
    yield str(request.param)
    spark.conf.set(ZONE, before)


def read(folder: Path, engine: str, raw: pa.Table | None = None) -> tuple[Rows, int]:
    """The records that an engine reads, and the number of rows of other topics; `raw` is written before."""
    if raw is not None:
        pq.write_table(raw, folder / "raw.parquet")
    if engine == "spark":
        with spark_session() as spark, one_line_errors():
            rows, others = recorded_records(spark, str(folder), ())
            found = rows.withColumn("timestamp", F.unix_micros("timestamp")).toArrow()
            read_there = sorted(zip(*(column.to_pylist() for column in found.columns), strict=True))
            return read_there, 0 if others is None else others.count()
    place, files = history_files.record_files(str(folder), ())
    batches = list(history_files.read_records(files, place, OFFSETS_TOPIC))
    return sorted(row for rows, _ in batches for row in rows), sum(others for _, others in batches)


def read_topics(folder: Path, engine: str) -> list[dict[str, Any]]:
    """The rows of the catalogue that an engine reads."""
    if engine == "spark":
        with spark_session() as spark:
            found = read_first(spark, str(folder), TOPICS_NAMES, TOPICS_COLUMNS, ())
            assert found is not None
            return history_files.rows_by_name(found[1].toArrow(), TOPICS_COLUMNS)
    read_here = history_files.catalogue_rows(str(folder))
    assert read_here is not None
    return read_here[1]


def refusal(folder: Path, engine: str, raw: pa.Table | None = None) -> str:
    """The line with which an engine refuses to read."""
    with pytest.raises(ReplayError) as error:
        read(folder, engine, raw)
    assert "\n" not in str(error.value)
    return str(error.value)


PLAIN = history_files.rows_of(table(), RAW)

SAME: dict[str, pa.Table] = {
    "64-bit partitions": retyped("partition", pa.int64()),
    "32-bit offsets": retyped("offset", pa.int32()),
    "large binaries": retyped("key", pa.large_binary()),
    "other columns": table().append_column("headers", pa.array([[{"a": 1}]] * 3)),
    "an empty cluster": table().append_column("cluster_id", pa.nulls(3, pa.string())),
}

REFUSED: dict[str, tuple[pa.Table, str]] = {
    "a text key": (with_column("key", ["x"] * 3), "column key has type string, and should have binary"),
    "a text value": (with_column("value", ["x"] * 3), "column value has type string, and should have binary"),
    "numbers for times": (
        with_column("timestamp", [1, 2, 3], pa.int64()),
        "column timestamp has type int64, and should have timestamp",
    ),
    "numbers beside nanoseconds": (
        with_column("timestamp", [1, 2, 3], pa.int64()).append_column(
            "received", table()["timestamp"].cast(pa.timestamp("ns"))
        ),
        "column timestamp has type int64, and should have timestamp",
    ),
    "a text for times": (with_column("timestamp", ["x"] * 3), "column timestamp has type string"),
    "dates": (retyped("timestamp", pa.date32()), "column timestamp has type date"),
    "a text partition": (with_column("partition", ["0"] * 3), "column partition has type string"),
    "fractions for offsets": (with_column("offset", [0.0, 1.0, 2.0]), "column offset has type double"),
    "no values": (table().drop_columns(["value"]), "column value is missing"),
    "other columns alone": (
        pa.table({"x": [1]}),
        "column partition, offset, timestamp, key, value is missing",
    ),
    "a cluster that is a map": (
        table().append_column("cluster_id", pa.array([[("a", 1)]] * 3, pa.map_(pa.string(), pa.int32()))),
        "column cluster_id has type map<string, int32",
    ),
    "a key twice": (table().append_column("key", table()["key"]), "column `key` "),
    "a topic that is no text": (
        table().append_column("topic", pa.array([1, 2, 3])),
        "column topic has type int64, and should have string",
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_equal_values_of_other_types_are_the_same_records(engine: str, tmp_path: Path, name: str) -> None:
    assert read(tmp_path, engine, SAME[name]) == (PLAIN, 0)


@pytest.mark.parametrize("name", REFUSED)
def test_columns_of_other_types_are_refused_by_name(engine: str, tmp_path: Path, name: str) -> None:
    raw, said = REFUSED[name]
    refused = refusal(tmp_path, engine, raw)
    assert said in refused
    assert f"{tmp_path}/raw.parquet: " in refused


def test_text_that_is_not_utf8_is_refused_by_the_local_engine(tmp_path: Path) -> None:
    said = "raw.parquet: cannot be read as Parquet: In column 5: Invalid: Invalid UTF8 sequence"
    texts = pa.array([b"\xff"] * 3, pa.binary()).view(pa.string())
    assert said in refusal(tmp_path, "local", table().append_column("cluster_id", texts))


TIMES = [pa.timestamp(unit, zone) for unit in ("ms", "us", "ns") for zone in ("UTC", "Asia/Kathmandu", None)]

NANOSECONDS = [-1_000_001, 999, 1_700_000_000_000_000_999]
"""None of them is a whole number of microseconds, and one is before 1970."""


@pytest.mark.parametrize("kind", TIMES, ids=str)
def test_times_of_any_unit_with_and_without_a_zone_are_instants(
    engine: str, tmp_path: Path, kind: pa.DataType
) -> None:
    per = {"ms": 1_000_000, "us": 1_000, "ns": 1}[kind.unit]
    times = pa.array([each // per for each in NANOSECONDS], pa.int64()).cast(kind)
    rows, _ = read(tmp_path, engine, with_column("timestamp", times))
    assert [row[2] for row in rows] == [each // per * per // 1_000 for each in NANOSECONDS]


@pytest.mark.parametrize("kind", [pa.timestamp("ns"), pa.timestamp("ns", "UTC"), pa.timestamp("us")], ids=str)
def test_times_in_the_catalogue_are_the_same_instants(engine: str, tmp_path: Path, kind: pa.DataType) -> None:
    since = pa.array([START, from_micros(-1)], pa.timestamp("us", "UTC")).cast(kind, safe=False)
    write_topics(tmp_path, TOPIC, TOPIC, since=since)
    assert [row["from"] for row in read_topics(tmp_path, engine)] == [to_micros(START), -1]


@pytest.mark.parametrize("first", [pa.timestamp("ns"), pa.timestamp("us", "UTC")], ids=str)
def test_files_of_several_units_lie_in_one_folder(engine: str, tmp_path: Path, first: pa.DataType) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    log = Log()
    for number, kind in enumerate([first, *TIMES]):
        log.generation("g", number + 1, member("a", gets=ALL))
        rows = pa.Table.from_pylist([log.records[-1]], RAW)
        rows = rows.set_column(2, "timestamp", rows["timestamp"].cast(kind))
        pq.write_table(rows, raw / f"[{number:02}] %20.parquet")
    assert read(tmp_path, engine)[0] == history_files.rows_of(log.table(), RAW)


def test_a_linked_folder_is_read_once_and_the_name_of_a_folder_is_no_pattern(
    engine: str, tmp_path: Path
) -> None:
    """As of an archive whose older days lie on another disk."""
    raw, elsewhere = tmp_path / "h[1] {a,b}*%20" / "raw", tmp_path / "h1 a" / "raw"
    for folder, rows in ((raw, table()[:1]), (elsewhere, table()[1:])):
        folder.mkdir(parents=True)
        pq.write_table(rows, folder / "a.parquet")
    (raw / "date=2026-03-01").symlink_to(elsewhere)
    (raw / ".back").symlink_to(raw)
    assert read(raw.parent, engine) == (PLAIN, 0)


@pytest.mark.timeout(240)  # A pipe that is opened blocks a thread of Spark.
def test_a_pipe_and_a_broken_link_are_no_files(engine: str, tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    os.mkfifo(raw / "pipe.parquet")
    (raw / "link.parquet").symlink_to("nowhere")
    for path in (raw / "pipe.parquet", raw):
        assert "there is no Parquet here" in refusal(path, engine)
    pq.write_table(table(), raw / "raw.parquet")
    assert read(tmp_path, engine) == (PLAIN, 0)


def test_numbers_beside_nanoseconds_are_no_times(engine: str, tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    pq.write_table(retyped("timestamp", pa.timestamp("ns")), tmp_path / "raw" / "a.parquet")
    pq.write_table(with_column("timestamp", [1, 2, 3], pa.int64()), tmp_path / "raw" / "b.parquet")
    said = "column timestamp has type int64, and should have timestamp"
    assert said in refusal(tmp_path, engine)


@pytest.mark.parametrize(
    ("column", "values", "kind", "engines"),
    [
        ("partition", [0, -1, 0], pa.int32(), ["local"]),
        ("partition", [0, None, 0], pa.int32(), ["local"]),
        ("partition", [0, 2**40, 0], pa.int64(), ENGINES),
        ("offset", [0, -1, 2], pa.int64(), ENGINES),
        ("offset", [0, 2**64 - 1, 2], pa.uint64(), ["local"]),
        ("timestamp", [0, None, 2], pa.timestamp("us", "UTC"), ENGINES),
    ],
)
def test_a_record_without_a_place_is_refused(
    spark: SparkSession, tmp_path: Path, column: str, values: Any, kind: Any, engines: list[str]
) -> None:
    pq.write_table(with_column(column, values, kind), tmp_path / "raw.parquet")
    said = f"column {column} is null, negative or too large in 1 records; give"
    for name in engines:
        with pytest.raises(ReplayError, match=said):
            replay(tmp_path, name, strategies=("sticky",))


@pytest.mark.parametrize("unit", ["ms", "us"])
def test_a_time_beyond_the_year_9999_is_the_end_of_that_year(engine: str, tmp_path: Path, unit: str) -> None:
    kind = pa.timestamp(unit, "UTC")
    rows, _ = read(tmp_path, engine, with_column("timestamp", pa.array([0, -(2**62), 2**62]).cast(kind)))
    assert [row[2] for row in rows] == [0, FIRST_MICROS, LAST_MICROS]
    assert from_micros(LAST_MICROS) == datetime(9999, 12, 31, 23, 59, 59, 999_000, timezone.utc)
    write_topics(tmp_path, TOPIC, since=pa.array([2**62]).cast(kind))
    assert [row["from"] for row in read_topics(tmp_path, engine)] == [LAST_MICROS]


def of_topics(raw: pa.Table, *others: tuple[int, bytes]) -> pa.Table:
    """The records in the schema of Spark's Kafka source, and rows of `orders` with these offsets and keys."""
    rows = [{**row, "topic": OFFSETS_TOPIC} for row in raw.to_pylist()]
    rows += [{**rows[0], "topic": "orders", "offset": offset, "key": key} for offset, key in others]
    return pa.Table.from_pylist(rows, raw.schema.append(pa.field("topic", pa.string())))


def test_rows_of_other_topics_are_counted_and_change_nothing(engine: str, tmp_path: Path) -> None:
    others = [(0, table()["key"][0].as_py()), (1, b"an order"), (2, b"\0\1forged")]
    assert read(tmp_path, engine, of_topics(table(), *others)) == (PLAIN, 3)


def test_rows_of_other_topics_alone_are_said_to_be_that(engine: str, tmp_path: Path) -> None:
    others = of_topics(table(), (0, b"an order"))
    alone = others.filter(pa.array([each == "orders" for each in others["topic"].to_pylist()]))
    pq.write_table(alone, tmp_path / "raw.parquet")
    with pytest.raises(ReplayError, match="1 record of other topics than __consumer_offsets"):
        replay(tmp_path, engine)


@pytest.mark.parametrize("damage", ["text", "cut", "text beside", "another type beside", "a flipped byte"])
def test_a_file_that_does_not_read_is_named(engine: str, tmp_path: Path, damage: str) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    pq.write_table(table(), raw / "a.parquet")
    whole = (raw / "a.parquet").read_bytes()
    name = "b.parquet" if damage.endswith("beside") else "a.parquet"
    flipped = bytearray(whole)
    flipped[len(whole) // 4] ^= 255
    contents = {"cut": whole[: len(whole) // 2], "a flipped byte": bytes(flipped)}
    (raw / name).write_bytes(contents.get(damage, b"some text of a user"))
    if damage == "another type beside":
        pq.write_table(retyped("partition", pa.string()), raw / name)
    assert f"{raw}/{name}" in refusal(tmp_path, engine)


def damaged_history(folder: Path, damages: Sequence[str]) -> list[str]:
    """A history of several files, some of them damaged; returns the paths of the damaged files."""
    raw = folder / "raw"
    raw.mkdir(parents=True)
    whole = raw / "m.parquet"
    pq.write_table(table(), whole)
    data = bytearray(whole.read_bytes())
    for at in range(len(data) // 4, len(data) // 4 + 40):
        data[at] ^= 255
    cases = {"empty": b"", "text": b"some text", "cut": whole.read_bytes()[:900], "pages": bytes(data)}
    names = [f"{'az'[number % 2]}-{number}.parquet" for number in range(len(damages))]
    for name, damage in zip(names, damages, strict=True):
        (raw / name).write_bytes(cases[damage])
    (folder / "topics.parquet").write_bytes(b"no catalogue")
    return [*sorted(str(raw / name) for name in names), str(folder / "topics.parquet")]


def test_damaged_files_are_left_out_and_named_by_both_engines(spark: SparkSession, tmp_path: Path) -> None:
    damaged = damaged_history(tmp_path, ["empty", "text", "cut", "pages"])
    found = replay_on_both_engines(tmp_path, strategies=("sticky",), skip_corrupt=True)
    assert [each.file for each in found.damaged] == damaged
    assert found.history.generations == 3
    assert found.groups[0].inferred_topics == ("orders",)
    assert damaged[0] in html_report(found).partition('id="excluded"')[2]


def test_a_list_of_damaged_files_has_a_bound(tmp_path: Path) -> None:
    damaged = damaged_history(tmp_path, ["text"] * 150)
    result = replay(tmp_path, strategies=("sticky",), skip_corrupt=True)
    assert result.damaged_files == len(damaged) == 151
    assert [each.file for each in result.damaged] == damaged[:100]


def test_a_history_without_a_whole_file_is_refused(engine: str, tmp_path: Path) -> None:
    damaged_history(tmp_path, ["text"])
    (tmp_path / "raw" / "m.parquet").unlink()
    with pytest.raises(ReplayError, match=r"every file of the records is damaged; the first is .*/a-0\."):
        replay(tmp_path, engine, skip_corrupt=True)


def test_folders_below_folders_are_read_with_any_name(engine: str, tmp_path: Path) -> None:
    whole = table()
    places = ("a.parquet", "2026/03/b.parquet", "date=2026-03-01/partition=7/c.parquet", "_hidden/d.parquet")
    for number, place in enumerate(places):
        file = tmp_path / "raw" / place
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(whole.slice(min(number, 2), 1), file)
    assert read(tmp_path, engine)[0] == PLAIN


def test_a_column_that_is_only_the_name_of_a_folder_is_missing(engine: str, tmp_path: Path) -> None:
    file = tmp_path / "raw" / "partition=0" / "a.parquet"
    file.parent.mkdir(parents=True)
    pq.write_table(table().drop_columns(["partition"]), file)
    assert "column partition is missing" in refusal(tmp_path, engine)


def test_a_folder_without_parquet_says_what_to_give(engine: str, tmp_path: Path) -> None:
    (tmp_path / "topics.parquet").mkdir()
    for path in (tmp_path, tmp_path / "topics.parquet"):
        assert "there is no Parquet here; give a history directory" in refusal(path, engine)


def test_an_empty_file_is_named(engine: str, tmp_path: Path) -> None:
    (tmp_path / "raw.parquet").touch()
    # Spark 4.0 reads an empty file; later releases skip it.
    said = "there is no Parquet here", "raw.parquet: cannot be read as Parquet"
    for path in (tmp_path, tmp_path / "raw.parquet"):
        refused = refusal(path, engine)
        assert any(each in refused for each in said)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"topic": None}, "column topic is null in a row"),
        ({"partitions": None}, "column partitions of topic 'orders' is null"),
        ({"partitions": -4}, "topic 'orders' has a negative partition count"),
        ({"partitions": 2**31 - 1}, "column partitions of topic 'orders' is 2147483647; give"),
        ({"replica_racks": [["a"]]}, "topic 'orders' has 4 partitions but replica racks for 1"),
    ],
)
def test_a_topic_that_no_cluster_has_is_refused(
    engine: str, tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    write_topics(tmp_path, {**TOPIC, **change})
    with pytest.raises(ReplayError) as error:
        history_files.catalogue_of((f"{tmp_path}/{TOPICS}", read_topics(tmp_path, engine)))
    assert f"{tmp_path}/{TOPICS}: {said}" in str(error.value)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["raw.parquet", "topics.parquet"])
def test_a_flipped_byte_at_any_place_is_read_or_refused_with_its_file(tmp_path: Path, name: str) -> None:
    """The exception of pyarrow, such as `UnicodeDecodeError`, depends on the place."""
    pq.write_table(table().append_column("cluster_id", pa.array(["c"] * 3)), tmp_path / "raw.parquet")
    write_topics(tmp_path, TOPIC)
    file = tmp_path / name
    whole = file.read_bytes()
    refusals = []
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 255
        file.write_bytes(damaged)
        try:
            read(tmp_path, "local")
            history_files.catalogue_rows(str(tmp_path))
        except ReplayError as error:
            refusals.append(str(error))
    assert 0 < len(refusals) < len(whole)
    assert all(str(file) in refusal for refusal in refusals)
