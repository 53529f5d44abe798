"""A fixed series of events in a group whose partitions have different lags, and the load of each member.

    with CooperativeGroup(kafka, program, {"orders": 24}) as group:
        for step in live_with_lag(group, "weighted:0", [700, 100, …], {5: 900}):
            print(step.loads.makespan, step.loads.lower_bound)

The lag is known to the brokers: offset 0 is committed for every partition, and the records stay unread. Each
partition begins with a record of an open transaction, and members read only committed records. The lag is
therefore the same regardless of the members' speed and of who owns a partition.
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
from kafka_assignors_cli.load_report import LoadReport, measure_loads

__all__ = ["LoadedStep", "live_with_lag"]

_TRANSACTION_MS = 15 * 60_000
"""The maximum transaction timeout that brokers allow by default."""


@dataclass(frozen=True, slots=True)
class LoadedStep:
    """One event, and the load of each member after it: the lag of its partitions in records."""

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
    """Add members one at a time to partitions that lag by `records`; then some partitions lag by `more`.

    If `crowded`, a fourth member joins then, one leaves, and one is killed. Raises AssertionError if a leader
    got no answer in time when it asked for the lag, or if the lag changed meanwhile.
    """
    lags = dict(enumerate(records))

    def joining(name: str) -> Callable[[], None]:
        return lambda: group.join(name, [assignor], isolation_level="read_committed")

    def change() -> None:
        write(group, more)
        for partition, count in more.items():
            lags[partition] += count
        # A change of weights alone does not cause a rebalance.
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
