"""Defects of a history are counted and reported in the result, the reports and on the terminal.

Sound groups are not affected. One history contains all defects and is replayed once.
"""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kafka_assignors_replay.history.generations import TORN
from kafka_assignors_replay.history.rebalances import RECORDS_LOST
from kafka_assignors_replay.replay_tables import print_replay
from kafka_assignors_replay.report.as_html import html_report
from kafka_assignors_replay.result import RECORDED
from spark_validation.tests.groups import ALL, HIGH, LOW, Log, member, write_history
from spark_validation.tests.replaying import Replayed, replay

GONE = {"gone": [0, 1]}


def bad() -> Log:
    """The groups `fine` and `fine-too` are sound; the name of every other group tells its defect."""
    log, other = Log(), Log(partition=1)
    log.three_generations("fine").three_generations("fine-too")

    second = log.three_generations("truncated").records[-2]
    second["value"] = second["value"][:-3]
    log.generation("truncated", 4, member("a", gets=LOW), member("b", gets=HIGH))

    second, third = log.three_generations("clock").records[-2:]
    second["timestamp"] += timedelta(days=2)
    third["timestamp"] -= timedelta(days=3)

    log.three_generations("made-again").tombstone("made-again")
    log.generation("made-again", 1, member("c", gets=ALL))

    log.generation("torn", 7, member("a", gets=ALL))
    other.generation("torn", 1, member("a", gets=ALL))
    other.generation("torn", 2, member("a", gets=LOW), member("b", gets=HIGH))

    log.generation("uncatalogued", 1, member("a", ("gone",), gets=GONE))
    worker = member("w")._replace(subscription=b"\0\1connect", assignment=b"")
    log.generation("connect", 1, worker, protocol="sessioned", kind="connect")

    one = log.three_generations("collided").records[-2]
    log.three_generations("collided-too").records[-2]["offset"] = one["offset"]
    epoch, target = log.assigns("collided-parts", 2, {}).records[-2:]
    target["offset"] = epoch["offset"]

    # Duplicates, as sinks write them after a crash.
    log.records += [dict(record) for record in log.records[:2]]
    log.records += other.records
    random.Random(5).shuffle(log.records)
    return log


def in_three_files(folder: Path, *, damaged: bool) -> str:
    """An eager group whose members claim nothing, with four generations in each file; the middle file is
    damaged, or its generations were never recorded."""
    raw, log = folder / "raw", Log()
    raw.mkdir(parents=True)
    shares = [{"a": LOW, "b": HIGH}, {"a": HIGH, "b": LOW}]
    for number in range(1, 13):
        gets = shares[number % 2]
        log.generation("payments", number, *(member(name, gets=share) for name, share in gets.items()))
    for first in (0, 4, 8):
        pq.write_table(log.table()[first : first + 4], raw / f"{first}.parquet")
    if damaged:
        (raw / "4.parquet").write_bytes(b"damaged")
    else:
        (raw / "4.parquet").unlink()
    return str(folder)


def recorded(replayed: Replayed, name: str) -> list[dict[str, Any]]:
    """The recorded verdicts of the group in both modes, without its name."""
    of_group = [each for each in replayed.figures(name) if each["strategy"] == RECORDED]
    assert len(of_group) == 2
    return [{**each, "group": ""} for each in of_group]


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    """The replay by the local engine; `test_engines` compares that on Spark with it."""
    path = write_history(tmp_path_factory.mktemp("bad"), bad(), {"orders": 4})
    # All groups are in the sample, so a plain loop checks the result of each.
    return Replayed(replay(path, strategies=("sticky",), sample_groups=10))


def test_sound_groups_are_replayed_as_if_bad_groups_were_absent(replayed: Replayed) -> None:
    assert recorded(replayed, "fine") == recorded(replayed, "fine-too")
    fine = recorded(replayed, "fine")[0]
    assert (fine["rebalances"], fine["moved"], fine["vacated"]) == (3, 2, 2)
    assert replayed.group("fine")["not_replayed"] == {}


def test_a_record_that_does_not_decode_is_listed_and_never_bridged(replayed: Replayed) -> None:
    (listed,) = (each for each in replayed.document["undecodable"] if each["group"] == "truncated")
    assert (listed["partition"], listed["offset"]) == (0, 7)
    truncated = replayed.group("truncated")
    assert truncated["not_replayed"] == {RECORDS_LOST: 1}
    assert (truncated["rebalances"], truncated["replayed_rebalances"]) == (3, 2)


def test_copies_count_once_and_the_order_of_rows_does_not_matter(replayed: Replayed) -> None:
    history = replayed.document["history"]
    assert (history["records"], history["duplicates"]) == (len(bad().records), 2)


def test_records_that_collide_are_not_chosen_between_nor_are_their_places_bridged(replayed: Replayed) -> None:
    listed = [each for each in replayed.document["undecodable"] if "two clusters" in each["reason"]]
    names = ["collided", "collided-too", "collided-parts", "collided-parts"]
    assert [each["group"] for each in listed] == names
    assert len({(each["partition"], each["offset"]) for each in listed}) == 2
    assert replayed.document["history"]["undecodable"] == 5
    for name in ("collided", "collided-too"):
        assert replayed.group(name)["not_replayed"] == {RECORDS_LOST: 1}


def test_a_group_in_two_partitions_is_not_put_in_an_order(replayed: Replayed) -> None:
    torn = replayed.group("torn")
    assert torn["not_replayed"] == {TORN: 3}
    assert (torn["replayed_rebalances"], torn["incarnations"], torn["skipped_numbers"]) == (0, 1, 0)


def test_a_clock_that_is_set_back_changes_no_figure(replayed: Replayed) -> None:
    assert recorded(replayed, "clock") == recorded(replayed, "fine")
    assert replayed.group("clock")["clock_jumps"] == 1
    assert replayed.document["history"]["clock_jumps"] == 1


def test_a_group_that_was_made_again_shares_nothing_with_what_it_was(replayed: Replayed) -> None:
    again = replayed.group("made-again")
    assert (again["incarnations"], again["rebalances"], again["replayed_rebalances"]) == (2, 4, 4)
    assert recorded(replayed, "made-again")[0]["vacated"] == 2


def test_a_topic_without_a_catalogue_entry_is_named(replayed: Replayed) -> None:
    assert replayed.group("uncatalogued")["inferred_topics"] == ["gone"]


def test_groups_of_other_protocol_types_are_counted_and_left_alone(replayed: Replayed) -> None:
    connect = replayed.group("connect")
    assert connect["not_replayed"] == {"members of protocol type 'connect' are no consumers": 1}
    assert not any(each["group"] == "connect" for each in replayed.document["undecodable"])


def test_the_terminal_and_the_report_say_all_of_it(
    replayed: Replayed, capsys: pytest.CaptureFixture[str]
) -> None:
    print_replay(replayed.result)
    printed = " ".join(capsys.readouterr().out.split())
    page = " ".join(html_report(replayed.result).split())
    for words in (f"3 rebalances not replayed: {RECORDS_LOST}", f"3 rebalances not replayed: {TORN}"):
        assert words in printed
    for words in (RECORDS_LOST, TORN, "created again", "gone", "set back"):
        assert words in printed
        assert words in page
    assert "2 records found more than once" in page


@pytest.mark.parametrize("damaged", [True, False])
def test_only_beside_files_that_were_left_out_a_gap_is_a_loss(tmp_path: Path, damaged: bool) -> None:
    made = Replayed(
        replay(in_three_files(tmp_path, damaged=damaged), strategies=("sticky",), skip_corrupt=True)
    )
    group = made.group("payments")
    assert (group["rebalances"], group["skipped_numbers"]) == (8, 4)
    assert group["not_replayed"] == ({RECORDS_LOST: 1} if damaged else {})
    # The members exchange their partitions each time; across the gap this cannot be seen.
    assert recorded(made, "payments")[0]["moved"] == (24 if damaged else 28)
