"""`kafka-assignors size`: how many consumers a group needs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer

from kafka_assignors.group import Group, Topic
from kafka_assignors.sizing import Policy, SizeError, of_kind, size_group
from kafka_assignors.sizing.packing import NODES
from kafka_assignors.sizing.rates import PER_RECORD
from kafka_assignors.weights import parse_weights, weigh
from kafka_assignors_cli.console import CannotRun, ExitCode, ProgressReport, emit_renderable
from kafka_assignors_cli.files import open_lines, read_groups
from kafka_assignors_cli.json_output import is_stdout, json_lines, require_json_file
from kafka_assignors_cli.options import (
    CONFIG_EPILOG,
    BootstrapServer,
    ClusterOptions,
    CommandConfig,
    JsonFile,
    Timeout,
    require_spark_extra,
    split_names,
)
from kafka_assignors_cli.size_cluster import GroupLooks, Measured
from kafka_assignors_cli.size_report import Report
from kafka_assignors_cli.size_serve import ServeOptions, serve

__all__ = ["EPILOG", "size"]

EPILOG = f"""Examples:

kafka-assignors size --weights rates.json --capacity 5000

kafka-assignors size group.json --capacity 5000 --headroom 0   (a group as `assign` reads it, with "weights")

kafka-assignors size --group orders --bootstrap-server broker:9092 --over 60 --capacity 5000 --drain 900

kafka-assignors size --group orders --history archive/ --percentile 99 --capacity 5000

kafka-assignors size --group orders --bootstrap-server broker:9092 --capacity 5000 --serve 0.0.0.0:9309

rates.json:  {{"format": 1, "topics": {{"orders": [1200, null, 0]}}}}  has what each partition costs, null \
where it is unknown, in any unit; --capacity is in the same one. Of a running group the costs are records a \
second: what is written to each partition, and with --drain its lag divided by so many seconds. Of an \
archive that was kept with --committed-offsets they are the records a second that the group consumed of each \
partition, or fewer, in --percentile per cent of the time.

Find out what one consumer carries with a load test: its records a second while its lag grows. \
--capacity measured takes the most that a member consumed between the two looks. A member that keeps up \
shows what it got, not what it could do, so this is only a lower bound of what a consumer carries, and the \
number of members is too high.

With --headroom 0.2 a member gets at most 80 % of its capacity. The answer is the fewest members for that, \
with an assignment and a proof that fewer do not suffice (exact for small groups; where it is not, both \
numbers are shown); the fewest partitions that move; and the cost of one member less.

--serve looks again every --every seconds and serves a number that does not flap: /size as JSON for KEDA's \
metrics-api scaler (valueLocation: members), /metrics for Prometheus. It goes up when the members cannot \
carry the load at full capacity, and down when fewer have sufficed, headroom included, for --hold-down \
seconds. A broker that does not answer changes nothing; after --stale-after seconds without an answer /size \
is 503 and the metric is absent, so that the autoscaler leaves the group as it is.

{CONFIG_EPILOG}

Exit codes: 0 done, or --serve was told to end; 1 a partition alone costs more than a member may carry, so \
that no number of members helps; 2 bad input, no answer, or not allowed, and one line on stderr says which.
"""

_RATES, _SERVE = "Rates", "Serve"
_OVER_S, _EVERY_S = 60.0, 30.0
_MEASURED = "measured"
_POLICY = Policy()


@dataclass(frozen=True, slots=True)
class _Limits:
    """`capacity` is None if it is measured."""

    capacity: Fraction | None
    headroom: float
    topics: frozenset[str] | None
    nodes: int


File = Annotated[
    str | None,
    typer.Argument(
        metavar="[FILE|-]", help="A group as a JSON object: its members, what they own, and weights."
    ),
]
CapacityText = Annotated[
    str,
    typer.Option(metavar="NUMBER|measured", help="What one consumer carries, in the unit of the costs."),
]
Headroom = Annotated[
    float,
    typer.Option(metavar="SHARE", min=0.0, max=0.99, help="The share of the capacity that stays free."),
]
TopicNames = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME,…",
        help="Size the members that subscribe to exactly these topics; needed where members of the group "
        "subscribe to different ones.",
    ),
]
Nodes = Annotated[
    int, typer.Option(metavar="N", min=0, help="The steps that the search for a proof may take.")
]
WeightsPath = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The cost of each partition, as JSON.", rich_help_panel=_RATES),
]
GroupId = Annotated[
    str | None,
    typer.Option("--group", "-g", metavar="ID", help="Measure this running group.", rich_help_panel=_RATES),
]
History = Annotated[
    str | None,
    typer.Option(
        metavar="FOLDER",
        help="Take the rates of --group from the committed offsets in this archive.",
        rich_help_panel=_RATES,
    ),
]
Percentile = Annotated[
    float,
    typer.Option(
        metavar="P",
        min=0.0,
        max=100.0,
        help="Of --history: the rate that a partition did not exceed in P per cent of the time.",
        rich_help_panel=_RATES,
    ),
]
Over = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        min=0.1,
        max=86_400.0,
        help="The time between the two looks.",
        rich_help_panel=_RATES,
    ),
]
Drain = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        min=0.1,
        help="Add what it takes to consume the lag within so long.",
        show_default="the lag does not count",
        rich_help_panel=_RATES,
    ),
]
ServeOn = Annotated[
    str | None,
    typer.Option(
        "--serve",
        metavar="[HOST]:PORT",
        help="Look repeatedly, and serve the recommended number here; without HOST on 127.0.0.1.",
        rich_help_panel=_SERVE,
    ),
]
Every = Annotated[
    float,
    typer.Option(
        metavar="SECONDS", min=0.1, help="The time between two looks of --serve.", rich_help_panel=_SERVE
    ),
]
HoldUp = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        min=0.0,
        help="Go up when the load has been too much for so long.",
        rich_help_panel=_SERVE,
    ),
]
HoldDown = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        min=0.0,
        help="Go down when fewer members have sufficed for so long.",
        rich_help_panel=_SERVE,
    ),
]
StaleAfter = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        min=1.0,
        help="Recommend nothing when the last measurement is so old.",
        rich_help_panel=_SERVE,
    ),
]
Least = Annotated[
    int, typer.Option("--min", metavar="N", min=0, help="Never recommend fewer.", rich_help_panel=_SERVE)
]
Most = Annotated[
    int | None,
    typer.Option("--max", metavar="N", min=1, help="Never recommend more.", rich_help_panel=_SERVE),
]


def size(
    *,
    file: File = None,
    capacity: CapacityText,
    headroom: Headroom = 0.2,
    topic: TopicNames = None,
    nodes: Nodes = NODES,
    weights: WeightsPath = None,
    group: GroupId = None,
    history: History = None,
    percentile: Percentile = 95.0,
    over: Over = _OVER_S,
    drain: Drain = None,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    timeout: Timeout = None,
    json_file: JsonFile = None,
    serve_on: ServeOn = None,
    every: Every = _EVERY_S,
    hold_up: HoldUp = _POLICY.hold_up_s,
    hold_down: HoldDown = _POLICY.hold_down_s,
    stale_after: StaleAfter = _POLICY.stale_after_s,
    least: Least = _POLICY.least,
    most: Most = None,
) -> int:
    """How many consumers does a group need? The fewest that keep every load within what one carries."""
    limits = _Limits(
        _capacity(capacity),
        headroom,
        frozenset(split_names(topic)) if topic else None,
        nodes,
    )
    endpoint = None
    if serve_on is not None:
        from kafka_assignors_cli.watch import parse_endpoint

        endpoint = parse_endpoint("--serve", serve_on, "127.0.0.1")
    require_json_file(json_file)
    if group is None or history is not None:
        if limits.capacity is None or endpoint is not None:
            raise CannotRun(
                f"{'--serve' if endpoint else '--capacity measured'} needs a running group: give --group and "
                "--bootstrap-server"
            )
        given = (file, weights, bootstrap_server, command_config)
        source = (
            _from_files(file, weights)
            if history is None
            else _from_history(history, group, percentile, given)
        )
        return _show(_sized(source, limits), json_file)
    if file is not None or weights is not None:
        raise CannotRun("--group measures the costs: give either it, or files")
    with ClusterOptions(bootstrap_server, command_config, timeout).address().connected() as cluster:
        looks = GroupLooks(cluster, group, over, drain)

        def measured(progress: ProgressReport) -> Report:
            return _sized(looks.measure(progress), limits)

        if endpoint is None:
            with ProgressReport("asking the cluster") as progress:
                report = measured(progress)
            return _show(report, json_file)
        policy = _policy(hold_up, hold_down, stale_after, least, most, every)
        serve(measured, ServeOptions(*endpoint, group, every, policy, json_file))
    return ExitCode.OK


def _capacity(text: str) -> Fraction | None:
    if text == _MEASURED:
        return None
    try:
        number = Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise CannotRun(f"--capacity {text}: expected a number above 0, or measured") from None
    if number <= 0:
        raise CannotRun(f"--capacity {text}: a consumer has to carry more than 0")
    return number


def _policy(
    hold_up: float, hold_down: float, stale_after: float, least: int, most: int | None, every: float
) -> Policy:
    try:
        return Policy(hold_up, hold_down, max(_POLICY.longest_gap_s, 5 * every), stale_after, least, most)
    except ValueError as error:
        raise CannotRun(str(error)) from None


def _from_files(file: str | None, weights: Path | None) -> Measured | _FromFiles:
    if file is None and weights is None:
        raise CannotRun(
            "give costs: --weights FILE, a group with weights in a FILE, or --group and --bootstrap-server"
        )
    group = Group({}, {}) if file is None else _read_group(file)
    notes: list[str] = []
    if weights is not None:
        given = _read_weights(weights)
        topics = list(group.topics.values()) or [Topic(name, len(each)) for name, each in given.items()]
        weighed, notes = weigh(topics, given)
        group = Group({topic.name: topic for topic in weighed}, group.members, group.generation)
    return _FromFiles(group, tuple(notes))


def _from_history(folder: str, group: str | None, percentile: float, others: Sequence[object]) -> _FromFiles:
    if group is None or any(each is not None for each in others):
        raise CannotRun("--history FOLDER needs --group ID, and no other costs beside it")
    with require_spark_extra("size"):
        from kafka_assignors_spark.history_rates import rates_of_history
        from kafka_assignors_spark.result import ReplayError

    try:
        rates = rates_of_history(folder, group, percentile)
    except ReplayError as error:
        raise CannotRun(str(error)) from None
    topics = {name: Topic(name, len(each), weights=tuple(each)) for name, each in rates.items()}
    note = f"rates are those that each partition did not exceed in {percentile:g} % of the time in {folder}"
    return _FromFiles(Group(topics, {}), (note,), PER_RECORD)


@dataclass(frozen=True, slots=True)
class _FromFiles:
    """`unit` is what a unit of the capacity is in the costs."""

    group: Group
    notes: tuple[str, ...]
    unit: int = 1


def _read_group(file: str) -> Group:
    with open_lines(file) as (lines, source):
        groups = [group for _, group in read_groups(lines, source)]
    if len(groups) != 1:
        raise CannotRun(f"{file}: expected one group, found {len(groups)}")
    return groups[0]


def _read_weights(file: Path) -> dict[str, list[int | None]]:
    try:
        return parse_weights(file.read_bytes(), str(file))
    except OSError as error:
        raise CannotRun(f"{file}: {error.strerror}") from None
    except ValueError as error:
        raise CannotRun(str(error)) from None


def _sized(source: Measured | _FromFiles, limits: _Limits) -> Report:
    """The size; `CannotRun` if there is none."""
    unit = PER_RECORD if isinstance(source, Measured) else source.unit
    capacity, notes = limits.capacity, list(source.notes)
    if isinstance(source, Measured) and capacity is None:
        capacity = Fraction(source.most_consumed, PER_RECORD)
        if not capacity:
            raise CannotRun(
                "--capacity measured: no member committed anything between the two looks: look for "
                "longer (--over), or give the capacity"
            )
        notes.append(
            "the capacity is the most that a member consumed between the looks "
            f"({float(capacity):,.1f} a second): a lower bound of what a consumer carries, so fewer "
            "members may do"
        )
    assert capacity is not None
    full = math.floor(capacity * unit)
    limit = math.floor(capacity * unit * (1 - Fraction(limits.headroom).limit_denominator(10_000)))
    try:
        group = of_kind(source.group, limits.topics)
        found = size_group(group, limit, nodes=limits.nodes)
        needed_full = (
            found.members
            if full == limit
            else size_group(_without_members(group), full, nodes=limits.nodes).members
        )
    except SizeError as error:
        raise CannotRun(str(error)) from None
    if found.unknown:
        notes.append(
            f"{found.unknown} of {found.partitions} costs are unknown: each counts as the median of its "
            "topic, or else of all"
        )
    if others := len(source.group.members) - len(group.members):
        notes.append(f"{others} members with another subscription are left alone, and not counted on")
    return Report(found, unit, capacity, limits.headroom, needed_full, len(group.members), notes)


def _without_members(group: Group) -> Group:
    return replace(group, members={})


def _show(report: Report, json_file: Path | None) -> ExitCode:
    with json_lines(json_file) as write:
        write(report.to_json())
    if not is_stdout(json_file):
        emit_renderable(*report.renderables())
    return ExitCode.VERDICT_FAILED if report.size.too_heavy else ExitCode.OK
