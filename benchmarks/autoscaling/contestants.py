"""The contestants: published heuristics, `weighted` with as many consumers, ours, and equal shares."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from benchmarks.autoscaling.heuristics import HEURISTICS
from benchmarks.autoscaling.ours import (
    as_published,
    fewest,
    fixed,
    following,
    held,
    recommended,
    scaled,
    sized,
    when_exceeded,
)
from benchmarks.autoscaling.simulation import Result, Step, simulate
from benchmarks.autoscaling.traces import CAPACITY, CONSUMER_CAPACITY, Trace
from kafka_assignors.strategies import CooperativeSticky, Range, Weighted

__all__ = ["OURS", "PUBLISHED", "Kind", "Run", "late_runs", "runs"]

PUBLISHED = ("NF", "BFD", "MWF", "MBF", "MWFP", "MBFP")
"""The heuristics in the tables; `heuristics` has all heuristics of the papers."""

HELD = 10
"""Ten measurements, which are five minutes: the default `stabilizationWindowSeconds` of Kubernetes' HPA."""

Kind = str
"""`published`, `as many` (ours with the consumers of a published one), `ours`, or `equal`."""


@dataclass(frozen=True, slots=True)
class Run:
    """One contestant on one trace. `beside` is the published heuristic whose consumers an `as many` has."""

    name: str
    kind: Kind
    result: Result
    beside: str = ""


SAME_AS_BFD = "fewest, `weighted` within C"
"""Best fit decreasing counts the fewest consumers, so the run with BFD's consumers is the same."""

OURS: Mapping[str, Callable[[], Step]] = {
    SAME_AS_BFD: lambda: scaled(fewest, Weighted(capacity=CAPACITY)),
    "held, `weighted` within C": lambda: scaled(held(HELD), Weighted(capacity=CAPACITY)),
    "fewest, `weighted` within 1.33 C": lambda: scaled(fewest, Weighted(capacity=CONSUMER_CAPACITY)),
    "held, `weighted` within 1.33 C": lambda: scaled(held(HELD), Weighted(capacity=CONSUMER_CAPACITY)),
    "held, `weighted` level": lambda: scaled(held(HELD), Weighted()),
    "by `size`, `weighted` within C": lambda: scaled(sized, Weighted(capacity=CAPACITY)),
    "recommended, `weighted` within 1.33 C": lambda: scaled(
        recommended(), Weighted(capacity=CONSUMER_CAPACITY)
    ),
}


def runs(trace: Trace) -> Iterator[Run]:
    """Every contestant on a trace."""
    by_name: dict[str, Result] = {}
    as_many: dict[str, Result] = {}
    for name in PUBLISHED:
        by_name[name] = simulate(trace, as_published(HEURISTICS[name]))
        yield Run(name, "published", by_name[name])
        step = scaled(following(by_name[name].consumers), Weighted(capacity=CAPACITY))
        as_many[name] = simulate(trace, step)
        yield Run(f"`weighted` within C, consumers of {name}", "as many", as_many[name], name)
    for name in ("MWF", "MBF"):
        step = when_exceeded(as_published(HEURISTICS[name]))
        yield Run(f"{name} above 1.33 C", "published", simulate(trace, step))
    for name, step_of in OURS.items():
        if name == SAME_AS_BFD:
            yield Run(name, "ours", as_many["BFD"])
        else:
            yield Run(name, "ours", simulate(trace, step_of()))
    yield from _equal(trace, by_name["MWF"])


def _equal(trace: Trace, beside: Result) -> Iterator[Run]:
    """Groups that give every member the same number of partitions, regardless of the load."""
    counts = beside.consumers
    yield Run(
        "`cooperative-sticky`, consumers of MWF",
        "equal",
        simulate(trace, scaled(following(counts), CooperativeSticky())),
    )
    step = scaled(following(counts), Range())
    yield Run("`range` (eager), consumers of MWF", "equal", simulate(trace, step, eager=True))
    same = round(beside.mean_consumers)
    yield Run(f"`cooperative-sticky`, always {same}", "equal", _with(trace, same))
    wanted = beside.paper.percentile_s(99)
    partitions = len(trace.speeds[0])
    for fifths in range(6, 5 * partitions):
        more = min(partitions, round(beside.mean_consumers * fifths / 5))
        result = _with(trace, more)
        if more == partitions or result.paper.percentile_s(99) <= wanted:
            yield Run(f"`cooperative-sticky`, always {more}", "equal", result)
            return


def _with(trace: Trace, consumers: int) -> Result:
    return simulate(trace, scaled(fixed(consumers), CooperativeSticky()))


def late_runs(trace: Trace) -> Iterator[Run]:
    """Contestants that decide on the previous measurement."""
    for name in ("BFD", "MWF", "MBF"):
        step = as_published(HEURISTICS[name])
        yield Run(name, "published", simulate(trace, step, measured_late=True))
    for name, step_of in OURS.items():
        yield Run(name, "ours", simulate(trace, step_of(), measured_late=True))
