"""What is read in one go is what is read field by field, or is left to it."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kafka_assignors.wire import (
    GroupMetadata,
    GroupMetadataKey,
    Subscription,
    encode_group_metadata,
    encode_key,
    encode_subscription,
)
from kafka_assignors_spark.folds.fast_decode import FastDecoder, GenerationTotals, totals_of
from kafka_assignors_spark.folds.records import RecordKind, decode_record
from spark_validation.fleet.life import life
from spark_validation.fleet.profile import FleetOptions, generations_of_each, profile_of
from spark_validation.tests.conftest import RECORDED
from spark_validation.tests.groups import member

FLEET = FleetOptions(groups=30, generations=600, days=0.05, seed=3)


def field_by_field(key: bytes, value: bytes) -> GenerationTotals | None:
    event = decode_record(key, value)
    if event.kind is RecordKind.UNDECODABLE or event.reason is not None:
        return None
    assert event.protocol_type is not None
    assert event.version is not None
    assert event.generation is not None
    members = totals_of(event.members)
    return event.protocol_type, event.version, event.generation, event.protocol, event.leader, members


def recorded(path: Path = RECORDED) -> list[tuple[bytes, bytes]]:
    rows = pq.read_table(path / "raw", columns=["key", "value"]).to_pylist()
    return [(row["key"], row["value"]) for row in rows if row["value"] and (row["key"] or b"")[:2] == b"\0\2"]


def of_the_fleet() -> list[tuple[bytes, bytes]]:
    quotas = generations_of_each(FLEET)
    return [
        (record.key, record.value)
        for index in range(FLEET.groups)
        for record in life(FLEET, profile_of(FLEET, index, quotas[index]))
        if record.value is not None
    ]


@pytest.mark.parametrize("records", [recorded, of_the_fleet])
def test_a_summary_is_that_of_the_decoded_record(records) -> None:  # type: ignore[no-untyped-def]
    decoder = FastDecoder()
    left = 0
    for key, value in records():
        decoded = decoder.decode(value)
        left += decoded is None
        assert decoded is None or decoded == field_by_field(key, value)
    # Version 4 and member data of ours are the only ones that have to be decoded.
    assert left < len(records()) / 4


def test_broken_records_are_left_to_who_can_say_what_is_wrong() -> None:
    rng = random.Random(1)
    decoder = FastDecoder()
    outcomes = set()
    for key, value in rng.sample(recorded(), 150) + rng.sample(of_the_fleet(), 150):
        decoder.decode(value)  # what is known again must not hide what is broken
        for _ in range(5):
            broken = bytearray(value)
            for _ in range(rng.choice((1, 1, 2))):
                place = rng.randrange(len(broken))
                broken[place] = rng.choice((0, 255, broken[place] ^ 1, rng.randrange(256)))
            if rng.random() < 0.3:
                del broken[rng.randrange(len(broken)) :]
            decoded = decoder.decode(bytes(broken))
            outcomes.add(decoded is None)
            assert decoded is None or decoded == field_by_field(key, bytes(broken)), broken.hex()
    assert outcomes == {True, False}


@pytest.mark.parametrize("version", range(4))
def test_a_length_in_a_subscription_reaches_no_further_than_the_subscription(version: int) -> None:
    whole = encode_subscription(Subscription(version, ("orders",), b"abc"))
    at = whole.index(b"\0\0\0\3abc") + 3
    for length in (0, 2, 4, 40, 255):
        changed = whole[:at] + bytes([length]) + whole[at + 1 :]
        joined = replace(member("a", gets={"orders": [0]}), subscription=changed)
        value = encode_group_metadata(GroupMetadata(3, "consumer", 1, "range", "a", (joined,)))
        decoded = FastDecoder().decode(value)
        assert decoded is None or decoded == field_by_field(encode_key(GroupMetadataKey("g")), value)
        if length > 3 and version == 0:
            assert decoded is None


def test_what_is_known_of_one_version_is_not_taken_for_another() -> None:
    """The same member in values of each version, whose layouts differ."""
    decoder = FastDecoder()
    joined = member("a", gets={"orders": [0]})
    key = encode_key(GroupMetadataKey("g"))
    for version in (3, 0, 1, 2, 0, 3, 1):
        plain = replace(joined, rebalance_timeout_ms=joined.rebalance_timeout_ms if version else -1)
        value = encode_group_metadata(GroupMetadata(version, "consumer", 1, "range", "a", (plain,)))
        assert decoder.decode(value) == field_by_field(key, value)


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_assignors_spark.folds.fast_decode._MOST_KEPT", 3)
    decoder = FastDecoder()
    for key, value in of_the_fleet():
        decoded = decoder.decode(value)
        assert decoded is None or decoded == field_by_field(key, value)
    kept = [value for value in vars(decoder).values() if isinstance(value, (dict, set))]
    assert len(kept) == 8
    assert all(len(each) <= 3 for each in kept)
