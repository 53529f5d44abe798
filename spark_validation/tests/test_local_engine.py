"""The local engine: its files, its processes, and its memory."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from compat_tests.support.hang_limit import HANG_S
from kafka_assignors_replay import local_engine
from kafka_assignors_replay.history.records import group_bytes
from kafka_assignors_replay.local_engine import LocalEngine
from kafka_assignors_replay.replay import run_replay
from kafka_assignors_replay.result import ReplayError, ReplayOptions
from kafka_assignors_replay.schemas import RAW
from spark_validation.tests.groups import Log, member, write_history

pytestmark = pytest.mark.exhaustive

GROUPS, VALUE = 40, 1_000


def options(folder: Path, records: int) -> ReplayOptions:
    """A history with this many records; a third of them belong to one group."""
    folder.mkdir()
    names = [group_bytes(f"group-{number % GROUPS if number % 3 else 0}") for number in range(records)]
    columns = {
        "partition": [0] * records,
        "offset": [*reversed(range(records))],
        "timestamp": [1_700_000_000_000_000] * records,
        "key": [b"\0\2" + len(name).to_bytes(2, "big") + name for name in names],
        "value": [number.to_bytes(VALUE, "big") for number in range(records)],
    }
    pq.write_table(pa.table(columns, RAW), folder / "raw.parquet")
    return ReplayOptions(path=str(folder))


def test_each_record_is_in_the_file_of_its_group_in_order(tmp_path: Path) -> None:
    given = options(tmp_path / "history", 6_000)
    with contextlib.ExitStack() as closing:
        engine = LocalEngine(given, frozenset(), lambda done, total: None, closing)
        engine.survey()
        offsets = []
        for number in engine._records.written():
            rows = [*local_engine._sorted(engine._records.paths[number])]
            assert rows == sorted(rows)
            offsets += [row[2] for row in rows]
        assert sorted(offsets) == [*range(6_000)]
        own = [*engine.records_of([b"group-1", b"group-2"])]
        assert {row[0] for row in own} == {b"group-1", b"group-2"}
        assert all(int.from_bytes(row[5] or b"", "big") == 5_999 - row[2] for row in own)


def peak(given: ReplayOptions) -> int:
    """The peak of allocated memory in bytes while the records are read, written, and read file by file."""
    tracemalloc.start()
    try:
        with contextlib.ExitStack() as closing:
            engine = LocalEngine(given, frozenset(), lambda done, total: None, closing)
            engine.survey()
            for number in engine._records.written():
                for _ in local_engine._sorted(engine._records.paths[number]):
                    pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_the_memory_does_not_grow_with_the_records(tmp_path: Path) -> None:
    few, many = 12_000, 24_000
    grown = peak(options(tmp_path / "many", many)) - peak(options(tmp_path / "few", few))
    assert grown < (many - few) * VALUE / 6


def test_an_error_names_the_place_for_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/no/such/directory")
    said = "/no/such/directory: records cannot be written there: No such file.*TMPDIR"
    with pytest.raises(ReplayError, match=said):
        run_replay(options(tmp_path / "history", 10), lambda _: None, engine="local")


@pytest.mark.parametrize("file", ["records", "details"])
def test_a_full_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    """`/dev/full` takes no byte."""
    path = write_history(tmp_path, story())
    if file == "details":
        monkeypatch.setattr(LocalEngine, "_detail", lambda engine, number: "/dev/full")
    else:
        os_file = pa.OSFile
        monkeypatch.setattr(pa, "OSFile", lambda path, mode: os_file("/dev/full", mode))
    with pytest.raises(ReplayError, match="records cannot be written there: No space left on device"):
        run_replay(ReplayOptions(path=path, strategies=("range",)), lambda _: None, engine="local")


def story() -> Log:
    log = Log()
    for number in range(1, 40):
        log.generation(
            "g", number, member(f"a{number}", gets={"orders": [0]}), member("b", gets={"orders": [1]})
        )
    return log


SLOW = """
import time
from kafka_assignors.strategies import Range

class Slow(Range):
    name = "slow"
    def assign(self, group):
        time.sleep(0.2)
        return super().assign(group)
"""

RUN = """
from kafka_assignors_replay.replay import run_replay
from kafka_assignors_replay.result import ReplayError, ReplayOptions
import sys
print("started", flush=True)
try:
    run_replay(
        ReplayOptions(sys.argv[1], strategies=(sys.argv[2],)),
        lambda step: print(step.number, flush=True),
        engine="local",
    )
except ReplayError as error:
    print(error)
except KeyboardInterrupt:
    print("interrupted")
"""
"""A program without `if __name__ == "__main__"`: no process of a replay runs it again."""


def workers_of(process: int) -> list[int]:
    """The child processes of it that fold groups."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [int(child) for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="children are found in /proc")
@pytest.mark.parametrize(
    ("number", "said"),
    [(signal.SIGKILL, "a process that replayed groups ended"), (signal.SIGINT, "interrupted")],
)
def test_a_killed_process_and_ctrl_c_end_a_replay_at_once(
    tmp_path: Path, number: signal.Signals, said: str
) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    program = tmp_path / "program.py"
    program.write_text(RUN)
    replay = subprocess.Popen(
        [sys.executable, program, write_history(tmp_path, story()), f"{tmp_path / 'slow.py'}:Slow"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    timer = threading.Timer(HANG_S, replay.kill)
    timer.start()
    assert replay.stdout is not None
    while replay.stdout.readline() != "3\n":
        assert replay.poll() is None
    while not (workers := workers_of(replay.pid)):
        time.sleep(0.01)
    time.sleep(1.0)
    if number == signal.SIGKILL:
        os.kill(workers[0], number)
    else:
        os.killpg(replay.pid, number)  # as a terminal does
    printed, errors = replay.communicate()
    timer.cancel()
    assert said in printed
    assert "started" not in printed
    assert errors == ""
