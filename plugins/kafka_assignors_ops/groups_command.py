"""`kafka-assignors groups`: the consumer groups of a running cluster."""

from __future__ import annotations

import contextlib
import fnmatch
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from kafka_assignors.arguments import UserError
from kafka_assignors.strategy import Strategy, runs_on_broker
from kafka_assignors_cli import options
from kafka_assignors_cli.console import ProgressReport, counted, emit_renderable, note
from kafka_assignors_cli.output_files import is_stdout, json_lines, require_files
from kafka_assignors_confluent.connection import Connection
from kafka_assignors_ops.cluster import list_groups, read_groups, unreadable
from kafka_assignors_ops.comparison import StrategyComparison, compare_strategies
from kafka_assignors_ops.groups_view import describe_json, description, group_list, summary_json
from kafka_assignors_ops.live_group import LiveGroup, as_group

_CONFIG = f"""{options.CONFIG_EPILOG} For example  security.protocol=SASL_SSL  sasl.mechanism=PLAIN  \
sasl.username=me  sasl.password=…  ssl.ca.location=ca.pem
"""

_LIST_EPILOG = f"""Examples:

kafka-assignors groups --bootstrap-server broker:9092

kafka-assignors groups --bootstrap-server broker:9092 --matching 'orders-*'

kafka-assignors groups describe orders --bootstrap-server broker:9092 --command-config client.properties

{_CONFIG}
Exit codes: 0 done; 2 no answer, not allowed, or no such group: one line on stderr says which and what to do.
"""

_DESCRIBE_EPILOG = f"""Examples:

kafka-assignors groups describe orders --bootstrap-server broker:9092

kafka-assignors groups describe orders --bootstrap-server broker:9092 --strategy range,my_package:Weighted

kafka-assignors groups describe orders --bootstrap-server broker:9092 --json - | kafka-assignors assign -

{_CONFIG}"""

groups = typer.Typer(
    name="groups", context_settings={"help_option_names": ["-h", "--help"]}, epilog=_LIST_EPILOG
)

Matching = Annotated[
    str | None,
    typer.Option(
        metavar="PATTERN", help="Only groups whose id matches; * stands for any text, ? for one character."
    ),
]


@groups.callback(invoke_without_command=True)
def list_all(
    *,
    context: typer.Context,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    timeout: options.Timeout = None,
    matching: Matching = None,
    json_file: options.JsonFile = None,
) -> None:
    """List the consumer groups of a running cluster: members, idle members, balance.

    The command below shows a group in detail.
    """
    if context.invoked_subcommand is not None:
        command = f"'kafka-assignors groups {context.invoked_subcommand}'"
        options.refuse_all_but(context, (), f"before the command: it belongs after {command}")
        return
    require_files(json_file)
    connection = _connection(options.cluster_address(bootstrap_server, command_config, timeout))
    with ProgressReport("asking the cluster") as progress:
        listed, problems = list_groups(connection)
        ids = [group for group in listed if matching is None or fnmatch.fnmatchcase(group, matching)]
        found = read_groups(connection, ids, topics=False, skip_hidden=True, on_progress=progress.update)
    problems += _not_shown(ids, found)
    live = [group for group in found if group.state != "Dead"]
    if is_stdout(json_file):
        for problem in (*problems, *(group.error for group in found if group.error)):
            note(f"warning: {problem}")
    else:
        emit_renderable(*group_list(live, problems))
    with json_lines(json_file) as write:
        for group in live:
            write(summary_json(group))


@groups.command(epilog=_DESCRIBE_EPILOG)
def describe(
    *,
    group: Annotated[list[str], typer.Argument(metavar="GROUP…", help="Ids of groups.")],
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    timeout: options.Timeout = None,
    strategy: Annotated[list[str] | None, options.strategies_option("all that run in a client")] = None,
    json_file: options.JsonFile = None,
) -> None:
    """Show groups and their members, and the partitions that each strategy would move now."""
    require_files(json_file)
    tried = _strategies(strategy)
    connection = _connection(options.cluster_address(bootstrap_server, command_config, timeout))
    compared: list[tuple[LiveGroup, StrategyComparison | None]] = []
    # What a strategy prints is no data.
    with ProgressReport("asking the cluster") as progress, contextlib.redirect_stdout(sys.stderr):
        found = read_groups(connection, group, on_progress=progress.update)
        problem = unreadable(connection, found)
        shown = [live for live in found if live.error is None and live.state != "Dead"]
        if problem and not shown:
            raise UserError(problem)
        for done, live in enumerate(shown):
            progress.update("trying strategies", done, len(shown))
            known = live.unknown_owners is None
            compared.append((live, compare_strategies(as_group(live), tried) if known else None))
    problems = [problem] if problem else []
    if not is_stdout(json_file):
        emit_renderable(*(part for each in compared for part in description(*each)))
    if json_file is not None:  # The tables name their own gaps.
        problems += [f"{live.id!r}: {live.unknown_owners}" for live, known in compared if known is None]
    with json_lines(json_file) as write:
        for live, comparison in compared:
            if comparison is not None:
                write(describe_json(live, comparison))
    if problems:
        raise UserError("; ".join(problems))


def _connection(address: options.ClusterAddress) -> Connection:
    with options.require_extra("a running cluster", "admin"):
        return Connection(address.bootstrap_servers, address.config, address.timeout_s)


def _not_shown(listed: Sequence[str], found: Sequence[LiveGroup]) -> Iterator[str]:
    """The groups that are listed and cannot be described: hidden, deleted meanwhile, or with a strange id."""
    ids = {live.id for live in found}
    gone = {live.id for live in found if live.state == "Dead"}
    gone |= {group for group, times in Counter(listed).items() if times > 1}
    if hidden := {*listed} - ids:
        right = f"this principal may not describe them: it needs Describe on Group {min(hidden)!r}"
        yield f"{counted(len(hidden), 'group')} not shown: {right}"
    if gone:
        why = "deleted meanwhile, or an id with a zero byte, where librdkafka cuts it"
        yield f"{counted(len(gone), 'group')} listed, and not found when described: {min(gone)!r}: {why}"


def _strategies(given: Sequence[str] | None) -> list[tuple[str, Strategy]]:
    if given:
        return [(name, options.load_named_strategy(name)) for name in options.split_names(given)]
    # A strategy that runs on the broker is shown only on request: no client can choose it.
    return [each for each in options.registered_strategies() if not runs_on_broker(each[1])]


def add_to(app: typer.Typer) -> None:
    """Add the command and its own commands."""
    app.add_typer(groups)
