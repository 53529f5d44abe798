"""The size of a group as a JSON object, as a table, and as a number that autoscalers read (`--serve`).

Costs are shown in the user's unit: units of cost by `unit`. What is served:

GET /size      JSON for KEDA's metrics-api scaler; 503 while there is no recommendation
GET /metrics   the same for Prometheus; without a recommendation the metric is absent
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from kafka_assignors.group_json import assignment_to_json
from kafka_assignors.pause_model import Consumption, PauseModel
from kafka_assignors.sizing import Needed, PartitionCost, Recommendation, ScalingPolicy, Size, recommend
from kafka_assignors_cli.console import (
    CannotRun,
    Column,
    ColumnKind,
    FittedTable,
    ProgressReport,
    cannot_run_on,
    counted,
    indented,
    note,
    sigterm_interrupts,
)
from kafka_assignors_cli.options import require_extra
from kafka_assignors_cli.output_files import is_stdout, json_lines, write_file

_SHOWN_PARTITIONS = 5


@dataclass(frozen=True, slots=True)
class Report:
    """A size, and the facts that it depends on.

    Attributes:
        unit: how many units of cost are one of the user's: 1 for a file, 1000 for records a second.
        capacity: what a consumer carries; `headroom` is the share of it that stays free.
        needed_full: the members that are needed at full capacity.
    """

    size: Size
    unit: int
    capacity: Fraction
    headroom: float
    needed_full: int
    members_now: int
    notes: Sequence[str]

    def to_json(self) -> dict[str, Any]:
        """The whole result; the certificate is in units of cost, since a proof needs whole numbers."""
        size = self.size
        return {
            "members": size.members,
            "least_members": size.least,
            "exact": size.members == size.least,
            "members_at_full_capacity": self.needed_full,
            "capacity": float(self.capacity),
            "headroom": self.headroom,
            "limit": self._number(size.limit),
            "total": self._number(size.total),
            "partitions": size.partitions,
            "unknown_costs": size.unknown,
            "heaviest": None if size.heaviest is None else self._partition(size.heaviest),
            "too_heavy": [self._partition(one) for one in size.too_heavy],
            "now": {
                "members": self.members_now,
                "greatest": None if size.greatest_now is None else self._number(size.greatest_now),
            },
            "change": self._change(),
            "step_down": self._step_down(),
            "certificate": {
                "unit": self.unit,
                "limit": size.certificate.limit,
                "members": [dict(each) for each in size.certificate.members],
                "costs": {name: list(each) for name, each in sorted(size.costs.items())},
                "least": size.certificate.least,
                "bound": None if size.certificate.bound is None else asdict(size.certificate.bound),
            },
            "notes": list(self.notes),
        }

    def renderables(self) -> list[RenderableType]:
        size = self.size
        table = FittedTable(
            (
                Column("members"),
                Column("greatest load"),
                Column("of capacity"),
                Column("partitions that move"),
                Column("", ColumnKind.WORDS),
            )
        )
        if self.members_now and size.greatest_now is not None:
            table.add([*self._load(self.members_now, size.greatest_now), "–", "as it is"])
        if size.change is not None:
            table.add(
                [
                    *self._load(size.members, size.change.greatest),
                    _moves(size.change.moved, size.change.least),
                    "the fewest" if size.members == size.least else f"at least {size.least} are needed",
                ],
                style="bold",
            )
        if (down := size.step_down) is not None:
            moved = down.moved + down.vacated
            words = "one member less, from there" if down.greatest > size.limit else "one less suffices, too"
            table.add([*self._load(down.members, down.greatest), f"{moved:,}", words])
        rows = [] if size.change is None and size.greatest_now is None else [table]
        return [self._head(), *rows, *indented(self.sentences())]

    def sentences(self) -> list[str]:
        """Sentences about what the table does not show."""
        size, found = self.size, []
        if size.too_heavy:
            names = ", ".join(
                f"{one.topic}-{one.partition} ({self._shown(one.cost)})"
                for one in size.too_heavy[:_SHOWN_PARTITIONS]
            )
            more = len(size.too_heavy) - _SHOWN_PARTITIONS
            one = len(size.too_heavy) == 1
            by_headroom = size.too_heavy[0].cost <= self.capacity * self.unit
            found.append(
                f"{counted(len(size.too_heavy), 'partition')} alone cost{'s' if one else ''} more than the "
                f"{self._shown(size.limit)} that a member may carry: {names}"
                f"{f' and {more} more' if more > 0 else ''}. No number of members helps: only more "
                f"partitions, {'less headroom, ' if by_headroom else ''}or a larger consumer. With each of "
                f"them alone on its member, {size.members:,} members are needed."
            )
        if (change := size.change) is not None and self.members_now:
            found.append(
                f"From {self.members_now:,} members: {len(change.added):,} more, "
                f"{len(change.removed):,} fewer."
            )
        if (down := size.step_down) is not None and down.greatest > size.limit:
            paused = self._paused()
            found.append(
                f"With {down.members:,} members some member has at least {self._shown(down.least_greatest)}; "
                f"that step pauses about {paused['cooperative']:.1f} partition-seconds under the cooperative "
                f"protocol, {paused['eager']:.1f} under the eager one."
            )
        return [*found, *self.notes]

    def _head(self) -> Text:
        size = self.size
        text = Text(f"{counted(size.members, 'member')}", style="bold")
        return text.append(
            f" for {counted(size.partitions, 'partition')} of {self._shown(size.total)} in all; a member "
            f"carries {_decimal(self.capacity)}, and {self._shown(size.limit)} with {self.headroom:.0%} "
            "headroom",
            style="not bold",
        )

    def _load(self, members: int, greatest: int) -> list[str]:
        share = Fraction(greatest, self.unit) / self.capacity
        return [f"{members:,}", self._shown(greatest), f"{float(share):.0%}"]

    def _shown(self, cost: int) -> str:
        return _decimal(Fraction(cost, self.unit))

    def _number(self, cost: int) -> int | float:
        return cost if self.unit == 1 else cost / self.unit

    def _partition(self, one: PartitionCost) -> dict[str, Any]:
        return {"topic": one.topic, "partition": one.partition, "cost": self._number(one.cost)}

    def _change(self) -> dict[str, Any] | None:
        change = self.size.change
        if change is None:
            return None
        return {
            "added": list(change.added),
            "removed": list(change.removed),
            "moved": change.moved,
            "least_moved": change.least,
            "greatest": self._number(change.greatest),
            "assignment": assignment_to_json(change.assignment),
        }

    def _step_down(self) -> dict[str, Any] | None:
        down = self.size.step_down
        if down is None:
            return None
        return {
            "members": down.members,
            "greatest": self._number(down.greatest),
            "least_greatest": self._number(down.least_greatest),
            "overload": self._number(max(0, down.greatest - self.size.limit)),
            "moved": down.moved + down.vacated,
            "paused_partition_seconds": self._paused(),
        }

    def _paused(self) -> dict[str, float]:
        """By protocol, the partition-seconds that the step down pauses."""
        down = self.size.step_down
        assert down is not None
        model = PauseModel()
        return {
            way.value: model.paused_s(
                way,
                members=down.members,
                could_stay=down.could_stay,
                moved=down.moved,
                vacated=down.vacated,
            )
            for way in (Consumption.COOPERATIVE, Consumption.EAGER)
        }


def _moves(moved: int, least: int) -> str:
    return f"{moved:,}" if moved == least else f"{moved:,} (at least {least:,})"


def _decimal(number: Fraction) -> str:
    return f"{int(number):,}" if number.denominator == 1 else f"{float(number):,.1f}"


# ---- served to an autoscaler

METRICS = {
    "kafka_assignors_size_members": "Recommended members; absent while there is no recommendation.",
    "kafka_assignors_size_needed_members": "Members that the last measurement needs, headroom included.",
    "kafka_assignors_size_age_seconds": "Age of the last measurement.",
    "kafka_assignors_size_failed_looks_total": "Looks at the cluster that failed.",
}
"""What /metrics serves, each with the label `group`."""


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Where to serve, and how often to look."""

    host: str
    port: int
    group: str
    every_s: float
    policy: ScalingPolicy
    json_file: Path | None


class Recommender:
    """The recommendation for one group, as looks succeed and fail. Other threads may read `status`."""

    def __init__(
        self, group: str, policy: ScalingPolicy, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._group, self._policy, self._now_s = group, policy, now_s
        self._state = Recommendation()
        self._report: Report | None = None
        self._failed = 0
        self._problem: str | None = None

    def succeeded(self, report: Report) -> int | None:
        """Take a size in; the recommended members if they have changed."""
        before = self._state.members
        needed = Needed(report.needed_full, report.size.members)
        self._report, self._problem = report, None
        self._state = recommend(self._state, self._now_s(), needed, self._policy)
        return self._state.members if self._state.members != before else None

    def failed(self, problem: str) -> None:
        """A look failed. The recommendation stays, and grows old."""
        self._failed += 1
        self._problem = problem

    def status(self) -> dict[str, Any]:
        """The recommendation as JSON; `members` is null while there is none."""
        state, report, now_s = self._state, self._report, self._now_s()
        age_s = state.age_s(now_s)
        members = state.current(now_s, self._policy)
        return {
            "group": self._group,
            "members": members,
            "stale": age_s is not None and members is None,
            "age_s": None if age_s is None else round(age_s, 3),
            "needed": None if report is None else report.size.members,
            "needed_at_full_capacity": None if report is None else report.needed_full,
            "exact": None if report is None else report.size.members == report.size.least,
            "too_heavy": None if report is None else len(report.size.too_heavy),
            "failed_looks": self._failed,
            "problem": self._problem,
        }


def serve(measure: Callable[[ProgressReport], Report], options: ServeOptions) -> None:
    """Look and serve until Ctrl-C or SIGTERM. `CannotRun` if the port is not available."""
    with require_extra("size --serve", "watch"):
        import prometheus_client  # noqa: F401

        from kafka_assignors_spark.watch import WatchError
        from kafka_assignors_spark.watch.exporter import serving
    recommender = Recommender(options.group, options.policy)
    try:
        with (
            cannot_run_on(WatchError),
            sigterm_interrupts(),
            serving(options.host, options.port, app_of(recommender)) as port,
        ):
            shown = f"[{options.host}]" if ":" in options.host else options.host
            note(f"the recommendation is on http://{shown}:{port}/size and /metrics")
            look_for_ever(measure, options, recommender)
    except KeyboardInterrupt:
        note("ended")


def look_for_ever(
    measure: Callable[[ProgressReport], Report], options: ServeOptions, recommender: Recommender
) -> None:
    from kafka_assignors_confluent import Troubles

    troubles = Troubles(note)
    while True:
        began_s = time.monotonic()
        try:
            with ProgressReport("asking the cluster") as progress:
                report = measure(progress)
        except CannotRun as error:
            recommender.failed(str(error))
            troubles.add(error, "trying again")
        else:
            if troubles.clear():
                note("looks succeed again")
            changed = recommender.succeeded(report)
            if changed is not None:
                note(f"recommended members: {changed}")
        _write(options.json_file, recommender.status())
        time.sleep(max(0.0, began_s + options.every_s - time.monotonic()))


def _write(file: Path | None, status: dict[str, Any]) -> None:
    """A line on stdout, or the last status in a file."""
    if file is None or is_stdout(file):
        with json_lines(file) as write:
            write(status)
    else:
        write_file(file, f"{json.dumps(status)}\n")


def app_of(recommender: Recommender) -> Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]:
    """The WSGI application."""
    from prometheus_client import CollectorRegistry, make_wsgi_app
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
    from prometheus_client.registry import Collector

    class Sizes(Collector):
        def collect(self) -> Iterator[Metric]:
            status = recommender.status()
            keys = ("members", "needed", "age_s", "failed_looks")
            for (name, words), key in zip(METRICS.items(), keys, strict=True):
                kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
                family = kind(name, words, labels=["group"])
                if status[key] is not None:
                    family.add_metric([status["group"]], status[key])
                yield family

    registry = CollectorRegistry()
    registry.register(Sizes())
    metrics = make_wsgi_app(registry)

    def app(request: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        path = request.get("PATH_INFO")
        if path == "/metrics":
            found: Iterable[bytes] = metrics(request, start)
            return found
        if path != "/size":
            start("404 Not Found", [("Content-Type", "text/plain; charset=utf-8")])
            return [b"/size has the recommendation as JSON, /metrics for Prometheus\n"]
        status = recommender.status()
        line = "200 OK" if status["members"] is not None else "503 Service Unavailable"
        start(line, [("Content-Type", "application/json"), ("Cache-Control", "no-store")])
        return [json.dumps(status).encode(), b"\n"]

    return app
