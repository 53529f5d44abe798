"""`size --serve`: looks again and again, and serves the recommendation to an autoscaler.

GET /size      JSON for KEDA's metrics-api scaler; 503 while there is no recommendation
GET /metrics   the same for Prometheus; without a recommendation the metric is absent
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka_assignors.sizing import Needed, Policy, Recommendation, recommend
from kafka_assignors_cli.console import CannotRun, ProgressReport, note, sigterm_interrupts
from kafka_assignors_cli.files import write_file
from kafka_assignors_cli.json_output import is_stdout, json_lines
from kafka_assignors_cli.options import require_watch_extra
from kafka_assignors_cli.size_report import Report

__all__ = ["METRICS", "Recommender", "ServeOptions", "app_of", "serve"]

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
    policy: Policy
    json_file: Path | None


class Recommender:
    """The recommendation for one group, as looks succeed and fail. Other threads may read `status`."""

    def __init__(self, group: str, policy: Policy, now_s: Callable[[], float] = time.monotonic) -> None:
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
    """Look and serve until Ctrl-C or SIGTERM. `CannotRun` if the port cannot be had."""
    with require_watch_extra(prometheus=True):
        import prometheus_client  # noqa: F401

        from kafka_assignors_spark.watch import WatchError
        from kafka_assignors_spark.watch.exporter import serving
    recommender = Recommender(options.group, options.policy)
    try:
        with sigterm_interrupts(), serving(options.host, options.port, app_of(recommender)) as port:
            shown = f"[{options.host}]" if ":" in options.host else options.host
            note(f"the recommendation is on http://{shown}:{port}/size and /metrics")
            look_for_ever(measure, options, recommender)
    except KeyboardInterrupt:
        note("ended")
    except WatchError as error:
        raise CannotRun(str(error)) from None


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
