"""The figures of the pause benchmark, on journals small enough to compute by hand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.pause.figures import (
    Occurrence,
    Recording,
    deliveries_by_partition,
    figures,
    handovers,
    longest_gaps_ms,
    lost_records,
)
from benchmarks.pause.journal import JournalReader, JournalWriter, Kind, Row

MS = 1_000_000
ROOT = Path(__file__).resolve().parents[1]


def delivered(at_ms: int, partition: int, offset: int, late_ms: int = 5) -> Row:
    return Row(at_ms * MS, (at_ms - late_ms) * MS, offset, partition, Kind.DELIVERED)


def told(at_ms: int, kind: Kind, *partitions: int) -> list[Row]:
    return [Row(at_ms * MS, 0, -1, partition, kind) for partition in partitions]


def occurs(event: str, begin_ms: int, end_ms: int, *, joined: str | None = None) -> Occurrence:
    return Occurrence(event, begin_ms * MS, end_ms * MS, begin_ms * MS, end_ms * MS, None, joined)


A_JOIN = {
    # a owns partitions 0 and 1; from 1000 on, b owns 1.
    "a": [
        *told(0, Kind.ASSIGNED, 0, 1),
        *(delivered(at, 0, at // 100 - 1) for at in range(100, 2000, 100)),
        *(delivered(at, 1, at // 100 - 1) for at in range(100, 1000, 100)),
        *told(950, Kind.REVOKED, 1),
    ],
    "b": [*told(1000, Kind.ASSIGNED, 1), *(delivered(at, 1, at // 100 - 1) for at in range(1050, 2000, 100))],
}


def test_the_reader_of_a_journal_finds_what_the_writer_tells_while_it_tells_it(tmp_path: Path) -> None:
    reader = JournalReader(tmp_path / "journal")
    assert reader.new_rows() == []
    writer = JournalWriter(tmp_path / "journal")
    writer.add(Kind.READY)
    writer.add(Kind.ASSIGNED, [3, 5])
    told_rows = [(row.kind, row.partition) for row in reader.new_rows()]
    assert told_rows == [(Kind.READY, -1), (Kind.ASSIGNED, 3), (Kind.ASSIGNED, 5)]
    writer.delivered(5, 2**40, (7).to_bytes(8, "little"))
    (row,) = reader.new_rows()
    assert (row.kind, row.partition, row.offset, row.produced_ns) == (Kind.DELIVERED, 5, 2**40, 7)


@pytest.mark.parametrize(
    ("times_ms", "begin_ms", "end_ms", "next_ms", "longest"),
    [
        pytest.param((0, 50, 200, 230), 0, 230, 230, 150, id="the longest"),
        pytest.param((0, 10, 120, 130, 140), 100, 140, 140, 110, id="begun before the window: as a whole"),
        pytest.param((0, 50, 100, 900), 0, 200, 1000, 800, id="ended after the window: up to its end"),
        pytest.param((0, 50, 100, 900), 0, 200, 300, 200, id="ended after the next event: up to that"),
        pytest.param((), 100, 200, 300, 200, id="no delivery: all the time"),
    ],
)
def test_the_longest_gap_of_a_partition(
    times_ms: tuple[int, ...], begin_ms: int, end_ms: int, next_ms: int, longest: int
) -> None:
    deliveries = deliveries_by_partition({"a": [delivered(at, 0, at) for at in times_ms]})
    assert longest_gaps_ms(deliveries, [0], begin_ms * MS, end_ms * MS, next_ms * MS) == [longest]


def test_the_delay_of_a_hand_over_counts_from_the_revocation_or_the_last_delivery_of_the_dead() -> None:
    (one,) = handovers(A_JOIN, deliveries_by_partition(A_JOIN))
    assert (one.partition, one.old, one.new) == (1, "a", "b")
    assert (one.given_up_ns, one.first_ns) == (950 * MS, 1050 * MS)
    rows = {name: [row for row in journal if row.kind != Kind.REVOKED] for name, journal in A_JOIN.items()}
    (one,) = handovers(rows, deliveries_by_partition(rows))
    assert one.given_up_ns == 900 * MS


RECORDING = Recording(
    "peer", 2, [occurs("none", 100, 900), occurs("join", 900, 1900, joined="b")], A_JOIN, cpu={"rest": 2.0}
)


def test_the_figures_of_a_join() -> None:
    none, join = figures(RECORDING)
    assert (none.moved, none.least, none.revoked) == (0, 0, 0)
    assert list(none.gaps_ms) == [100, 100]
    assert (join.moved, join.least, join.revoked, join.duplicates) == (1, 1, 1, 0)
    assert list(join.gaps_ms) == [100], "only partition 0 stays"
    assert list(join.delays_ms) == [100]


def test_a_record_that_comes_twice_counts_where_it_comes_again() -> None:
    rows = {**A_JOIN, "b": [*A_JOIN["b"], delivered(1999, 1, 3)]}
    recording = Recording("peer", 2, [occurs("none", 0, 900), occurs("join", 900, 2000)], rows)
    assert [one.duplicates for one in figures(recording)] == [0, 1]


def test_lost_records_are_those_before_one_that_came() -> None:
    rows = {"a": [delivered(10, 0, 0), delivered(20, 0, 3), delivered(30, 1, 0)]}
    assert lost_records(deliveries_by_partition(rows)) == 2


WRITER = """
import sys, time
from pathlib import Path
from benchmarks.pause.journal import JournalWriter
journal = JournalWriter(Path(sys.argv[1]))
for offset in range(int(sys.argv[2])):
    journal.delivered(5, offset, (7).to_bytes(8, "little"))
    time.sleep(0)  # The reader catches up, and meets the row that is being written.
"""


def test_a_row_that_is_read_while_it_is_written_is_whole(tmp_path: Path) -> None:
    rows, file, found = 60_000, tmp_path / "journal", list[Row]()
    reader = JournalReader(file)
    with subprocess.Popen([sys.executable, "-c", WRITER, str(file), str(rows)], cwd=ROOT) as writer:
        while writer.poll() is None:
            found += reader.new_rows()
    found += reader.new_rows()
    assert [row[1:] for row in found] == [(7, offset, 5, Kind.DELIVERED) for offset in range(rows)]
    assert min(row.at_ns for row in found) > 0
