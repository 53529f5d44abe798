"""The programs of `make chaos` and `make soak` run in environments without pytest."""

from __future__ import annotations

import subprocess
import sys

import pytest

from compat_tests.support.hang_limit import HANG_S


@pytest.mark.parametrize("program", ["compat_tests.chaos", "compat_tests.soak"])
def test_a_program_needs_no_pytest(program: str) -> None:
    code = f"import sys; sys.modules['pytest'] = None; from {program}.__main__ import main; main(['--help'])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert (done.returncode, "--minutes" in done.stdout) == (0, True), done.stderr
