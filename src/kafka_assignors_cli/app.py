"""The commands of `kafka-assignors`, and how errors become exit codes."""

from __future__ import annotations

import errno
import os
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer

import kafka_assignors
from kafka_assignors_cli import archive, assign, check, groups, lint, replay, strategies, validate
from kafka_assignors_cli.console import emit, flush, note, stdout_failed
from kafka_assignors_cli.errors import CannotRun, ExitCode, PipeClosed

__all__ = ["app", "run"]

EPILOG = """Exit codes: 0 done; 1 kept for a verdict that fails; 2 bad input, or it cannot run, and one \
line on stderr says why; 70 an internal error: set KAFKA_ASSIGNORS_TRACEBACK=1 to see the traceback.

Data goes to stdout, everything else to stderr.
"""

TRACEBACK = "KAFKA_ASSIGNORS_TRACEBACK"
"""The environment variable that asks for the traceback of an internal error."""

app = typer.Typer(
    name="kafka-assignors",
    epilog=EPILOG,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(epilog=archive.EPILOG)(archive.archive)
app.command(epilog=assign.EPILOG)(assign.assign)
app.command("check", epilog=check.EPILOG)(check.check_assignments)
app.add_typer(groups.groups)
app.command("lint", epilog=lint.EPILOG)(lint.lint_members)
app.command(epilog=replay.EPILOG)(replay.replay)
app.command(epilog=strategies.EPILOG)(strategies.strategies)
app.command(epilog=validate.EPILOG)(validate.validate)

# typer brings its own copy of click from some version on, and names this class in neither.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


def _print_version(asked: bool) -> None:
    if asked:
        emit(f"kafka-assignors {kafka_assignors.__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Partition assignment for Kafka consumer groups.

    See what a strategy does with a group, look at the groups of a running cluster, judge a change of strategy
    before you roll it out, keep the history of your groups, replay it under other strategies, and hold the
    outcome against a policy.
    """


def run(arguments: Sequence[str]) -> int:
    """Run one command to its end and return its exit code."""
    try:
        code = _run(arguments)
        flush()
        if (
            code == ExitCode.INTERRUPTED
        ):  # Newer versions of typer make Ctrl-C an exit code, older ones abort.
            raise KeyboardInterrupt
        return int(code or ExitCode.OK)
    except CannotRun as error:
        return _fail(str(error))
    except _UsageError as error:
        return _fail(f"{_message(error)} (see {_command_path(error)} --help)")
    except (KeyboardInterrupt, typer.Abort):
        note("interrupted")
        return ExitCode.INTERRUPTED
    except PipeClosed:
        return ExitCode.PIPE_CLOSED
    except (Exception, SystemExit) as error:  # A strategy that is loaded may end the process, too.
        return _internal_error(error)


def _run(arguments: Sequence[str]) -> int | None:
    try:
        code: int | None = app(args=list(arguments), prog_name="kafka-assignors", standalone_mode=False)
        return code
    except OSError as error:
        # Help is not written by us, so nobody has asked yet why that failed.
        if error.errno not in (errno.ENOSPC, errno.EPIPE):
            raise
        raise stdout_failed(error) from None
    except SystemExit as error:
        # What rich and typer make of a closed pipe, with an exit code that is a verdict here.
        if not isinstance(error.__context__, BrokenPipeError):
            raise
        raise stdout_failed(error.__context__) from None


def _fail(message: str) -> int:
    note(f"error: {' '.join(message.split())}")
    return ExitCode.CANNOT_RUN


def _internal_error(error: BaseException) -> int:
    """Tell a defect from a verdict, which a traceback with Python's exit code 1 would look like."""
    wanted = bool(os.environ.get(TRACEBACK))
    if wanted:
        traceback.print_exception(error)
    hint = "" if wanted else f" (set {TRACEBACK}=1 to see the traceback)"
    note(f"internal error: {' '.join(f'{type(error).__name__}: {error}'.split())}{hint}")
    return ExitCode.INTERNAL_ERROR


def _message(error: Exception) -> str:
    message = str(getattr(error, "format_message", error.__str__)())
    message = message[:1].lower() + message[1:].rstrip(".")
    if message.startswith("no such command") and _command_path(error).endswith(" groups"):
        message += "; to look at a group: kafka-assignors groups describe GROUP"
    return message


def _command_path(error: Exception) -> str:
    context = getattr(error, "ctx", None)
    return context.command_path if context is not None else "kafka-assignors"
