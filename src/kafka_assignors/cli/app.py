"""The commands of `kafka-assignors`, and how errors become exit codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

import kafka_assignors
from kafka_assignors.cli import assign, replay, strategies
from kafka_assignors.cli.console import flush, note
from kafka_assignors.cli.errors import CannotRun, ExitCode, PipeClosed

__all__ = ["app", "run"]

EPILOG = """Exit codes: 0 done; 1 kept for a verdict that fails; 2 bad input, or it cannot run, and one \
line on stderr says why.

Data goes to stdout, everything else to stderr.
"""

app = typer.Typer(
    name="kafka-assignors",
    epilog=EPILOG,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(epilog=assign.EPILOG)(assign.assign)
app.command(epilog=replay.EPILOG)(replay.replay)
app.command(epilog=strategies.EPILOG)(strategies.strategies)

# typer brings its own copy of click from some version on, and names this class in neither.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"kafka-assignors {kafka_assignors.__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Partition assignment for Kafka consumer groups.

    See what a strategy does with a group, and replay the history of your groups under other strategies.
    """


def run(arguments: Sequence[str]) -> int:
    """Run one command to its end and return its exit code."""
    try:
        code = app(args=list(arguments), prog_name="kafka-assignors", standalone_mode=False)
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


def _fail(message: str) -> int:
    note(f"error: {' '.join(message.split())}")
    return ExitCode.CANNOT_RUN


def _message(error: Exception) -> str:
    message = str(getattr(error, "format_message", error.__str__)())
    return message[:1].lower() + message[1:].rstrip(".")


def _command_path(error: Exception) -> str:
    context = getattr(error, "ctx", None)
    return context.command_path if context is not None else "kafka-assignors"
