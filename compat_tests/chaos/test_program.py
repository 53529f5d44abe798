"""The program of `make chaos` runs in an environment without pytest."""

from __future__ import annotations

import subprocess
import sys

from compat_tests.support.hang_limit import HANG_S


def test_the_program_needs_no_pytest() -> None:
    code = "import sys; sys.modules['pytest'] = None; "
    code += "from compat_tests.chaos.__main__ import main; main(['--help'])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert (done.returncode, "--minutes" in done.stdout) == (0, True), done.stderr
