"""A short recording of one group on real brokers: which records are stored, and which are not."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_assignors_replay.history.consumer_offsets import (
    GroupMetadataKey,
    decode_group_metadata,
    decode_key,
)
from spark_validation.recording.groups import GROWTHS, TOPICS, Act
from spark_validation.recording.record import main

TIMESTAMP = pa.timestamp("us", "UTC")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("recording") / "recorded"
    out.mkdir()
    (out / "of-an-earlier-recording").touch()
    # With this seed the first act is due after 19 of the 30 seconds, which is early enough on a busy machine.
    options = ["--minutes", "0.5", "--seed", "67", "--groups", "checkout"]
    assert main([*options, "--out", str(out)]) == 0
    return out


def test_the_records_of_the_group_are_stored_and_no_offset_commits(recorded: Path) -> None:
    table = pq.read_table(recorded / "raw")
    assert table.schema.names == ["partition", "offset", "timestamp", "key", "value"]
    assert table.schema.field("timestamp").type == TIMESTAMP
    keys = [decode_key(key) for key in table["key"].to_pylist()]
    assert keys
    assert set(keys) == {GroupMetadataKey("checkout")}

    values = [decode_group_metadata(value) for value in table["value"].to_pylist() if value is not None]
    assert max(len(value.members) for value in values) >= 3
    assert {m.client_id for value in values for m in value.members} == {"confluent-checkout"}
    assert sorted(v.generation for v in values) == [v.generation for v in values]


def test_the_catalogue_has_every_topic_before_and_after_it_grew(recorded: Path) -> None:
    table = pq.read_table(recorded / "topics.parquet")
    assert table.schema.names == ["topic", "topic_id", "from", "partitions", "replica_racks"]
    assert table.schema.field("from").type == TIMESTAMP
    rows = table.to_pylist()
    first = {row["topic"]: row for row in reversed(rows)}
    last = {row["topic"]: row for row in rows}

    assert {topic: row["partitions"] for topic, row in first.items()} == {
        t: n for t, (n, _) in TOPICS.items()
    }
    for growth in GROWTHS:
        assert last[growth.topic]["partitions"] == growth.partitions
        assert last[growth.topic]["topic_id"] == first[growth.topic]["topic_id"]
        assert last[growth.topic]["from"] > first[growth.topic]["from"]
    assert first["orders"]["replica_racks"][:3] == [["a", "b"], ["b", "c"], ["c", "a"]]


def test_events_are_in_order_of_time_and_an_earlier_recording_is_replaced(recorded: Path) -> None:
    events = json.loads((recorded / "events.json").read_text())
    assert [event["at_ms"] for event in events] == sorted(event["at_ms"] for event in events)
    whats = {event["what"] for event in events if event["group"] == "checkout"}
    assert "start" in whats
    assert whats & set(Act)
    assert not (recorded / "of-an-earlier-recording").exists()
    assert "| checkout |" in (recorded / "README.md").read_text()
