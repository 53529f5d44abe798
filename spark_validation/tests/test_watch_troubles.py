"""The watch reports each kind of trouble once until it ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from compat_tests.support.hang_limit import HANG_S
from kafka_assignors.arguments import UserError
from kafka_assignors_confluent.connection import ClusterError, NotAuthorizedError, UnreachableError
from kafka_assignors_confluent.topic_metadata import DescribedTopics, TopicIdentity
from kafka_assignors_ops.watch import watcher
from kafka_assignors_ops.watch.fleet import Counts, Fleet, FleetLimits
from kafka_assignors_replay.catalogue import Catalogue
from spark_validation.tests.test_watch_fleet import feed, followed, groups, joined

REFUSED = UnreachableError("no answer from b:1 within 2 s: Connection refused (after 0ms in state CONNECT)")
SILENT = UnreachableError("no answer from b:1 within 2 s: look at the address")
RIGHT = NotAuthorizedError("cannot list groups: this principal needs Describe on Group 'g1'")
UNREADABLE = ClusterError("this principal needs Read on Topic '__consumer_offsets'")
OTHER_RIGHT = NotAuthorizedError("cannot list groups: this principal needs Describe on Group 'g2'")


SCRIPTS = {
    "one trouble in two texts, alternately": ([REFUSED, SILENT] * 50, [REFUSED]),
    "a right after an absent broker": ([SILENT, RIGHT, SILENT, RIGHT], [SILENT, RIGHT]),
    "two rights whose names differ in a figure": ([RIGHT, OTHER_RIGHT] * 50, [RIGHT, OTHER_RIGHT]),
    "ever new troubles": (
        [ClusterError("x" * number) for number in range(1, 101)],
        [ClusterError("x" * number) for number in range(1, 21)],
    ),
}


def test_a_trouble_that_comes_back_after_all_was_well_is_told_again() -> None:
    said: list[str] = []
    troubles = watcher.Troubles(said.append)
    for number in (1, 2):
        troubles.add(REFUSED, "trying again")
        troubles.add(SILENT, "trying again")
        assert said == [f"{REFUSED}; trying again"] * number
        assert troubles.clear()
        assert not troubles.clear()


class _Attempts(threading.Event):
    """An event that is set after `number` waits, none of which takes time."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.pauses: list[float] = []
        self._number = number

    def wait(self, timeout: float | None = None) -> bool:
        self.pauses.append(timeout or 0.0)
        if len(self.pauses) == self._number:
            self.set()
        return self.is_set()


@dataclass
class _Opening:
    """A reader that opens and fails when it reads, which is when brokers check the Read right."""

    error: BaseException = UNREADABLE

    def close(self) -> None:
        """There is nothing to close."""

    def poll(self, timeout_s: float) -> list[Any]:
        raise self.error


@pytest.mark.parametrize(("errors", "told"), SCRIPTS.values(), ids=SCRIPTS)
def test_a_watch_that_cannot_open_a_reader_says_why_once(
    errors: list[Exception], told: list[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    watch = watcher.Watcher(watcher.WatchOptions("b:1"), said.append)
    script = iter(errors)

    def fail() -> None:
        raise next(script)

    monkeypatch.setattr(watch, "_open", fail)
    watch.run(stop := _Attempts(len(errors)))
    assert said == [f"{error}; trying again until it succeeds" for error in told]
    assert watch.status().errors == len(errors)
    assert stop.pauses[:6] == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0][: len(errors)]


def test_a_reader_that_opens_and_cannot_read_is_no_recovery(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    watch = watcher.Watcher(watcher.WatchOptions("b:1"), said.append)
    monkeypatch.setattr(watch, "_open", _Opening)
    watch.run(stop := _Attempts(6))
    assert len(said) == 1
    assert stop.pauses == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    assert not watch.status().up


class _Down(_Opening):
    """A reader that librdkafka has told that all brokers are down."""

    down, unread = True, frozenset({0})

    @property
    def positions(self) -> dict[int, int]:
        return {0: 5}

    def poll(self, timeout_s: float) -> list[Any]:
        return []

    def lag(self) -> int:
        return 1


def test_a_single_look_ends_when_the_brokers_go_while_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = watcher.Watcher(watcher.WatchOptions("b:1", once=True), lambda text: None)

    def look() -> None:
        raise SILENT

    monkeypatch.setattr(watch, "_open", _Down)
    monkeypatch.setattr(watch, "_look", look)
    with pytest.raises(UserError, match="no answer from b:1"):
        watch.run(_Attempts(1))


def test_of_hidden_topics_only_those_of_the_groups_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    watch = watcher.Watcher(watcher.WatchOptions("b:1"), said.append)
    monkeypatch.setattr(watch, "_connection", lambda: None)
    monkeypatch.setattr(watcher, "live_topics", lambda connection: ())
    monkeypatch.setattr(
        watcher, "describe_topics", lambda connection, names: DescribedTopics(hidden=set(names))
    )
    for number in range(50):
        monkeypatch.setattr(watch._fleet, "topics", lambda number=number: {"all", f"job-{number}"})
        watch._look_at_topics()
    assert watch._hidden == {"all", "job-49"}
    assert sum("'all'" in each for each in said) == 1


def test_a_state_that_cannot_be_written_is_told_again_only_after_one_that_could(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    watch = watcher.Watcher(watcher.WatchOptions("b:1", state=tmp_path / "state.json"), said.append)
    watch._identity = TopicIdentity("c", "__consumer_offsets", "t", 1)
    watch._caught_up = True
    for fails in (True, True, False, True, True):
        watch._changed = True
        with monkeypatch.context() as broken:
            if fails:
                broken.setattr("os.fsync", _full)
            watch._save()
    assert len(said) == 2
    assert watch.status().errors == 4


def _full(descriptor: int) -> None:
    raise OSError(28, "No space left on device")


# The state file


def saved(file: Path) -> Fleet:
    fleet = followed()
    feed(fleet, joined("one", "two"))
    watcher.save_state(file, watcher.WatchState("c", "t", {0: 4}, counts_of(fleet)))
    return fleet


def counts_of(fleet: Fleet) -> dict[bytes, Counts]:
    return {key: group.counts for key, group in fleet.groups.items()}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state.json"


def load(file: Path) -> watcher.WatchState:
    state = watcher.load_state(file)
    assert state is not None
    return state


def identified(file: Path) -> watcher.Watcher:
    """A watch that knows its topic and has something to save."""
    watch = watcher.Watcher(watcher.WatchOptions("none:1", state=file), lambda text: None)
    watch._identity = TopicIdentity("c", "__consumer_offsets", "t", 1)
    watch._changed = True
    return watch


def test_a_state_that_cannot_be_written_leaves_the_file_as_it_was(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = saved(file)
    before = file.read_bytes()
    monkeypatch.setattr("os.fsync", _full)
    with pytest.raises(UserError, match="the state cannot be written: No space left on device"):
        watcher.save_state(file, watcher.WatchState("c", "t", {0: 9}, counts_of(fleet)))
    assert file.read_bytes() == before
    assert [*file.parent.iterdir()] == [file]


SAVES_HALF = """
import resource, signal, sys
from pathlib import Path
from kafka_assignors_ops.watch.watcher import load_state, save_state

file = Path(sys.argv[1])
state = load_state(file)
state.offsets[0] = 9
half = file.stat().st_size // 2
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_FSIZE, (half, half))
save_state(file, state)
"""
"""The kernel lets the process write half of the file, and then kills it."""


def test_a_kill_in_the_middle_of_a_write_leaves_the_old_file_and_at_most_one_other(file: Path) -> None:
    saved(file)
    before = file.read_bytes()
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", SAVES_HALF, str(file)], capture_output=True, text=True, timeout=HANG_S
        )
        assert done.returncode == -signal.SIGXFSZ, done.stderr
        assert file.read_bytes() == before
        (left_over,) = {*file.parent.iterdir()} - {file}
        assert left_over.stat().st_size == len(before) // 2
    state = load(file)
    assert state.offsets == {0: 4}
    state.offsets[0] = 9
    watcher.save_state(file, state)
    assert [*file.parent.iterdir()] == [file]
    assert load(file).offsets == {0: 9}


def test_a_link_in_the_place_of_the_other_file_is_not_followed(file: Path) -> None:
    elsewhere = file.with_name("elsewhere")
    elsewhere.write_text("precious")
    file.with_name("state.json.part").symlink_to(elsewhere)
    saved(file)
    assert elsewhere.read_text() == "precious"
    assert {*file.parent.iterdir()} == {file, elsewhere}


def test_a_link_to_the_file_stays(file: Path) -> None:
    link = file.parent / "folder" / "link"
    link.parent.mkdir()
    link.symlink_to(file)
    for _ in range(2):
        saved(link)
        assert load(file).offsets == {0: 4}
    assert link.is_symlink()
    assert [*link.parent.iterdir()] == [link]


CHANGES = {"format": 2}, {"offsets": {"0": None}}, {"more": 1}, {"counts": {"g": {"moved": "1"}}}


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b'{"format": 1}', b"\xff", b"[" * 100_000, *CHANGES])
def test_a_file_that_is_no_state_is_refused_with_a_remedy(file: Path, text: bytes | dict[str, Any]) -> None:
    saved(file)
    changed = (
        text if isinstance(text, bytes) else json.dumps({**json.loads(file.read_text()), **text}).encode()
    )
    file.write_bytes(changed)
    with pytest.raises(UserError, match=r"state.json: not the state of a watch: .*remove the file"):
        watcher.load_state(file)


def test_counts_go_on_for_groups_of_any_name_that_are_still_followed(file: Path) -> None:
    hostile = b"\xff\x00\n"
    fleet = followed()
    feed(fleet, joined("one", "two"))
    before = {**counts_of(fleet), hostile: Counts(7)}
    watcher.save_state(file, watcher.WatchState("c", "t", {0: 4}, before))
    state = load(file)
    assert state.counts == before
    again = Fleet(Catalogue(()), FleetLimits(matching=lambda name: name == "two"), counts=state.counts)
    feed(again, joined("one", "two"), history=True)
    feed(again, joined("two"))
    assert {name: group.counts.generations for name, group in groups(again).items()} == {"two": 4}


def test_a_log_that_was_truncated_or_deleted_meanwhile_is_told_and_read_from_where_it_is() -> None:
    told: list[str] = []
    watch = watcher.Watcher(watcher.WatchOptions("none:1"), told.append)
    known = {0: 10, 1: 10, 2: 10}
    ends = {0: (0, 20), 1: (15, 20), 2: (0, 7)}
    assert [watch._position(partition, known, *ends[partition]) for partition in ends] == [10, 15, 7]
    assert "[1]: the log begins at offset 15, and was read up to 10: 5 offsets were deleted" in told[0]
    assert "[2]: the log ends at offset 7, and was read up to 10: it was truncated" in told[1]


def test_after_an_unexpected_error_the_file_is_not_written(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = identified(file)
    watch._caught_up = True
    monkeypatch.setattr(watch, "_open", lambda: _Opening(MemoryError()))
    with pytest.raises(MemoryError):
        watch.run(threading.Event())
    assert not file.exists()
    watch._save()
    assert file.exists()


def test_before_all_groups_of_the_last_run_are_known_the_file_is_not_written(file: Path) -> None:
    saved(file)
    before = file.read_bytes()
    identified(file)._save()
    assert file.read_bytes() == before
