"""The report of a run of the test matrix: exactly the pairs that ran, and the exit code."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from compat_tests.matrix import Result, read_results

ROOT = Path(__file__).resolve().parent.parent

GOOD = Result("py310-aiokafka010", "3.10.16", "aiokafka 0.10.0", "4.4.0", 58, 0, 0, 0, 71.4, 0)
BAD = replace(GOOD, environment="py312", failed=1, exit_code=1, failures=("a.py::b: c",))


def test_a_run_forgets_the_results_of_the_one_before_and_keeps_the_exit_code(tmp_path: Path) -> None:
    GOOD.write(tmp_path)
    assert read_results(tmp_path) == [GOOD]
    script = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from compat_tests.matrix import Result; "
    script += f"from pathlib import Path; {BAD!r}.write(Path({str(tmp_path)!r})); sys.exit(3)"
    command = [sys.executable, "-m", "compat_tests.matrix", "run", str(tmp_path)]
    command += [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 3
    assert GOOD.environment not in done.stdout
    assert "0 of 1 environments that finished their tests passed" in done.stdout
    assert read_results(tmp_path) == [BAD]
