"""The commands of `kafka-assignors`, as packages register them, and how errors become exit codes."""

from __future__ import annotations

import errno
import os
import sys
import traceback as tracebacks
from collections.abc import Sequence
from contextvars import ContextVar
from importlib.metadata import entry_points
from typing import Annotated

import typer

import kafka_assignors
from kafka_assignors.arguments import UserError
from kafka_assignors_cli.console import ExitCode, PipeClosed, emit, flush, note, stdout_failed

EPILOG = """Exit codes: 0 done; 1 a check failed, never used for errors; 2 bad input, or the command cannot \
run, and one line on stderr says why; 70 an internal error: --traceback or KAFKA_ASSIGNORS_TRACEBACK=1 \
shows the traceback.

Data goes to stdout, everything else to stderr.
"""

TRACEBACK = "KAFKA_ASSIGNORS_TRACEBACK"
"""The environment variable that turns on the traceback of an internal error, as --traceback does."""

COMPLETION = "_KAFKA_ASSIGNORS_COMPLETE"
"""The environment variable in which a shell's completion script asks; typer derives its name."""

_shows_traceback: ContextVar[bool] = ContextVar("_shows_traceback", default=False)

COMMANDS = "kafka_assignors.commands"
"""The group of entry points in which packages register commands. Each loads a function that takes the
`typer.Typer` and adds its command."""

# Newer versions of typer contain a copy of click, and no version exports this class.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


def _print_version(*, asked: bool) -> None:
    if asked:
        emit(f"kafka-assignors {kafka_assignors.__version__}")
        raise typer.Exit


def _main(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
    traceback: Annotated[
        bool,
        typer.Option(
            "--traceback", help="Show the traceback of an internal error. It goes before the command."
        ),
    ] = False,
) -> None:
    """Partition assignment for Kafka consumer groups.

    Assign the partitions of a group, inspect or watch the groups of a running cluster, check a change of
    strategy before you roll it out, keep the history of your groups, replay it under other strategies, and
    check the result against a policy.
    """
    if traceback:
        _shows_traceback.set(True)


def command_line(arguments: Sequence[str] = ()) -> typer.Typer:
    """The commands that are installed; if `arguments` name any, only those, because imports take time."""
    app = typer.Typer(
        name="kafka-assignors",
        epilog=EPILOG,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_main)
    installed = sorted(entry_points(group=COMMANDS), key=lambda each: each.name)
    if not installed:
        raise UserError("no commands: this is no installation, or an older one; pip install kafka-assignors")
    for entry in [each for each in installed if each.name in arguments] or installed:
        try:
            add_to = entry.load()
        except Exception as error:  # It may be another package's.
            note(f"command {entry.name} is left out: {entry.value} does not load: {error!r}")
        else:
            add_to(app)
    return app


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    _shows_traceback.set(bool(os.environ.get(TRACEBACK)))
    # Python has None for a stream that is closed: data are then an error, and notes must not follow them.
    sys.stdout = sys.stdout or open(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    try:
        code = _run(arguments)
        flush()
        # Newer versions of typer turn Ctrl-C into an exit code, older ones abort.
        if code == ExitCode.INTERRUPTED:
            raise KeyboardInterrupt
        return int(code or ExitCode.OK)
    except UserError as error:
        return _fail(str(error))
    except _UsageError as error:
        return _fail(f"{_message(error)} (see {_command_path(error)} --help)")
    except (KeyboardInterrupt, typer.Abort):
        note("interrupted")
        return ExitCode.INTERRUPTED
    except PipeClosed:
        return ExitCode.PIPE_CLOSED
    except (Exception, SystemExit) as error:  # A loaded strategy may also call sys.exit.
        if isinstance(error, SystemExit) and _is_completion(arguments):
            return int(error.code or ExitCode.OK)
        return _internal_error(error)


def _is_completion(arguments: Sequence[str]) -> bool:
    """Whether a shell asks for completions, or the user for their script: typer then ends the process."""
    return COMPLETION in os.environ or arguments[0] in ("--show-completion", "--install-completion")


def _run(arguments: Sequence[str]) -> int | None:
    try:
        app = command_line(arguments)
        code: int | None = app(args=list(arguments), prog_name="kafka-assignors", standalone_mode=False)
        return code
    except OSError as error:
        # typer writes the help, so its errors do not pass through `emit`.
        if error.errno not in (errno.ENOSPC, errno.EPIPE):
            raise
        raise stdout_failed(error) from None
    except SystemExit as error:
        # rich and typer turn a closed pipe into exit code 1, which means a failed check here.
        if not isinstance(error.__context__, BrokenPipeError):
            raise
        raise stdout_failed(error.__context__) from None


def _fail(message: str) -> int:
    note(f"error: {' '.join(message.split())}")
    return ExitCode.CANNOT_RUN


def _internal_error(error: BaseException) -> int:
    """Report a defect with an exit code of its own: Python's exit code 1 would read as a failed check."""
    hint = ""
    if _shows_traceback.get():
        tracebacks.print_exception(error)
    else:
        hint = f" (kafka-assignors --traceback or {TRACEBACK}=1 shows the traceback)"
    note(f"internal error: {' '.join(f'{type(error).__name__}: {error}'.split())}{hint}")
    return ExitCode.INTERNAL_ERROR


def _message(error: Exception) -> str:
    message = str(getattr(error, "format_message", error.__str__)())
    # Newer versions of typer name the kind of the error before the error of a choice.
    message = message[:1].lower() + message[1:].rstrip(".").replace("Value error, ", "", 1)
    if message.startswith("no such command"):
        if _command_path(error).endswith(" groups") or message.endswith("'describe'"):
            message += "; to look at a group: kafka-assignors groups describe GROUP"
    elif message.startswith("no such option") and "--traceback" in message:
        message += "; it goes before the command: kafka-assignors --traceback …"
    return message


def _command_path(error: Exception) -> str:
    context = getattr(error, "ctx", None)
    return context.command_path if context is not None else "kafka-assignors"
