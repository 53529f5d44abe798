"""Ends a test run that hangs, and says where.

A test's own limit (pytest-timeout, by a signal) raises in the main thread. That is too late or too little for
what hangs below Python, or while it cleans up after that limit: an event loop that waits for a task which
does not let itself be cancelled, a thread that is waited for, a client's destructor. So a second clock runs
in C: when it strikes, it prints the stack of each thread and ends the process, which leaves no result and
counts as failed.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys

import pytest

_GRACE_S = 180.0
"""Beyond the limit of a test: to clean up and to say what failed; and for the end of the process."""

# An assertion that fails in these says what it compared, as one in a test does.
pytest.register_assert_rewrite("compat_tests.scenarios", "compat_tests.support")

STDERR = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    # A shell starts background jobs with SIGINT ignored, and commands under test would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # A copy: what the process itself calls standard error is captured while a test runs.
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
    # pytest has just switched the clock off, for a debugger's sake; a failed test is still to be torn down.
    _strike_in(_GRACE_S, node.config)


def _strike_in(seconds: float, config: pytest.Config) -> None:
    """Set the one clock that there is; it goes on until it is set again or the process has ended."""
    faulthandler.dump_traceback_later(seconds, file=config.stash[STDERR], exit=True)
