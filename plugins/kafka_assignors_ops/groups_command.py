"""`kafka-assignors groups`: the consumer groups of a running cluster."""

from __future__ import annotations

import fnmatch
import functools
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafka_assignors.arguments import UserError
from kafka_assignors.strategies import Strategy, strategy_names
from kafka_assignors.strategy import runs_on_broker
from kafka_assignors_cli import options
from kafka_assignors_cli.console import ProgressReport, counted, emit, note, printable
from kafka_assignors_cli.looks import Looks, Snapshot, show
from kafka_assignors_cli.output_files import is_stdout, json_lines, require_json_file
from kafka_assignors_ops.cluster_access import connected, require_existing, unreadable
from kafka_assignors_ops.comparison import StrategyComparison, compare_strategies
from kafka_assignors_ops.groups_view import (
    describe_json,
    description,
    group_list,
    summary_json,
)
from kafka_assignors_ops.live_group import LiveGroup, as_group, hidden_topics_problem
from kafka_assignors_ops.troubles import Troubles

if TYPE_CHECKING:
    from kafka_assignors_ops.cluster import Cluster

_CONFIG = f"""{options.CONFIG_EPILOG} For example  security.protocol=SASL_SSL  sasl.mechanism=PLAIN  \
sasl.username=me  sasl.password=…  ssl.ca.location=ca.pem
"""

_LIST_EPILOG = f"""Examples:

kafka-assignors groups --bootstrap-server broker:9092

kafka-assignors groups --bootstrap-server broker:9092 --matching 'orders-*' --watch

kafka-assignors groups describe orders --bootstrap-server broker:9092 --command-config client.properties

{_CONFIG}
Exit codes: 0 done, also after Ctrl-C in --watch; 2 no answer, not allowed, or no such group: one line on \
stderr says which and what to do.
"""

_DESCRIBE_EPILOG = f"""Examples:

kafka-assignors groups describe orders --bootstrap-server broker:9092

kafka-assignors groups describe orders --bootstrap-server broker:9092 --strategy range,my_package:Weighted

kafka-assignors groups describe orders --bootstrap-server broker:9092 --json | kafka-assignors assign -

{_CONFIG}"""

_DELETE_EPILOG = f"""Examples:

kafka-assignors groups delete old-orders --bootstrap-server broker:9092

kafka-assignors groups delete --all-empty --matching 'test-*' --bootstrap-server broker:9092 --yes

A group that has members is never deleted. Mind that a consumer that assigns its partitions itself, and only \
commits, leaves its group empty while it runs.

{_CONFIG}"""

_INTERVAL_S = 5.0
"""The default of --interval."""

groups = typer.Typer(
    name="groups", context_settings={"help_option_names": ["-h", "--help"]}, epilog=_LIST_EPILOG
)

_watch = functools.partial(typer.Option, rich_help_panel="Watch")

Matching = Annotated[
    str | None,
    typer.Option(
        metavar="PATTERN", help="Only groups whose id matches; * stands for any text, ? for one character."
    ),
]
Watch = Annotated[bool, _watch("--watch", "-w", help="Show it repeatedly, until Ctrl-C.")]
Interval = Annotated[
    float, _watch(metavar="SECONDS", min=0.1, help="With --watch, the time between two looks.")
]
Count = Annotated[int | None, _watch(metavar="N", min=1, help="With --watch, the number of looks.")]


@groups.callback(invoke_without_command=True)
def list_groups(
    *,
    context: typer.Context,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    timeout: options.Timeout = None,
    matching: Matching = None,
    json_file: options.JsonFile = None,
    watch: Watch = False,
    interval: Interval = _INTERVAL_S,
    count: Count = None,
) -> None:
    """List the consumer groups of a running cluster: members, idle members, balance, lag.

    The commands below show a group in detail, or delete unused groups.
    """
    context.obj = (bootstrap_server, command_config, timeout)
    if context.invoked_subcommand is not None:
        # If it were ignored, `--matching P delete --all-empty` would delete all empty groups.
        command = context.invoked_subcommand
        options.refuse_all_but(
            context,
            ("bootstrap_server", "command_config", "timeout"),
            f"before the command: it belongs after 'kafka-assignors groups {command}'",
        )
        return
    looks = _looks(context, interval, count, json_file, watch=watch)
    with connected(options.cluster_address(*context.obj)) as cluster:

        def read(progress: ProgressReport) -> Snapshot:
            listing = cluster.list_groups()
            ids = [group.id for group in listing.groups if _matches(group.id, matching)]
            found = cluster.read_groups(ids, skip_hidden=True, on_progress=progress.update)
            problems = [*listing.problems, *_not_shown(ids, found)]
            live = [group for group in found if group.state != "Dead"]
            if is_stdout(json_file):
                for problem in (*problems, *(live.error for live in found if live.error)):
                    note(f"warning: {problem}")
            return Snapshot(group_list(live, problems), [summary_json(group) for group in live])

        show(read, looks, Troubles(note))


@groups.command(epilog=_DESCRIBE_EPILOG)
def describe(
    *,
    context: typer.Context,
    group: Annotated[list[str], typer.Argument(metavar="GROUP…", help="Ids of groups.")],
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    timeout: options.Timeout = None,
    strategy: Annotated[list[str] | None, options.strategies_option("all registered ones")] = None,
    json_file: options.JsonFile = None,
    watch: Watch = False,
    interval: Interval = _INTERVAL_S,
    count: Count = None,
) -> None:
    """Show groups and their members, and the partitions that each strategy would move now."""
    looks = _looks(context, interval, count, json_file, watch=watch)
    tried = _strategies(strategy)
    address = _address(context, bootstrap_server, command_config, timeout)
    ids = list(dict.fromkeys(group))
    with connected(address) as cluster:

        def read(progress: ProgressReport) -> Snapshot:
            read_now = cluster.read_groups(ids, on_progress=progress.update)
            problem = unreadable(cluster, read_now)
            found = [live for live in read_now if live.error is None and live.state != "Dead"]
            if problem and not found:
                raise UserError(problem)
            comparisons = []
            for done, live in enumerate(found):
                progress.update("trying strategies", done, len(found))
                known = live.settled and not live.hidden_topics
                comparisons.append(compare_strategies(as_group(live), tried) if known else None)
            return _described(list(zip(found, comparisons, strict=True)), json_file, problem)

        show(read, looks, Troubles(note))


@groups.command(epilog=_DELETE_EPILOG)
def delete(
    *,
    context: typer.Context,
    group: Annotated[list[str] | None, typer.Argument(metavar="[GROUP…]", help="Ids of groups.")] = None,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    timeout: options.Timeout = None,
    all_empty: Annotated[
        bool, typer.Option("--all-empty", help="All groups without members, or those --matching.")
    ] = False,
    matching: Matching = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json_file: options.JsonFile = None,
) -> None:
    """Delete groups without members, and with them their committed offsets."""
    if bool(group) == all_empty:
        raise UserError("give either the ids of groups or --all-empty")
    if not all_empty:
        options.refuse(context, ("matching",), "without --all-empty")
    address = _address(context, bootstrap_server, command_config, timeout)
    require_json_file(json_file)
    outcome: Mapping[str, str | None] = {}
    with connected(address) as cluster:
        found = _empty_groups(cluster, matching) if all_empty else _groups_to_delete(cluster, group or ())
        require_existing(cluster, found)
        _require_empty(found)
        if not found:
            note("there are no such empty groups")
        elif not yes and not _confirmed(found):
            note("nothing deleted")
        else:
            outcome = cluster.delete_groups(live.id for live in found)
    if not is_stdout(json_file):
        for deleted in (id_ for id_, refusal in outcome.items() if refusal is None):
            emit(f"deleted {printable(deleted)}")
    with json_lines(json_file) as write:
        for id_, refusal in outcome.items():
            write({"group": id_, "deleted": refusal is None, "reason": refusal})
    refusals = [f"{id_!r}: {refusal}" for id_, refusal in outcome.items() if refusal is not None]
    if refusals:
        raise UserError(f"not deleted: {'; '.join(refusals)}")


def _address(
    context: typer.Context, bootstrap_server: str | None, command_config: Path | None, timeout: float | None
) -> options.ClusterAddress:
    """The cluster that the options name after the subcommand, or before it."""
    outer_server, outer_config, outer_timeout = context.obj
    return options.cluster_address(
        bootstrap_server or outer_server, command_config or outer_config, timeout or outer_timeout
    )


def _groups_to_delete(cluster: Cluster, ids: Sequence[str]) -> Sequence[LiveGroup]:
    with ProgressReport("asking the cluster") as progress:
        return cluster.read_groups(ids, topics=False, on_progress=progress.update)


def _empty_groups(cluster: Cluster, pattern: str | None) -> Sequence[LiveGroup]:
    """All groups without members whose id matches."""
    listed = cluster.list_groups().groups
    ids = [each.id for each in listed if each.state == "Empty" and _matches(each.id, pattern)]
    found = _groups_to_delete(cluster, ids)
    for error in (live.error for live in found if live.error is not None):
        note(f"warning: not deleted: {error}")
    # Since the list was read, members may have joined a group, or it may have been deleted.
    return [live for live in found if live.state == "Empty"]


def _not_shown(listed: Sequence[str], found: Sequence[LiveGroup]) -> Iterator[str]:
    """The groups that are listed and cannot be described: hidden, deleted meanwhile, or with a strange id."""
    if hidden := {*listed} - {live.id for live in found}:
        right = f"it needs Describe on Group {min(hidden)!r}"
        yield f"{_some(hidden, 'not shown, for this principal may not describe')}: {right}"
    gone = {live.id for live in found if live.state == "Dead"}
    gone |= {group for group, times in Counter(listed).items() if times > 1}
    if gone:
        why = "deleted meanwhile, or an id with a zero byte, where librdkafka cuts it"
        yield f"{_some(gone, 'listed, and not found when described:')}; {why}"


def _some(groups: set[str], what: str) -> str:
    others = "" if len(groups) == 1 else " and others"
    return f"{counted(len(groups), 'group')} {what} {min(groups)!r}{others}"


def _looks(
    context: typer.Context, interval_s: float, count: int | None, json_file: Path | None, *, watch: bool
) -> Looks:
    """How often to look; refuses options without effect."""
    require_json_file(json_file)
    if not watch:
        options.refuse(context, ("interval", "count"), "without --watch")
    return Looks(interval_s if watch else None, count, json_file)


def _matches(group: str, pattern: str | None) -> bool:
    return pattern is None or fnmatch.fnmatchcase(group, pattern)


def _strategies(given: Sequence[str] | None) -> list[tuple[str, Strategy]]:
    loaded = [
        (name, options.load_named_strategy(name))
        for name in (options.split_names(given) if given else strategy_names())
    ]
    # A strategy that runs on the broker is shown only on request: no client can choose it.
    return [(name, strategy) for name, strategy in loaded if given or not runs_on_broker(strategy)]


def _described(
    found: Sequence[tuple[LiveGroup, StrategyComparison | None]],
    json_file: Path | None,
    unreadable: str | None,
) -> Snapshot:
    tables = [part for live, comparison in found for part in description(live, comparison)]
    values = [describe_json(live, comparison) for live, comparison in found if comparison is not None]
    if json_file is None:  # The tables name their own gaps.
        return Snapshot(tables, values, unreadable)
    problems = [unreadable] if unreadable else []
    problems += [
        f"{live.id!r}: {hidden_topics_problem(live)}"
        if live.settled
        else f"{live.id!r}: rebalancing, so what its members own is not known: try again"
        for live, comparison in found
        if comparison is None
    ]
    return Snapshot(tables, values, "; ".join(problems) or None)


def _require_empty(found: Sequence[LiveGroup]) -> None:
    busy = [live for live in found if live.members or live.state != "Empty"]
    if busy:
        raise UserError(
            f"nothing deleted: {busy[0].id!r} has {counted(len(busy[0].members), 'member')} "
            f"({busy[0].state}): stop them first"
        )


def _confirmed(found: Sequence[LiveGroup]) -> bool:
    if not sys.stdin.isatty():
        raise UserError(
            f"{counted(len(found), 'group')} would be deleted, and there is no terminal to ask at: give --yes"
        )
    for live in found:
        partitions = sum(map(len, (live.committed or {}).values()))
        typer.echo(
            f"  {printable(live.id)}  (committed offsets of {counted(partitions, 'partition')})", err=True
        )
    question = (
        "Delete this group and its committed offsets?"
        if len(found) == 1
        else f"Delete these {len(found)} groups and their committed offsets?"
    )
    return typer.confirm(question, err=True)


def add_to(app: typer.Typer) -> None:
    """Add the command and its own commands."""
    app.add_typer(groups)
