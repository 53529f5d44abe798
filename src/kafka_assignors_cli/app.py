"""The commands of `kafka-assignors`, how errors become exit codes, and what is installed: `--version` and
`strategies`."""

from __future__ import annotations

import errno
import inspect
import os
import traceback as tracebacks
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Annotated, Any

import typer

import kafka_assignors
from kafka_assignors.strategies import StrategyError, load_strategy, strategy_names
from kafka_assignors_cli import archive, assign, groups, lint, replay, validate, watch
from kafka_assignors_cli.console import (
    CannotRun,
    Column,
    ColumnKind,
    ExitCode,
    FittedTable,
    PipeClosed,
    emit,
    emit_renderable,
    flush,
    note,
    printable,
    stdout_failed,
)
from kafka_assignors_cli.options import STRATEGY_FORMS, JsonFile
from kafka_assignors_cli.output_files import is_stdout, json_lines, json_unless_terminal

EPILOG = """Exit codes: 0 done; 1 a check failed, never used for errors; 2 bad input, or the command cannot \
run, and one line on stderr says why; 70 an internal error: --traceback or KAFKA_ASSIGNORS_TRACEBACK=1 \
shows the traceback.

Data goes to stdout, everything else to stderr.
"""

_STRATEGIES_EPILOG = f"""A terminal shows a table. Where stdout is a pipe or a file, and with --json -, each \
strategy is a line of JSON:  {{"name": "range", "protocols": ["eager"], "summary": "…"}}

Packages register strategies in the entry-point group kafka_assignors.strategies. Wherever a name is \
expected, other strategies can be given, too: {STRATEGY_FORMS}.
"""

TRACEBACK = "KAFKA_ASSIGNORS_TRACEBACK"
"""The environment variable that turns on the traceback of an internal error, as --traceback does."""

COMPLETION = "_KAFKA_ASSIGNORS_COMPLETE"
"""The environment variable in which a shell's completion script asks; typer derives its name."""

_shows_traceback: ContextVar[bool] = ContextVar("_shows_traceback", default=False)

_STRATEGY_COLUMNS = (
    Column("strategy", ColumnKind.NAME),
    Column("protocols", ColumnKind.WORDS, leave_out=1),
    Column("summary", ColumnKind.WORDS, leave_out=2),
)


def strategies(*, json_file: JsonFile = None) -> None:
    """List the strategies that can be used by name here."""
    json_file = json_unless_terminal(json_file)
    listed = list(_registered())
    with json_lines(json_file) as write:
        if not is_stdout(json_file):
            emit_renderable(strategy_table(listed))
        for strategy in listed:
            write(strategy)


def _registered() -> Iterator[dict[str, Any]]:
    for name in strategy_names():
        try:
            strategy = load_strategy(name)
        except StrategyError as error:
            note(str(error))
            continue
        yield {
            "name": name,
            "protocols": [protocol.value for protocol in strategy.protocols],
            "summary": (inspect.getdoc(strategy) or "").partition("\n")[0],
        }


def strategy_table(listed: list[dict[str, Any]]) -> FittedTable:
    """A row for each strategy."""
    table = FittedTable(_STRATEGY_COLUMNS)
    for each in listed:
        table.add([printable(each["name"]), ", ".join(each["protocols"]), printable(each["summary"])])
    return table


app = typer.Typer(
    name="kafka-assignors",
    epilog=EPILOG,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(epilog=archive.EPILOG)(archive.archive)
app.command(epilog=assign.EPILOG)(assign.assign)
app.add_typer(groups.groups)
app.command("lint", epilog=lint.EPILOG)(lint.lint_members)
app.command(epilog=replay.EPILOG)(replay.replay)
app.command(epilog=_STRATEGIES_EPILOG)(strategies)
app.command(epilog=validate.EPILOG)(validate.validate)
app.command(epilog=watch.EPILOG)(watch.watch)

# Newer versions of typer contain a copy of click, and no version exports this class.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


def _print_version(*, asked: bool) -> None:
    if asked:
        emit(f"kafka-assignors {kafka_assignors.__version__}")
        raise typer.Exit


@app.callback()
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

    Assign the partitions of a group, inspect or watch the groups of a running cluster, find out how many
    consumers a group needs, check a change of strategy before you roll it out, keep the history of your
    groups, replay it under other strategies, and check the result against a policy.
    """
    if traceback:
        _shows_traceback.set(True)


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    _shows_traceback.set(bool(os.environ.get(TRACEBACK)))
    try:
        code = _run(arguments)
        flush()
        # Newer versions of typer turn Ctrl-C into an exit code, older ones abort.
        if code == ExitCode.INTERRUPTED:
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
    except (Exception, SystemExit) as error:  # A loaded strategy may also call sys.exit.
        if isinstance(error, SystemExit) and _is_completion(arguments):
            return int(error.code or ExitCode.OK)
        return _internal_error(error)


def _is_completion(arguments: Sequence[str]) -> bool:
    """Whether a shell asks for completions, or the user for their script: typer then ends the process."""
    return COMPLETION in os.environ or arguments[0] in ("--show-completion", "--install-completion")


def _run(arguments: Sequence[str]) -> int | None:
    try:
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


_GROUPS_COMMANDS = {f"no such command '{name}'": name for name in ("describe", "delete")}


def _message(error: Exception) -> str:
    message = str(getattr(error, "format_message", error.__str__)())
    # Newer versions of typer name the kind of the error before the error of a choice.
    message = message[:1].lower() + message[1:].rstrip(".").replace("Value error, ", "", 1)
    if message.startswith("no such command"):
        if _command_path(error).endswith(" groups"):
            message += "; to look at a group: kafka-assignors groups describe GROUP"
        elif message in _GROUPS_COMMANDS:
            message += f"; for a group: kafka-assignors groups {_GROUPS_COMMANDS[message]} GROUP"
    elif message.startswith("no such option") and "--traceback" in message:
        message += "; it goes before the command: kafka-assignors --traceback …"
    return message


def _command_path(error: Exception) -> str:
    context = getattr(error, "ctx", None)
    return context.command_path if context is not None else "kafka-assignors"
