"""`kafka-assignors replay` as a user runs it: its output, its files, and its errors."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from compat_tests.support.group_records import encode_group_metadata, encode_key
from compat_tests.support.hang_limit import HANG_S
from kafka_assignors.wire import ConsumerAssignment, Subscription, encode_assignment, encode_subscription
from kafka_assignors_cli import main
from kafka_assignors_replay.history.consumer_offsets import (
    GroupMember,
    GroupMetadata,
    GroupMetadataKey,
    OffsetCommitKey,
)
from tests.test_cli import without_progress

pytestmark = pytest.mark.exhaustive

START = datetime(2026, 3, 1, 12, 0, tzinfo=timezone.utc)
RAW = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)
TOPICS = pa.schema(
    [
        ("topic", pa.string()),
        ("topic_id", pa.string()),
        ("from", pa.timestamp("us", "UTC")),
        ("partitions", pa.int32()),
        ("replica_racks", pa.list_(pa.list_(pa.string()))),
    ]
)
HOSTILE = "<script>alert(1)</script>"


def generation(number: int, assigned: Mapping[str, Sequence[int]]) -> bytes:
    """The value that a broker stores for a generation of `range` with these partitions of `orders`."""
    members = tuple(
        GroupMember(
            member_id=member,
            client_id="consumer",
            client_host="/127.0.0.1",
            session_timeout_ms=45_000,
            rebalance_timeout_ms=300_000,
            subscription=encode_subscription(Subscription(0, ("orders",))),
            assignment=encode_assignment(
                ConsumerAssignment(0, {"orders": tuple(partitions)} if partitions else {})
            ),
        )
        for member, partitions in assigned.items()
    )
    return encode_group_metadata(GroupMetadata(3, "consumer", number, "range", min(assigned), members))


def write_history(path: Path, records: Sequence[tuple[bytes, bytes | None]]) -> Path:
    """Write a history with these keys and values, one second apart, and six partitions of `orders`."""
    (path / "raw").mkdir(parents=True)
    rows = [
        {
            "partition": 7,
            "offset": offset,
            "timestamp": START + timedelta(seconds=offset),
            "key": key,
            "value": value,
        }
        for offset, (key, value) in enumerate(records)
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema=RAW), path / "raw" / "part.parquet")
    topic: dict[str, Any] = {
        "topic": "orders",
        "topic_id": None,
        "from": START - timedelta(days=1),
        "partitions": 6,
        "replica_racks": [[]] * 6,
    }
    pq.write_table(pa.Table.from_pylist([topic], schema=TOPICS), path / "topics.parquet")
    return path


KEY = encode_key(GroupMetadataKey(HOSTILE))
GENERATIONS: list[tuple[bytes, bytes | None]] = [
    (KEY, generation(1, {"a": range(6)})),
    (KEY, generation(2, {"a": range(3), "b": range(3, 6)})),
    (KEY, generation(3, {"a": (0, 1), "b": (2, 3), "c": (4, 5)})),
]


@pytest.fixture(scope="module", autouse=True)
def _one_spark(spark: SparkSession) -> None:
    """Start Spark once: all runs of the command in this process use the active session."""


@pytest.fixture
def history(tmp_path: Path) -> Path:
    return write_history(tmp_path / "history", GENERATIONS)


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line with which `replay` refuses these arguments."""
    capsys.readouterr()
    engine = [] if "--bootstrap-server" in arguments else ["--engine", "local"]
    assert main(["replay", *arguments, *engine]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    [line] = [line for line in without_progress(err).splitlines() if ": engine: " not in line]
    assert line.startswith("kafka-assignors: error: ")
    return line.removeprefix("kafka-assignors: error: ")


def test_the_command_prints_tables_and_a_verdict_and_writes_both_reports(
    history: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report, document = tmp_path / "out" / "report.html", tmp_path / "out" / "report.json"
    arguments = [str(history), "--strategy", "range,cooperative-sticky", "--report", str(report)]
    assert main(["replay", *arguments, "--json", str(document)]) == 0
    out, err = capsys.readouterr()
    for part in (
        "Every group under every strategy",
        "All groups together",
        "Accuracy check",
        "cooperative-sticky",
    ):
        assert part in out
    assert "3 generations of 1 group replayed" in out
    assert f"wrote {report}" in err
    assert HOSTILE not in report.read_text(encoding="utf-8")
    result: dict[str, Any] = json.loads(document.read_text(encoding="utf-8"))
    assert [group["group"] for group in result["groups"]] == [HOSTILE]
    assert {verdict["strategy"] for verdict in result["verdicts"]} == {
        "recorded",
        "range",
        "cooperative-sticky",
    }
    assert result["truth"]["holds"] is True
    assert sorted(path.name for path in report.parent.iterdir()) == ["report.html", "report.json"]


def test_a_replay_of_a_single_mode_and_group_counts_records_that_do_not_decode(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = write_history(tmp_path / "history", [*GENERATIONS, (KEY, b"\x00\x03\xff")])
    asked = ["-s", "sticky", "--mode", "one-step", "-g", HOSTILE, "--engine", "local"]
    assert main(["replay", str(history), *asked]) == 0
    out = capsys.readouterr().out
    assert "one-step" in out
    assert "steady-state" not in out
    assert "1 undecodable record, by partition/offset: 7/3 (" in out


def test_strict_fails_on_records_that_do_not_decode(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = write_history(tmp_path / "history", [*GENERATIONS, (KEY, b"\x00\x03\xff")])
    line = refusal(capsys, str(history), "--strategy", "sticky", "--strict")
    assert "partition 7" in line
    assert "offset 3" in line


def test_a_path_that_does_not_exist_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert str(tmp_path / "nowhere") in refusal(capsys, str(tmp_path / "nowhere"))


def test_parquet_without_the_columns_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "other.parquet"
    pq.write_table(pa.table({"partition": [1], "colour": ["red"]}), file)
    line = refusal(capsys, str(file))
    assert str(file) in line
    assert "offset" in line


def test_a_history_without_group_records_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commit = encode_key(OffsetCommitKey("g", "orders", 0))
    history = write_history(tmp_path / "history", [(commit, b"\x00\x03")])
    assert "no " in refusal(capsys, str(history))


def test_an_empty_history_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no " in refusal(capsys, str(write_history(tmp_path / "history", [])))


def test_a_group_that_is_not_there_is_an_error(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "'orders-consumer'" in refusal(capsys, str(history), "--group", "orders-consumer")


def test_a_broker_that_does_not_answer_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        assert address in refusal(capsys, "--bootstrap-server", address, "--timeout", "2")


def test_an_unknown_mode_comes_with_the_known_ones(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        refusal(capsys, str(history), "--mode", "rolout")
        == "there is no mode 'rolout': known are one-step, steady-state"
    )


def test_a_missing_java_is_named(history: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": str(tmp_path)}
    environment.pop("JAVA_HOME", None)
    done = subprocess.run(
        [sys.executable, "-m", "kafka_assignors_cli", "replay", str(history), "--engine", "spark"],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
        env=environment,
    )
    assert (done.returncode, done.stdout) == (2, "")
    engine, *_, line = without_progress(done.stderr).splitlines()
    assert engine == "kafka-assignors: engine: spark (as asked for)"
    assert line.startswith("kafka-assignors: error: ")
    assert "Java" in line
