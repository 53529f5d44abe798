"""The watch reports each kind of trouble once until it ends."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from kafka_assignors_confluent.connection import ClusterError, NotAuthorizedError, UnreachableError
from kafka_assignors_confluent.topic_metadata import TopicIdentity
from kafka_assignors_ops.watch.watcher import Troubles, Watcher, WatchOptions

REFUSED = UnreachableError("no answer from b:1 within 2 s: Connection refused (after 0ms in state CONNECT)")
SILENT = UnreachableError("no answer from b:1 within 2 s: look at the address")
RIGHT = NotAuthorizedError("cannot list groups: this principal needs Describe on Group 'g1'")
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
scripts = pytest.mark.parametrize(("errors", "told"), SCRIPTS.values(), ids=SCRIPTS)


@scripts
def test_each_kind_of_trouble_is_told_once_until_all_is_well(
    errors: list[Exception], told: list[Exception]
) -> None:
    said: list[str] = []
    troubles = Troubles(said.append)
    for _ in range(2):
        for error in errors:
            troubles.add(error, "trying again")
        assert said == [f"{error}; trying again" for error in told]
        assert troubles.clear()
        assert not troubles.clear()
        said.clear()


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


class _Opening:
    """A reader that opens and fails when it reads, which is when brokers check the Read right."""

    def close(self) -> None:
        """There is nothing to close."""

    def poll(self, timeout_s: float) -> list[Any]:
        raise ClusterError("this principal needs Read on Topic '__consumer_offsets'")


@scripts
def test_a_watch_that_cannot_open_a_reader_says_why_once(
    errors: list[Exception], told: list[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    watch = Watcher(WatchOptions("b:1"), said.append)
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
    watch = Watcher(WatchOptions("b:1"), said.append)
    monkeypatch.setattr(watch, "_open", _Opening)
    watch.run(stop := _Attempts(6))
    assert len(said) == 1
    assert stop.pauses == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    assert not watch.status().up


def test_a_state_that_cannot_be_written_is_told_again_only_after_one_that_could(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    watch = Watcher(WatchOptions("b:1", state=tmp_path / "state.json"), said.append)
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
