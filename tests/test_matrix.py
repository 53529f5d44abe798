"""The report of a run of the test matrix: exactly the pairs that ran, and the exit code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from compat_tests.matrix import Result, read_results, summary

ROOT = Path(__file__).resolve().parent.parent

GOOD = Result("py310-aiokafka010", "3.10.16", "aiokafka 0.10.0", "4.4.0", 58, 0, 0, 0, 71.4, 0)
OLD_BROKER = Result("py313-aiokafka014-kafka39", "3.13.2", "aiokafka 0.14.0", "3.9.2", 57, 0, 0, 1, 70.0, 0)
BAD = Result(
    "py312-kafkapython30",
    "3.12.9",
    "kafka-python 3.0.12",
    "4.4.0",
    57,
    1,
    0,
    0,
    80.0,
    1,
    failures=("a.py::b: c",),
)
NOTHING = Result("py311-kafkapython30", "3.11.9", "kafka-python 3.0.12", "4.4.0", 0, 0, 0, 0, 0.1, 5)
PRE_RELEASE = Result(
    "py313-aiokafka015", "3.13.2", "aiokafka 0.15rc1", "4.4.0", 0, 3, 0, 0, 9.0, 1, may_fail=True
)


def test_the_summary_has_a_line_for_each_environment_and_counts_only_what_passed() -> None:
    lines = summary([GOOD, OLD_BROKER, BAD, NOTHING, PRE_RELEASE]).splitlines()
    assert [line.split("  ")[0] for line in lines[:5]] == [
        "ok",
        "ok",
        "FAILED",
        "FAILED",
        "failed, as it may",
    ]
    assert lines[1].endswith("57 passed, 1 left out  70 s")
    assert lines[5] == "py312-kafkapython30: a.py::b: c"
    assert lines[6] == "2 of 5 environments that finished their tests passed"


def test_environments_of_several_clients_are_no_pairs() -> None:
    interop = Result("py312-interop", "3.12.9", "", "4.4.0", 9, 0, 0, 0, 60.0, 0)
    assert "all clients" in summary([interop])


def test_a_run_forgets_the_results_of_the_one_before_and_keeps_the_exit_code(tmp_path: Path) -> None:
    GOOD.write(tmp_path)
    assert read_results(tmp_path) == [GOOD]
    script = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from compat_tests.matrix import Result; "
    script += f"from pathlib import Path; {BAD!r}.write(Path({str(tmp_path)!r})); sys.exit(3)"
    command = [
        sys.executable,
        "-m",
        "compat_tests.matrix",
        "run",
        str(tmp_path),
        sys.executable,
        "-c",
        script,
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 3
    assert GOOD.environment not in done.stdout
    assert "0 of 1 environments that finished their tests passed" in done.stdout
    assert read_results(tmp_path) == [BAD]
