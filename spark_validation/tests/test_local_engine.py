"""The local engine: its files, its processes, and its memory."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import tempfile
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
from spark_validation.tests.groups import Log, write_history
from spark_validation.tests.replaying import replay

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


def peak(given: ReplayOptions) -> int:
    """The peak of allocated memory in bytes while the records are read, written, and read file by file."""
    tracemalloc.start()
    try:
        with contextlib.ExitStack() as closing:
            engine = LocalEngine(given, frozenset(), lambda done, total: None, closing)
            engine.survey()
            for path in engine._records.written():
                for _ in local_engine._sorted(path):
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


def test_a_full_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`/dev/full` takes no byte."""
    path, os_file = write_history(tmp_path, Log().three_generations("g")), pa.OSFile
    monkeypatch.setattr(pa, "OSFile", lambda path, mode: os_file("/dev/full", mode))
    with pytest.raises(ReplayError, match="records cannot be written there: No space left on device"):
        replay(path, strategies=("range",))


PROGRAM = """
import sys
from kafka_assignors_replay.replay import run_replay
from kafka_assignors_replay.result import ReplayOptions
print("started", flush=True)
run_replay(ReplayOptions(sys.argv[1], strategies=("range",)), lambda _: None, engine="local")
"""
"""A program without `if __name__ == "__main__"`."""


def test_no_process_of_a_replay_runs_its_program_again(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, program, write_history(tmp_path, Log().three_generations("g"))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "started\n", "")


def test_ctrl_c_while_processes_start_is_for_this_process_alone_and_not_lost() -> None:
    blocked = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))"

    def start() -> None:
        with local_engine._alone():
            child = subprocess.run([sys.executable, "-c", blocked], capture_output=True, check=True)
            assert child.stdout == b"True\n"
            signal.raise_signal(signal.SIGINT)  # `os.kill` may choose a thread that does not block it.

    with pytest.raises(KeyboardInterrupt):
        start()
