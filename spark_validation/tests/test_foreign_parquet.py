"""Parquet of any origin as a history: the rows are right, or one line names the file and the column."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from kafka_assignors.wire import ConsumerAssignment, encode_assignment
from kafka_assignors_replay.engine import ENGINES
from kafka_assignors_replay.history.records import LAST_MICROS, from_micros
from kafka_assignors_replay.history_files import catalogue_rows, read_records, record_files
from kafka_assignors_replay.replay import run_replay
from kafka_assignors_replay.replay_tables import damage_lines
from kafka_assignors_replay.report.as_html import html_report
from kafka_assignors_replay.report.as_json import json_report
from kafka_assignors_replay.result import OFFSETS_TOPIC, ReplayError, ReplayOptions, ReplayResult
from kafka_assignors_replay.spark.read import recorded_records
from spark_validation.tests.folding import fold
from spark_validation.tests.groups import ALL, RAW_SCHEMA, START, TOPICS_SCHEMA, Log, member
from spark_validation.tests.replaying import replay as replay_history
from spark_validation.tests.replaying import replay_on_both_engines

ZONE = "spark.sql.session.timeZone"
TOPICS = "topics.parquet"
TOPIC = {"topic": "orders", "topic_id": None, "from": START, "partitions": 4, "replica_racks": None}
STICKY: dict[str, Any] = {"strategies": ("sticky",)}


def table(change: Callable[[list[dict[str, Any]]], object] = lambda rows: None) -> pa.Table:
    """Three generations of a group, with the rows that `change` modifies."""
    log = Log()
    rows = log.three_generations("g")
    change(rows)
    return pa.Table.from_pylist(rows, RAW_SCHEMA)


def with_column(name: str, values: Any, kind: Any = None) -> pa.Table:
    whole = table()
    array = values if isinstance(values, (pa.Array, pa.ChunkedArray)) else pa.array(values, kind)
    return whole.set_column(whole.schema.names.index(name), name, array)


def retyped(name: str, kind: Any) -> pa.Table:
    return with_column(name, table()[name].cast(kind))


def not_utf8(rows: int) -> pa.Array:
    """Strings that are not UTF-8, one for each row."""
    return pa.array([b"\xff"] * rows, pa.binary()).view(pa.string())


def replay(folder: Path, raw: pa.Table, engine: str = "local") -> ReplayResult:
    pq.write_table(raw, folder / "raw.parquet")
    return replay_history(folder, engine, strategies=("sticky",), sample_groups=1)


def write_topics(folder: Path, *rows: dict[str, Any], since: Any = None) -> None:
    """Write a catalogue; `since` replaces the column of times."""
    topics = pa.Table.from_pylist(rows, TOPICS_SCHEMA)
    if since is not None:
        topics = topics.set_column(topics.schema.names.index("from"), "from", since)
    pq.write_table(topics, folder / TOPICS)


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, spark: SparkSession) -> str:
    return str(request.param)


SAME: dict[str, pa.Table] = {
    "64-bit partitions": retyped("partition", pa.int64()),
    "32-bit offsets": retyped("offset", pa.int32()),
    "milliseconds": retyped("timestamp", pa.timestamp("ms", "UTC")),
    "another zone": retyped("timestamp", pa.timestamp("us", "Asia/Kathmandu")),
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
}


SAME_ON_EVERY_PYSPARK = {"32-bit offsets", "another zone", "other columns", "an empty cluster"}
"""Beside the other cases, which read the same kinds of columns, each PySpark has nothing of its own here."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.exhaustive] if name in SAME_ON_EVERY_PYSPARK else [])
        for name in SAME
    ],
)
def test_equal_values_of_other_types_are_the_same_records_on_both_engines(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    plain = json_report(replay(tmp_path, table()))
    for engine in ENGINES:
        assert json_report(replay(tmp_path, SAME[name], engine)) == plain


TIMES = [pa.timestamp(unit, zone) for unit in ("ms", "us", "ns") for zone in ("UTC", "Asia/Kathmandu", None)]
TIMES_ON_SPARK = [pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("us", "Asia/Kathmandu"), TIMES[-3]]
"""One type of each unit, and each of Spark's kinds of microseconds; Spark reads all these files together."""

NANOSECONDS = [-1_000_001, 999, 1_700_000_000_000_000_999]
"""None of them is a whole number of microseconds, and one is before 1970."""


def timed(kind: pa.DataType) -> pa.Table:
    """The records at these times, in the unit of the type."""
    per = {"ms": 1_000_000, "us": 1_000, "ns": 1}[kind.unit]
    return with_column("timestamp", pa.array([each // per for each in NANOSECONDS], pa.int64()).cast(kind))


@pytest.fixture
def elsewhere(spark: SparkSession) -> Iterator[None]:
    """The caller's session uses a time zone other than UTC."""
    before = str(spark.conf.get(ZONE))
    spark.conf.set(ZONE, "Asia/Kathmandu")
    yield
    spark.conf.set(ZONE, before)


@pytest.mark.parametrize("kind", TIMES, ids=str)
def test_times_of_any_unit_with_and_without_a_zone_are_instants(
    elsewhere: None, tmp_path: Path, kind: pa.DataType
) -> None:
    raw = timed(kind)
    per = {"ms": 1_000_000, "us": 1_000, "ns": 1}[kind.unit]
    ends = [from_micros(NANOSECONDS[at] // per * per // 1_000) for at in (0, -1)]
    engines = ENGINES if kind in TIMES_ON_SPARK else ("local",)
    results = [replay(tmp_path, raw, engine) for engine in engines]
    for result in results:
        (group,) = result.groups
        assert [group.first_timestamp, group.last_timestamp] == ends
    assert len(set(map(json_report, results))) == 1


@pytest.mark.parametrize("kind", [pa.timestamp("ns"), pa.timestamp("ns", "UTC"), pa.timestamp("us")], ids=str)
def test_times_in_the_catalogue_are_the_same_instants(
    elsewhere: None, tmp_path: Path, kind: pa.DataType
) -> None:
    pq.write_table(table(), tmp_path / "raw.parquet")
    since = pa.array([START, from_micros(-1)], pa.timestamp("us", "UTC")).cast(kind, safe=False)
    write_topics(tmp_path, TOPIC, TOPIC, since=since)
    replay_on_both_engines(tmp_path, **STICKY)


@pytest.mark.parametrize("first", [pa.timestamp("ns"), pa.timestamp("us", "UTC")], ids=str)
def test_files_of_several_units_lie_in_one_folder(
    elsewhere: None, tmp_path: Path, first: pa.DataType
) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    log = Log()
    for number, kind in enumerate([first, *TIMES]):
        log.generation("g", number + 1, member("a", gets=ALL))
        rows = pa.Table.from_pylist([log.records[-1]], RAW_SCHEMA)
        rows = rows.set_column(2, "timestamp", rows["timestamp"].cast(kind))
        pq.write_table(rows, raw / f"[{number:02}] %20.parquet")
    result = replay_on_both_engines(tmp_path, **STICKY)
    assert result.history.generations == 1 + len(TIMES)
    assert result.groups[0].last_timestamp == log.records[-1]["timestamp"]


def test_numbers_beside_nanoseconds_are_no_times(engine: str, tmp_path: Path) -> None:
    raw = with_column("timestamp", [1, 2, 3], pa.int64())
    nanoseconds = table()["timestamp"].cast(pa.timestamp("ns"))
    said = "column timestamp has type int64, and should have timestamp"
    with pytest.raises(ReplayError, match=said):
        replay(tmp_path, raw.append_column("received", nanoseconds), engine)
    (tmp_path / "raw.parquet").unlink()
    (tmp_path / "raw").mkdir()
    pq.write_table(raw, tmp_path / "raw" / "b.parquet")
    pq.write_table(retyped("timestamp", pa.timestamp("ns")), tmp_path / "raw" / "a.parquet")
    with pytest.raises(ReplayError, match=said):
        replay_history(tmp_path, engine)


@pytest.mark.parametrize("name", REFUSED)
def test_columns_of_other_types_are_refused_by_name(spark: SparkSession, tmp_path: Path, name: str) -> None:
    raw, said = REFUSED[name]
    pq.write_table(raw, tmp_path / "raw.parquet")
    with pytest.raises(ReplayError) as error:
        recorded_records(spark, str(tmp_path))
    assert said in str(error.value)
    assert f"{tmp_path}/raw.parquet: " in str(error.value)
    assert "\n" not in str(error.value)
    with pytest.raises(ReplayError) as error:
        replay(tmp_path, raw)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("column", "values", "kind", "engines"),
    [
        ("partition", [0, -1, 0], pa.int32(), ["local"]),
        ("partition", [0, None, 0], pa.int32(), ["local"]),
        ("partition", [0, 2**40, 0], pa.int64(), ENGINES),
        ("offset", [0, -1, 2], pa.int64(), ENGINES),
        ("offset", [0, None, 2], pa.int64(), ["local"]),
        ("timestamp", [0, None, 2], pa.timestamp("us", "UTC"), ENGINES),
    ],
)
def test_a_record_without_a_place_is_refused(
    spark: SparkSession, tmp_path: Path, column: str, values: Any, kind: Any, engines: Sequence[str]
) -> None:
    for engine in engines:
        with pytest.raises(
            ReplayError, match=f"column {column} is null, negative or too large in 1 records; give"
        ):
            replay(tmp_path, with_column(column, values, kind), engine)


@pytest.mark.parametrize("unit", ["ms", "us"])
def test_a_time_beyond_the_year_9999_is_the_end_of_that_year(engine: str, tmp_path: Path, unit: str) -> None:
    forged = pa.array([0, -(2**62), 2**62], pa.int64()).cast(pa.timestamp(unit, "UTC"))
    result = replay(tmp_path, with_column("timestamp", forged), engine)
    (group,) = result.groups
    assert (group.rebalances, group.replayed_rebalances, group.clock_jumps) == (3, 3, 1)
    assert group.last_timestamp == from_micros(LAST_MICROS)
    assert group.last_timestamp == datetime(9999, 12, 31, 23, 59, 59, 999_000, timezone.utc)


def test_values_of_many_mebibytes_are_read_or_named() -> None:
    many, log = 4 << 20, Log()
    assignment = encode_assignment(ConsumerAssignment(0, ALL, bytes(many)))
    log.generation("g", 4, member("a")._replace(assignment=assignment))

    def grow(rows: list[dict[str, Any]]) -> None:
        rows[1]["value"] += bytes(many)
        rows.append({**log.records[0], "offset": 3})
        rows.append({**rows[0], "offset": 4, "value": bytes(many)})
        rows.append({**rows[0], "offset": 5, "key": b"\0\2" + bytes(many)})
        rows.append({**rows[0], "offset": 6, "key": b"\xff" * many})

    found = fold(table(grow).to_pylist()).all_sums
    assert sum(sums.records.records for sums in found) == 7
    assert sum(sums.records.generations for sums in found) == 3
    assert sum(sums.records.other_records for sums in found) == 1
    listed = [reason for sums in found for *_, reason in sums.undecodable]
    assert len(listed) == 3
    assert all(len(reason) < 1_000 for reason in listed), listed


def of_topics(raw: pa.Table, *others: tuple[int, bytes]) -> pa.Table:
    """The records in the schema of Spark's Kafka source, and rows of `orders` with these offsets and keys."""
    rows = [{**row, "topic": OFFSETS_TOPIC} for row in raw.to_pylist()]
    rows += [{**rows[0], "topic": "orders", "offset": offset, "key": key} for offset, key in others]
    return pa.Table.from_pylist(rows, raw.schema.append(pa.field("topic", pa.string())))


def test_rows_of_other_topics_are_counted_and_change_nothing(engine: str, tmp_path: Path) -> None:
    plain = replay(tmp_path, table(), engine)
    key = table()["key"][0].as_py()
    others = [(0, key), (1, b"an order"), (2, b"\0\1forged")]
    mixed = replay(tmp_path, of_topics(table(), *others), engine)
    assert (mixed.groups, mixed.verdicts) == (plain.groups, plain.verdicts)
    assert mixed.undecodable == ()
    counts = mixed.history.records - plain.history.records, mixed.history.other_records
    assert counts == (3, 3)


def test_rows_of_other_topics_alone_are_said_to_be_that(engine: str, tmp_path: Path) -> None:
    others = of_topics(table(), (0, b"an order"))
    alone = others.filter(pa.array([each == "orders" for each in others["topic"].to_pylist()]))
    with pytest.raises(ReplayError, match="1 record of other topics than __consumer_offsets"):
        replay(tmp_path, alone, engine)


def test_a_topic_that_is_no_text_is_refused(engine: str, tmp_path: Path) -> None:
    numbers = table().append_column("topic", pa.array([1, 2, 3]))
    with pytest.raises(ReplayError, match="column topic has type int64, and should have string"):
        replay(tmp_path, numbers, engine)


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
    with pytest.raises(ReplayError, match=f"{raw}/{name}") as error:
        replay_history(tmp_path, engine, **STICKY)
    advised = "--skip-corrupt goes on without damaged files" in str(error.value)
    assert advised == (damage != "another type beside")


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
    (folder / TOPICS).write_bytes(b"no catalogue")
    return [*sorted(str(raw / name) for name in names), str(folder / TOPICS)]


def skipping(folder: Path, engine: str) -> ReplayResult:
    return replay_history(folder, engine, strategies=("sticky",), skip_corrupt=True)


def test_damaged_files_are_left_out_and_named_by_both_engines(spark: SparkSession, tmp_path: Path) -> None:
    damaged = damaged_history(tmp_path, ["empty", "text", "cut", "pages"])
    on_spark, here = (skipping(tmp_path, engine) for engine in ENGINES)
    assert [each.file for each in here.damaged] == damaged
    assert here.damaged_files == len(damaged)
    assert here.history.generations == 3
    assert here.groups[0].inferred_topics == ("orders",)
    assert json_report(on_spark) == json_report(here)
    for line in damage_lines(here):
        assert line.startswith("5 damaged files left out: ")
        assert all(file in line for file in damaged)
    assert damaged[0] in html_report(here).partition('id="excluded"')[2]


def test_a_list_of_damaged_files_has_a_bound(tmp_path: Path) -> None:
    damaged = damaged_history(tmp_path, ["text"] * 150)
    result = skipping(tmp_path, "local")
    assert result.damaged_files == len(damaged) == 151
    assert [each.file for each in result.damaged] == damaged[:100]
    (line,) = damage_lines(result)
    assert line.startswith("151 damaged files left out: ")
    assert line.count(str(tmp_path)) == 5


def test_a_history_without_a_whole_file_is_refused(engine: str, tmp_path: Path) -> None:
    damaged_history(tmp_path, ["text"])
    (tmp_path / "raw" / "m.parquet").unlink()
    with pytest.raises(ReplayError, match=r"every file of the records is damaged; the first is .*/a-0\."):
        skipping(tmp_path, engine)


def test_a_history_without_damage_is_the_same_with_the_option(engine: str, tmp_path: Path) -> None:
    plain = replay(tmp_path, table(), engine)
    result = skipping(tmp_path, engine)
    assert (result.damaged_files, result.damaged) == (0, ())
    assert (result.history, result.verdicts) == (plain.history, plain.verdicts)


@pytest.mark.parametrize(
    "options",
    [ReplayOptions(path="s3a://bucket/groups"), ReplayOptions(bootstrap_servers="broker:9092")],
    ids=["a URL", "a live cluster"],
)
def test_files_that_are_not_on_a_disk_are_not_skipped(options: ReplayOptions) -> None:
    with pytest.raises(ReplayError, match="--skip-corrupt is for Parquet on a disk of this machine: copy"):
        run_replay(replace(options, skip_corrupt=True), lambda _: None)


def test_folders_below_folders_are_read_with_any_name(spark: SparkSession, tmp_path: Path) -> None:
    whole = table()
    places = ("a.parquet", "2026/03/b.parquet", "date=2026-03-01/partition=7/c.parquet", "_hidden/d.parquet")
    for number, place in enumerate(places):
        file = tmp_path / "raw" / place
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(whole.slice(min(number, 2), 1), file)
    result = replay_on_both_engines(tmp_path, **STICKY)
    assert (result.history.generations, result.history.duplicates) == (3, 0)
    assert result.groups[0].partition == 0


def test_a_column_that_is_only_the_name_of_a_folder_is_missing(engine: str, tmp_path: Path) -> None:
    file = tmp_path / "raw" / "partition=0" / "a.parquet"
    file.parent.mkdir(parents=True)
    pq.write_table(table().drop_columns(["partition"]), file)
    with pytest.raises(ReplayError, match="column partition is missing"):
        replay_history(tmp_path, engine)


def test_a_folder_without_parquet_says_what_to_give(engine: str, tmp_path: Path) -> None:
    (tmp_path / "topics.parquet").mkdir()
    for path in (tmp_path, tmp_path / "topics.parquet"):
        with pytest.raises(ReplayError, match="there is no Parquet here; give a history directory"):
            replay_history(path, engine)


def test_an_empty_file_is_named(engine: str, tmp_path: Path) -> None:
    (tmp_path / "raw.parquet").touch()
    # Spark 4.0 reads an empty file; later releases skip it.
    refusal = r"there is no Parquet here|raw\.parquet: cannot be read as Parquet"
    for path in (tmp_path, tmp_path / "raw.parquet"):
        with pytest.raises(ReplayError, match=refusal):
            replay_history(path, engine)


@pytest.mark.parametrize(
    ("engine", "change", "said"),
    [
        ("local", {"topic": None}, "column topic is null in a row"),
        ("local", {"partitions": None}, "column partitions of topic 'orders' is null"),
        ("local", {"partitions": -4}, "topic 'orders' has a negative partition count"),
        ("local", {"partitions": 2**31 - 1}, "column partitions of topic 'orders' is 2147483647; give"),
        ("local", {"replica_racks": [["a"]]}, "topic 'orders' has 4 partitions but replica racks for 1"),
        # Each engine reads the rows of a catalogue, and the same code checks them.
        ("spark", {"replica_racks": [["a"]]}, "topic 'orders' has 4 partitions but replica racks for 1"),
    ],
)
def test_a_topic_that_no_cluster_has_is_refused(
    spark: SparkSession, tmp_path: Path, engine: str, change: dict[str, Any], said: str
) -> None:
    write_topics(tmp_path, {**TOPIC, **change})
    with pytest.raises(ReplayError) as error:
        replay(tmp_path, table().slice(0, 0), engine)
    assert f"{tmp_path}/topics.parquet: {said}" in str(error.value)


@pytest.mark.parametrize("unit", ["ms", "us"])
def test_a_topic_from_a_time_beyond_the_year_9999_is_as_one_from_its_end(
    engine: str, tmp_path: Path, unit: str
) -> None:
    forged = pa.array([2**62], pa.int64()).cast(pa.timestamp(unit, "UTC"))
    write_topics(tmp_path, TOPIC, since=forged)
    result = replay(tmp_path, table(), engine)
    assert [group.replayed_rebalances for group in result.groups] == [3]


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
            where, files = record_files(str(tmp_path), ())
            list(read_records(files, where, OFFSETS_TOPIC))
            catalogue_rows(str(tmp_path), ())
        except ReplayError as error:
            refusals.append(str(error))
    assert 0 < len(refusals) < len(whole)
    assert all(str(file) in refusal for refusal in refusals)
