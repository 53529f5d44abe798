"""Runs a command and repeatedly stops all of its processes for some seconds, as a busy machine does.

    python -m tools.stalls .tools/bin/tox run -e py313-live

A test that fails under this tool depends on the speed of the machine. The tool also stops members and
brokers. It needs Linux.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import time

from benchmarks.process_tree import descendants, process_stat


def main() -> int:
    """Run the command, and return its exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--stall", type=float, default=7.0, help="seconds of each stall (7)")
    parser.add_argument("--least", type=float, default=12.0, help="fewest seconds between two stalls (12)")
    parser.add_argument("--most", type=float, default=25.0, help="most seconds between two stalls (25)")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if not options.command:
        parser.error("give the command to run")
    process = subprocess.Popen(options.command)
    while True:
        try:
            return process.wait(random.uniform(options.least, options.most))
        except subprocess.TimeoutExpired:
            _stall(options.stall)


def _stall(seconds: float) -> None:
    stopped: list[int] = []
    try:
        for _ in range(3):  # A running process may start another one while the others are being stopped.
            for process in descendants(os.getpid()):
                with contextlib.suppress(OSError):
                    # A process that a test has stopped itself must stay stopped.
                    if process_stat(process).state not in "TtZ":
                        os.kill(process, signal.SIGSTOP)
                        stopped.append(process)
        time.sleep(seconds)
    finally:
        random.shuffle(stopped)
        for process in stopped:
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGCONT)


if __name__ == "__main__":
    sys.exit(main())
