"""The command line in processes of its own that have already loaded it.

    done = run_command("groups", "--json", "-", "--bootstrap-server", kafka.bootstrap)

Loading the command line takes a second of CPU, more than most commands need. Each command runs in a process
that is forked (see `preloaded`): it has its own files and exit code, and may end as it likes. Tests of what a
command loads, and of signals and terminals, start Python anew.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from compat_tests.support import preloaded
from compat_tests.support.hang_limit import HANG_S


def run_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `kafka-assignors` with these arguments and an empty input; raises TimeoutExpired if it hangs."""
    with tempfile.TemporaryDirectory(prefix="command-") as folder:
        output, errors = Path(folder) / "output", Path(folder) / "errors"
        process = preloaded.start("kafka_assignors_cli", arguments, output, Path.cwd(), errors=errors)
        assert process.stdin is not None
        process.stdin.close()
        try:
            code = process.wait(HANG_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        return subprocess.CompletedProcess(arguments, code, output.read_text(), errors.read_text())
