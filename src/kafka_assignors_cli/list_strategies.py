"""`kafka-assignors strategies`: the strategies that have a name here."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import typer

from kafka_assignors_cli.console import Column, ColumnKind, FittedTable, emit_renderable, printable
from kafka_assignors_cli.options import STRATEGY_FORMS, JsonFile, registered_strategies
from kafka_assignors_cli.output_files import is_stdout, json_lines, json_unless_terminal

EPILOG = f"""A terminal shows a table. Where stdout is a pipe or a file, and with --json -, each \
strategy is a line of JSON:  {{"name": "range", "protocols": ["eager"], "summary": "…"}}

Packages register strategies in the entry-point group kafka_assignors.strategies. Wherever a name is \
expected, other strategies can be given, too: {STRATEGY_FORMS}.
"""

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
    for name, strategy in registered_strategies():
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


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(strategies)
