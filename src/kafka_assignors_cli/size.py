"""`kafka-assignors size`: how many consumers a group needs."""

from __future__ import annotations

import functools
import math
import time
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafka_assignors.group import Group, Topic
from kafka_assignors.live_group import HiddenTopicsError, LiveGroup, UnsettledGroupError, as_group
from kafka_assignors.sizing import Look, ScalingPolicy, SizeError, of_kind, rates_from, size_group
from kafka_assignors.sizing.autoscaling import PER_RECORD
from kafka_assignors.sizing.packing import NODES
from kafka_assignors.weights import parse_weights, weigh
from kafka_assignors_cli import options
from kafka_assignors_cli.console import (
    CannotRun,
    ExitCode,
    ProgressReport,
    cannot_run_on,
    counted,
    emit_renderable,
)
from kafka_assignors_cli.files import open_lines, read_groups
from kafka_assignors_cli.output_files import is_stdout, json_lines, require_json_file
from kafka_assignors_cli.size_result import Report, ServeOptions, serve

if TYPE_CHECKING:
    from kafka_assignors_confluent import Cluster

EPILOG = f"""Examples:

kafka-assignors size --weights rates.json --capacity 5000

kafka-assignors size group.json --capacity 5000 --headroom 0   (a group as `assign` reads it, with "weights")

kafka-assignors size --group orders --bootstrap-server broker:9092 --over 60 --capacity 5000 --drain 900

kafka-assignors size --group orders --history archive/ --percentile 99 --capacity 5000

kafka-assignors size --group orders --bootstrap-server broker:9092 --capacity 5000 --serve 0.0.0.0:9309

rates.json:  {{"format": 1, "topics": {{"orders": [1200, null, 0]}}}}  has what each partition costs, null \
where it is unknown, in any unit; --capacity is in the same one. Of a running group the costs are records a \
second: what is written to each partition, and with --drain its lag divided by that time. Of an archive that \
was kept with --committed-offsets they are the consumption rates that each partition did not exceed in \
--percentile per cent of the time.

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

{options.CONFIG_EPILOG}

Exit codes: 0 done, or --serve was told to end; 1 a partition alone costs more than a member may carry, so \
that no number of members helps; 2 bad input, no answer, or not allowed, and one line on stderr says which.
"""

_MEASURED = "measured"
_POLICY = ScalingPolicy()

_rates = functools.partial(typer.Option, rich_help_panel="Rates")
_serve = functools.partial(typer.Option, rich_help_panel="Serve")

File = Annotated[
    str | None,
    typer.Argument(
        metavar="[FILE|-]", help="A group as a JSON object: its members, what they own, and weights."
    ),
]
CapacityText = Annotated[
    str, typer.Option(metavar="NUMBER|measured", help="What one consumer carries, in the unit of the costs.")
]
Headroom = Annotated[
    float, typer.Option(metavar="SHARE", min=0.0, max=0.99, help="The share of the capacity that stays free.")
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
WeightsPath = Annotated[Path | None, _rates(metavar="FILE", help="The cost of each partition, as JSON.")]
GroupId = Annotated[str | None, _rates("--group", "-g", metavar="ID", help="Measure this running group.")]
History = Annotated[
    str | None,
    _rates(metavar="FOLDER", help="Take the rates of --group from the committed offsets in this archive."),
]
Percentile = Annotated[
    float,
    _rates(
        metavar="P",
        min=0.0,
        max=100.0,
        help="Of --history: the rate that a partition did not exceed in P per cent of the time.",
    ),
]
Over = Annotated[
    float, _rates(metavar="SECONDS", min=0.1, max=86_400.0, help="The time between the two looks.")
]
Drain = Annotated[
    float | None,
    _rates(
        metavar="SECONDS",
        min=0.1,
        help="Add the rate that consumes the lag within this time.",
        show_default="the lag does not count",
    ),
]
ServeOn = Annotated[
    str | None,
    _serve(
        "--serve",
        metavar="[HOST]:PORT",
        help="Look repeatedly, and serve the recommended number here; without HOST on 127.0.0.1.",
    ),
]
_seconds = functools.partial(_serve, metavar="SECONDS")
Every = Annotated[float, _seconds(min=0.1, help="The time between two looks of --serve.")]
HoldUp = Annotated[float, _seconds(min=0.0, help="Go up when the load has been too much for this long.")]
HoldDown = Annotated[float, _seconds(min=0.0, help="Go down when fewer members have sufficed for this long.")]
StaleAfter = Annotated[
    float, _seconds(min=1.0, help="Recommend nothing when the last measurement is older than this.")
]
Least = Annotated[int, _serve("--min", metavar="N", min=0, help="Never recommend fewer.")]
Most = Annotated[int | None, _serve("--max", metavar="N", min=1, help="Never recommend more.")]

_RESULT = frozenset({"capacity", "headroom", "topic", "nodes", "json_file"})
_SERVED = frozenset({"serve_on", "every", "hold_up", "hold_down", "stale_after", "least", "most"})
_OF_FILES = _RESULT | {"file", "weights"}
_OF_HISTORY = _RESULT | {"history", "group", "percentile"}
_OF_CLUSTER = _RESULT | _SERVED | {"group", "over", "drain", "bootstrap_server", "command_config", "timeout"}
"""The parameters that have an effect, by where the costs come from."""


def size(
    *,
    context: typer.Context,
    file: File = None,
    capacity: CapacityText,
    headroom: Headroom = 0.2,
    topic: TopicNames = None,
    nodes: Nodes = NODES,
    weights: WeightsPath = None,
    group: GroupId = None,
    history: History = None,
    percentile: Percentile = 95.0,
    over: Over = 60.0,
    drain: Drain = None,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    timeout: options.Timeout = None,
    json_file: options.JsonFile = None,
    serve_on: ServeOn = None,
    every: Every = 30.0,
    hold_up: HoldUp = _POLICY.hold_up_s,
    hold_down: HoldDown = _POLICY.hold_down_s,
    stale_after: StaleAfter = _POLICY.stale_after_s,
    least: Least = _POLICY.least,
    most: Most = None,
) -> int:
    """How many consumers does a group need? The fewest that keep every load within what one carries."""
    wanted = _Wanted(_capacity(capacity), headroom, frozenset(options.split_names(topic or ())), nodes)
    _refuse_options_without_effect(context, wanted)
    endpoint = None if serve_on is None else options.parse_endpoint("--serve", serve_on, "127.0.0.1")
    require_json_file(json_file)
    if history is not None:
        return _show(_sized(_from_history(history, str(group), percentile), wanted), json_file)
    if group is None:
        return _show(_sized(_from_files(file, weights), wanted), json_file)
    with options.cluster_address(bootstrap_server, command_config, timeout).connected() as cluster:
        looks = GroupLooks(cluster, group, over, drain)

        def measured(progress: ProgressReport) -> Report:
            return _sized(looks.measure(progress), wanted)

        if endpoint is None:
            with ProgressReport("asking the cluster") as progress:
                report = measured(progress)
            return _show(report, json_file)
        with cannot_run_on(ValueError):
            gap_s = max(_POLICY.longest_gap_s, 5 * every)
            policy = ScalingPolicy(hold_up, hold_down, gap_s, stale_after, least, most)
        serve(measured, ServeOptions(*endpoint, group, every, policy, json_file))
    return ExitCode.OK


def _refuse_options_without_effect(context: typer.Context, wanted: _Wanted) -> None:
    given = context.params
    if given["group"] is None or given["history"] is not None:
        for option, is_given in (
            ("--capacity measured", wanted.capacity is None),
            ("--serve", given["serve_on"]),
        ):
            if is_given:
                raise CannotRun(f"{option} needs a running group: give --group and --bootstrap-server")
    if given["serve_on"] is None:
        options.refuse(context, _SERVED, "without --serve")
    if given["history"] is not None:
        if given["group"] is None:
            raise CannotRun("--history FOLDER needs --group ID")
        options.refuse_all_but(context, _OF_HISTORY, "on the costs of --history")
    elif given["group"] is not None:
        options.refuse_all_but(context, _OF_CLUSTER, "on the costs of a running group")
    elif given["file"] is None and given["weights"] is None:
        raise CannotRun(
            "give costs: --weights FILE, a group with weights in a FILE, --group and --bootstrap-server, or "
            "--group and --history"
        )
    else:
        options.refuse_all_but(context, _OF_FILES, "on costs in files")


# ---- the number of members


@dataclass(frozen=True, slots=True)
class _Wanted:
    """`capacity` is None if it is measured; without `topics` all members subscribe to the same ones."""

    capacity: Fraction | None
    headroom: float
    topics: frozenset[str]
    nodes: int


@dataclass(frozen=True, slots=True)
class _Costs:
    """A group whose weights are the costs, and notes about their source.

    Attributes:
        unit: the number of units of cost in one unit of the capacity.
        most_consumed: the most that a member consumed, of those that kept their partitions between the looks;
            None if nothing was measured.
    """

    group: Group
    notes: tuple[str, ...]
    unit: int = 1
    most_consumed: int | None = None


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


def _sized(costs: _Costs, wanted: _Wanted) -> Report:
    """The size; `CannotRun` if there is none."""
    unit, capacity, notes = costs.unit, wanted.capacity, list(costs.notes)
    if capacity is None:
        capacity = Fraction(costs.most_consumed or 0, PER_RECORD)
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
    full = math.floor(capacity * unit)
    limit = math.floor(capacity * unit * (1 - Fraction(wanted.headroom).limit_denominator(10_000)))
    with cannot_run_on(SizeError):
        group = of_kind(costs.group, wanted.topics or None)
        found = size_group(group, limit, nodes=wanted.nodes)
        needed_full = found.members
        if full != limit:
            needed_full = size_group(replace(group, members={}), full, nodes=wanted.nodes).members
    if found.unknown:
        notes.append(
            f"{found.unknown} of {found.partitions} costs are unknown: each counts as the median of its "
            "topic, or else of all"
        )
    if others := len(costs.group.members) - len(group.members):
        notes.append(f"{others} members with another subscription are left alone, and not counted on")
    return Report(found, unit, capacity, wanted.headroom, needed_full, len(group.members), notes)


def _show(report: Report, json_file: Path | None) -> ExitCode:
    with json_lines(json_file) as write:
        write(report.to_json())
    if not is_stdout(json_file):
        emit_renderable(*report.renderables())
    return ExitCode.VERDICT_FAILED if report.size.too_heavy else ExitCode.OK


# ---- costs from files, and from a history


def _from_files(file: str | None, weights: Path | None) -> _Costs:
    group = Group({}, {}) if file is None else _read_group(file)
    notes: list[str] = []
    if weights is not None:
        given = _read_weights(weights)
        topics = list(group.topics.values()) or [Topic(name, len(each)) for name, each in given.items()]
        weighed, notes = weigh(topics, given)
        group = Group({topic.name: topic for topic in weighed}, group.members, group.generation)
    return _Costs(group, tuple(notes))


def _from_history(folder: str, group: str, percentile: float) -> _Costs:
    with options.require_replay_extra("size", spark=False):
        from kafka_assignors_spark.history import rates_of_history
        from kafka_assignors_spark.result import ReplayError

    with cannot_run_on(ReplayError):
        rates = rates_of_history(folder, group, percentile)
    topics = {name: Topic(name, len(each), weights=tuple(each)) for name, each in rates.items()}
    note = f"rates are those that each partition did not exceed in {percentile:g} % of the time in {folder}"
    return _Costs(Group(topics, {}), (note,), PER_RECORD)


def _read_group(file: str) -> Group:
    with open_lines(file) as (lines, source):
        groups = [group for _, group in read_groups(lines, source)]
    if len(groups) != 1:
        raise CannotRun(f"{file}: expected one group, found {len(groups)}")
    return groups[0]


def _read_weights(file: Path) -> dict[str, list[int | None]]:
    try:
        content = file.read_bytes()
    except OSError as error:
        raise CannotRun(f"{file}: {error.strerror}") from None
    with cannot_run_on(ValueError):
        return parse_weights(content, str(file))


# ---- costs of a running group: two looks at its offsets, some time apart

_MOST_LOOKS = 64
_WAIT_S = 0.2


@dataclass(frozen=True, slots=True)
class _Seen:
    look: Look
    live: LiveGroup


class GroupLooks:
    """Looks at one group of a cluster. `CannotRun` says why a look is not possible."""

    def __init__(self, cluster: Cluster, group_id: str, over_s: float, drain_s: float | None) -> None:
        self._cluster, self._group_id = cluster, group_id
        self._over_s, self._drain_s = over_s, drain_s
        self._looks: list[_Seen] = []

    def measure(self, progress: ProgressReport) -> _Costs:
        """Look once more, and take the rates since the latest look that is old enough, or wait for one."""
        if not self._looks:
            self._looks.append(self._look(progress))
        due_s = self._looks[0].look.at_s + self._over_s
        while (left_s := due_s - time.monotonic()) > 0:
            progress.update(
                "waiting for the second look: seconds", int(self._over_s - left_s), round(self._over_s)
            )
            time.sleep(min(_WAIT_S, left_s))
        second = self._look(progress)
        old_enough = [seen for seen in self._looks if seen.look.at_s <= second.look.at_s - self._over_s]
        first = old_enough[-1]
        # A look is kept while it, or a later one, can be the first of two.
        self._looks = self._looks[len(old_enough) - 1 :]
        if len(self._looks) < _MOST_LOOKS:
            self._looks.append(second)
        return _measured(first, second, self._over_s, self._drain_s)

    def _look(self, progress: ProgressReport) -> _Seen:
        with options.cluster_errors():
            (live,) = self._cluster.read_groups([self._group_id], on_progress=progress.update)
            options.require_existing(self._cluster, [live])
            topics = _partitions(live)
            ends = self._cluster.read_ends(
                {name: range(count) for name, count in topics.items()}, progress.update
            )
        if live.committed is None:
            raise CannotRun(f"group {live.id!r}: {'; '.join(live.problems)}")
        return _Seen(Look(time.monotonic(), ends, live.committed), live)


def _partitions(live: LiveGroup) -> dict[str, int]:
    """The number of partitions of each topic of the group; without members, of each that it has committed."""
    if live.members:
        try:
            return {name: topic.partitions for name, topic in as_group(live).topics.items()}
        except HiddenTopicsError as error:
            raise CannotRun(str(error)) from None
        except UnsettledGroupError as error:
            raise CannotRun(f"{error}: try again") from None
    return {name: max(numbers) + 1 for name, numbers in (live.committed or {}).items() if numbers}


def _measured(first: _Seen, second: _Seen, over_s: float, drain_s: float | None) -> _Costs:
    live = second.live
    counts = _partitions(live)
    if not counts:
        raise CannotRun(
            f"group {live.id!r} has no members and has committed nothing, so its topics are not known"
        )
    rates = rates_from(first.look, second.look, counts, drain_s)
    topics = {name: Topic(name, count, weights=tuple(rates.costs[name])) for name, count in counts.items()}
    group = Group(topics, {}, live.generation)
    if live.members:
        group = replace(
            (known := as_group(live)),
            topics={name: replace(each, weights=topics[name].weights) for name, each in known.topics.items()},
        )
    notes = [f"rates are means over at least {over_s:g} s"]
    if rates.without_commit:
        notes.append(
            f"the group has committed nothing of {counted(rates.without_commit, 'partition')}, so their "
            "lag is not known and counts as none"
        )
    if not live.members:
        notes.append("the group has no members; its topics are those that it has committed")
    before = {member.id: member.assigned for member in first.live.members}
    kept = {
        member.id: member.assigned
        for member in live.members
        if member.assigned and before.get(member.id) == member.assigned
    }
    return _Costs(group, tuple(notes), PER_RECORD, rates.most_consumed(kept))
