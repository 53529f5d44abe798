"""How a command ends: its exit codes, and the exceptions that lead to them."""

from __future__ import annotations

import enum

__all__ = ["CannotRun", "ExitCode", "PipeClosed"]


class ExitCode(enum.IntEnum):
    """What the process tells its caller."""

    OK = 0
    VERDICT_FAILED = 1
    """It ran, and the answer is no. Nothing else ends with 1."""
    CANNOT_RUN = 2
    """Bad input, or something missing: one line on stderr says what."""
    INTERNAL_ERROR = 70
    """A defect in this program or in code that it was told to load; EX_SOFTWARE of sysexits.h."""
    INTERRUPTED = 130
    """Ctrl-C; as a shell reports SIGINT."""
    PIPE_CLOSED = 141
    """Whoever read our output stopped reading; as a shell reports SIGPIPE."""


class CannotRun(Exception):
    """The command cannot do what it was asked. The message is one line: what is wrong, where, what to do."""


class PipeClosed(Exception):
    """Nobody reads our output any more."""
