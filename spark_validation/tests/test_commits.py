"""Thinned offset commits: the last of each interval, however the reading is split, and with any bytes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_assignors_replay.folds import rates
from kafka_assignors_replay.folds.consumer_offsets import (
    OffsetCommit,
    OffsetCommitKey,
    encode_key,
    encode_offset_commit,
)
from kafka_assignors_replay.folds.rates import CommitThinner, KeptCommit

S = 1_000_000
INTERVAL_S = 60
Record = tuple[int, int, bytes, "bytes | None"]


def key(topic: str = "orders", partition: int = 0, group: str = "g", version: int = 1) -> bytes:
    return encode_key(OffsetCommitKey(group, topic, partition, version))


def value(committed: int) -> bytes:
    return encode_offset_commit(OffsetCommit(3, committed, "", 0))


def thinned(records: Sequence[Record], interval_s: int = INTERVAL_S) -> tuple[list[KeptCommit], int]:
    thinner = CommitThinner(interval_s)
    kept: list[KeptCommit] = []
    for record in records:
        thinner.add(*record)
        if thinner.full:
            kept += thinner.take()
    kept += thinner.take()
    assert thinner.kept == len(kept)
    return kept, thinner.undecodable


def last_ones(records: Sequence[Record]) -> list[KeptCommit]:
    """The commits that a plain loop over the whole log keeps, by definition."""
    last: dict[object, KeptCommit] = {}
    for offset, micros, of_key, of_value in records:
        partition = int.from_bytes(of_key[-4:], "big")
        committed = None if of_value is None else int.from_bytes(of_value[2:10], "big")
        last[partition, micros // (INTERVAL_S * S)] = KeptCommit(
            offset, micros, "g", "orders", partition, committed
        )
    return sorted(last.values())


steps = st.tuples(st.integers(-30 * S, 90 * S), st.integers(0, 2), st.none() | st.integers(0, 2**63 - 1))


@st.composite
def logs(draw: st.DrawFn) -> list[Record]:
    """Commits of three partitions, at times that mostly advance and sometimes go back."""
    records: list[Record] = []
    micros = draw(st.integers(-S, 10**15))
    for offset, (step, partition, committed) in enumerate(draw(st.lists(steps, max_size=40))):
        micros += step
        version = draw(st.integers(0, 1))
        of_value = None if committed is None else value(committed)
        records.append((offset, micros, key(partition=partition, version=version), of_value))
    return records


@given(logs())
def test_the_last_commit_of_each_interval_stays_also_if_it_is_a_tombstone(records: list[Record]) -> None:
    assert thinned(records) == (last_ones(records), 0)


@given(logs(), st.lists(st.integers(0, 40), max_size=5))
def test_readings_cut_anywhere_come_to_the_same_series(records: list[Record], cuts: list[int]) -> None:
    places = sorted({0, *(min(cut, len(records)) for cut in cuts), len(records)})
    kept = [commit for begin, end in pairwise(places) for commit in thinned(records[begin:end])[0]]
    # A later commit of an interval replaces only an earlier one of the same interval.
    again = [
        (each.offset, each.micros, key(partition=each.topic_partition), _bytes(each.committed))
        for each in kept
    ]
    assert thinned(again)[0] == last_ones(records)
    assert len(kept) <= len(last_ones(records)) + 3 * max(0, len(places) - 2)


def _bytes(committed: int | None) -> bytes | None:
    return None if committed is None else value(committed)


HOSTILE: tuple[tuple[bytes, bytes | None], ...] = (
    (b"\0\1", value(1)),
    (b"\0\1\xff\xff", value(1)),
    (b"\0\1\0\1\xed\0\1o\0\0\0\0", value(1)),  # not UTF-8
    (key()[:-1], value(1)),
    (key() + b"x", value(1)),
    (key(partition=0)[:-4] + b"\xff\xff\xff\xff", value(1)),
    (key()[:-1], None),
    (key(), b""),
    (key(), value(1)[:-1]),
    (key(), value(1) + b"x"),
    (key(), b"\0\5" + value(1)[2:]),
    (key(), b"\0\3" + b"\xff" * 8 + value(1)[10:]),  # a negative offset
    (key(), b"\0\4" + value(1)[2:14] + b"\xff\xff\xff\xff\x0f"),
)


@pytest.mark.parametrize(("of_key", "of_value"), HOSTILE)
def test_a_commit_that_does_not_decode_is_counted_and_hides_no_other(
    of_key: bytes, of_value: bytes | None
) -> None:
    fine = (0, 0, key(), value(7))
    kept, undecodable = thinned([fine, (1, 1, of_key, of_value), (2, 2, of_key, of_value)])
    assert kept == [KeptCommit(0, 0, "g", "orders", 0, 7)]
    assert undecodable == 2


@given(st.binary(max_size=40), st.none() | st.binary(max_size=40))
def test_no_bytes_break_the_thinning(of_key: bytes, of_value: bytes | None) -> None:
    kept, undecodable = thinned([(0, 0, b"\0\1" + of_key, of_value)])
    assert len(kept) + undecodable == 1


def test_the_commits_in_hand_are_bounded_and_so_are_the_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "_MOST_BYTES", 10_000)
    monkeypatch.setattr(rates, "_MOST_KEYS", 8)
    thinner = CommitThinner(INTERVAL_S)
    for number in range(1_000):
        thinner.add(number, number, key(partition=number), value(number))
        assert len(thinner._last) <= 10_000 // 500 + 1
        assert len(thinner._keys) <= 8
        if thinner.full:
            thinner.take()
    thinner.take()
    assert thinner.kept == 1_000
