"""The same events in a group whose partitions lag, each by another number of records, and what members carry.

    with CooperativeGroup(kafka, program, {"orders": 24}) as group:
        for step in live_with_lag(group, "weighted:0", [700, 100, …], {5: 900}):
            print(step.loads.makespan, step.loads.lower_bound)

The lag is one that the brokers know: offset 0 is committed for every partition, records are written, and
no member reads them, because each partition begins with a record of a transaction that stays open, and
members read what is committed. So the lag is the same however fast members are, and under any owners.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from compat_tests.scenarios.cooperative import CooperativeGroup
from compat_tests.scenarios.transaction import TransactionalWriter
from compat_tests.support.same_events import Event, Step, crowding, steps
from compat_tests.support.weights import lag, write
from kafka_assignors.group import Group, Member, Topic
from kafka_assignors.makespan import LoadReport, measure_loads

__all__ = ["LoadedStep", "live_with_lag"]

_TRANSACTION_MS = 15 * 60_000
"""The longest that brokers allow by default."""


@dataclass(frozen=True, slots=True)
class LoadedStep:
    """One event, and what the partitions of each member weigh after it: their lag in records."""

    step: Step
    loads: LoadReport


def live_with_lag(
    group: CooperativeGroup,
    assignor: str,
    records: Sequence[int],
    more: Mapping[int, int],
    *,
    crowded: bool = True,
) -> list[LoadedStep]:
    """Members come one after the other to partitions that lag by so many records; then some lag by `more`.

    If `crowded`, a fourth member joins then, one leaves, and one is killed. Raises AssertionError if a leader
    had no answer in time when it asked for the lag, or if the lag did not stand still.
    """
    lags = dict(enumerate(records))

    def joining(name: str) -> Callable[[], None]:
        return lambda: group.join(name, [assignor], isolation_level="read_committed")

    def change() -> None:
        write(group, more)
        for partition, count in more.items():
            lags[partition] += count
        # By itself, nothing rebalances because weights change.
        group.tell("a", rejoin=True)

    events: list[Event] = [
        ("one member", [joining("a")]),
        ("three members", [joining("b"), joining("c")]),
        ("the lag changes", [change]),
    ]
    if crowded:
        events += crowding(group, joining("d"))
    with _records_that_stay_unread(group):
        lag(group, lags)
        found = [LoadedStep(step, _loads(group, lags, step)) for step in steps(group, events)]
        assert not group.consumed(), "the lag was read away"
    _must_have_known_the_lag(group)
    return found


def _records_that_stay_unread(group: CooperativeGroup) -> AbstractContextManager[None]:
    writer = TransactionalWriter(group, timeout_ms=_TRANSACTION_MS)
    return writer.transaction(commit=False, records_per_partition=1)


def _loads(group: CooperativeGroup, lags: Mapping[int, int], step: Step) -> LoadReport:
    ((topic, partitions),) = group.topics.items()
    weights = tuple(1 + lags[partition] for partition in range(partitions))
    members = [Member(member_id, frozenset({topic})) for member_id in step.settled.names.values()]
    return measure_loads(
        Group.of([Topic(topic, partitions, weights=weights)], members), step.settled.assignment
    )


def _must_have_known_the_lag(group: CooperativeGroup) -> None:
    warnings = [report["message"] for one in group.members.values() for report in one.reports("logged")]
    assert not [warning for warning in warnings if "no weights from" in warning], warnings
