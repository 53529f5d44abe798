"""A process that a nursery starts behaves like one that was started directly."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.preloaded import Nursery, PreloadedProcess
from compat_tests.support.processes import Processes

PROGRAM = "a_program"
CODE = """
import os, sys
print(sys.argv[1:], os.getcwd(), os.getsid(0) == os.getpid(), __name__, flush=True)
for line in sys.stdin:
    print("told", line.strip(), flush=True)
    if line.startswith("variable"):
        print("variable", os.environ.get(line.split()[1]), flush=True)
    if line.startswith("end"):
        raise SystemExit(int(line.split()[1]))
"""


@pytest.fixture(scope="module")
def a_nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    folder = tmp_path_factory.mktemp("programs")
    (folder / f"{PROGRAM}.py").write_text(CODE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]))
        nursery = Nursery()
        yield nursery
        nursery.end()


def start(nursery: Nursery, folder: Path, *arguments: str) -> tuple[PreloadedProcess, Path]:
    log = folder / "log"
    return nursery.start(PROGRAM, arguments, log, folder), log


def tell(process: PreloadedProcess, line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n".encode())
    process.stdin.flush()


def wait_for(log: Path, text: str) -> None:
    deadline = time.monotonic() + HANG_S
    while text not in log.read_text():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.01)


def test_a_preloaded_process_has_arguments_folder_session_input_and_exit_code(
    a_nursery: Nursery, tmp_path: Path
) -> None:
    process, log = start(a_nursery, tmp_path, "one", "two words")
    assert process.poll() is None
    tell(process, "something")
    tell(process, "end 7")
    assert process.wait(HANG_S) == process.returncode == 7
    assert log.read_text().splitlines() == [
        f"['one', 'two words'] {tmp_path} True __main__",
        "told something",
        "told end 7",
    ]


def test_a_process_with_the_number_of_one_that_has_ended_runs(a_nursery: Nursery, tmp_path: Path) -> None:
    process, _ = start(a_nursery, tmp_path)
    tell(process, "end 7")
    assert process.wait(HANG_S) == 7
    # Process ids count up and wrap around at the maximum.
    numbers = {*range(process.pid, process.pid + 10_000), *range(1, 10_000)}
    a_nursery._exit_codes.update(dict.fromkeys(numbers, 7))
    again, _ = start(a_nursery, tmp_path)
    assert again.pid in numbers
    assert again.poll() is None
    tell(again, "end 0")
    assert again.wait(HANG_S) == 0


def test_signals_reach_it_and_show_in_its_exit_code(a_nursery: Nursery, tmp_path: Path) -> None:
    process, log = start(a_nursery, tmp_path)
    wait_for(log, "True")
    process.send_signal(signal.SIGSTOP)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.1)
    process.kill()
    assert process.wait(HANG_S) == -signal.SIGKILL
    process.kill()


def test_preloaded_process_that_raises_ends_with_code_1_and_logs_the_error(
    a_nursery: Nursery, tmp_path: Path
) -> None:
    process, log = start(a_nursery, tmp_path)
    tell(process, "end with an error")
    assert process.wait(HANG_S) == 1
    assert "ValueError" in log.read_text()


def test_standard_error_may_have_a_file_of_its_own_and_variables_are_those_of_one_process(
    a_nursery: Nursery, tmp_path: Path
) -> None:
    log, errors = tmp_path / "log", tmp_path / "errors"
    process = a_nursery.start(PROGRAM, [], log, tmp_path, errors=errors, environment={"OF_ONE": "value"})
    tell(process, "variable OF_ONE")
    tell(process, "end with an error")
    assert process.wait(HANG_S) == 1
    assert "variable value" in log.read_text()
    assert "ValueError" not in log.read_text()
    assert "ValueError" in errors.read_text()
    other, log = start(a_nursery, tmp_path)
    tell(other, "variable OF_ONE")
    tell(other, "end 0")
    assert other.wait(HANG_S) == 0
    assert "variable None" in log.read_text()


def test_preloaded_process_outlives_the_nursery(tmp_path: Path, a_nursery: Nursery) -> None:
    code = """
import sys
from pathlib import Path
from compat_tests.support.preloaded import nursery
started = nursery().start(sys.argv[1], [], Path("log"), Path.cwd())
print(started.pid)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, PROGRAM],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=True,
    )
    # Its input ended with the process that held the other end.
    assert int(done.stdout) > 0
    wait_for(tmp_path / "log", "__main__")


def test_words_that_no_longer_reached_it_do_not_disturb_cleaning_up(tmp_path: Path) -> None:
    with Processes() as processes:
        process = processes.start_preloaded(
            "compat_tests.support.preloaded", ["missing"], tmp_path / "log", cwd=tmp_path
        )
        process.wait(HANG_S)
        assert process.stdin is not None
        process.stdin.write(b"too late\n")
        with pytest.raises(BrokenPipeError):
            process.stdin.flush()
        # The end of the block closes the pipe.
    assert process.stdin.closed
