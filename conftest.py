"""Ends a test run that hangs, and prints where it hangs.

pytest-timeout limits each test by a signal, which raises in the main thread. Some hangs survive that: a call
into C that does not return, a task that refuses to be cancelled, a thread that another one joins, a client's
destructor. Therefore a second timer runs in C. When it expires, it prints the stack of each thread and ends
the process; the run has no result and counts as failed.
"""

from __future__ import annotations

import faulthandler
import os
import platform
import signal
import sys
from importlib import metadata
from pathlib import Path

import pytest

_GRACE_S = 180.0
"""Added to the limit of a test, for its cleanup and report; also the limit for the end of the process."""

# A failed assertion in these modules shows the compared values, as one in a test does.
pytest.register_assert_rewrite("compat_tests.scenarios", "compat_tests.soak", "compat_tests.support")

STDERR = pytest.StashKey[int]()

_COUNTED = ("passed", "failed", "error", "skipped", "xfailed", "xpassed", "deselected")
_RELEASES = ("aiokafka", "kafka-python", "confluent-kafka", "pyspark", "pyarrow")


def pytest_configure(config: pytest.Config) -> None:
    # A shell starts background jobs with SIGINT ignored, and commands under test would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # A copy, because pytest captures the standard error of the process while a test runs.
    config.stash[STDERR] = os.dup(sys.__stderr__.fileno() if sys.__stderr__ is not None else 2)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> object:
    own = item.get_closest_marker("timeout")
    limit_s = float(own.args[0] if own is not None else item.config.getini("timeout"))
    _strike_in(limit_s + _GRACE_S, item.config)
    try:
        return (yield)
    finally:
        _strike_in(_GRACE_S, item.config)


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    # pytest has just cancelled the timer, for debuggers; the failed test still needs its teardown.
    _strike_in(_GRACE_S, node.config)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """In tox, leave a line for the end of `make test`: which releases were tested, with how many tests."""
    folder, environment = os.environ.get("MATRIX_RESULTS"), os.environ.get("TOX_ENV_NAME")
    if folder and environment:
        counts = ((kind, len(found)) for kind, found in terminalreporter.stats.items() if kind in _COUNTED)
        installed = {each.name: each.version for each in metadata.distributions()}
        releases = ", ".join(f"{name} {installed[name]}" for name in _RELEASES if name in installed)
        result = ", ".join(f"{count} {kind}" for kind, count in sorted(counts, reverse=True))
        file = Path(folder, environment)
        file.parent.mkdir(parents=True, exist_ok=True)
        python = f"Python {platform.python_version()}"
        file.write_text(f"{environment:24}  {python:15}  {releases or '-':78}  {result}\n", encoding="utf-8")


def _strike_in(seconds: float, config: pytest.Config) -> None:
    """Set the only timer; it runs until it is set again or the process ends."""
    faulthandler.dump_traceback_later(seconds, file=config.stash[STDERR], exit=True)
