"""The rows of the tables that a user may ask for, as plain values in the order of the columns.

A class of rows names the columns and their types, from which `schemas.TABLES` makes Arrow schemas. Times are
microseconds since 1970, and partitions by topic are a list of pairs, as Arrow takes a map.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from datetime import date, datetime
from typing import Any, NamedTuple

from kafka_assignors.group import TopicPartitions
from kafka_assignors.wire import AssignedPartitions, ConsumerGroupRecord, CurrentAssignment
from kafka_assignors_spark.catalogue import Catalogue
from kafka_assignors_spark.folds.causes import Cause
from kafka_assignors_spark.folds.lives import Record, RecordedGeneration
from kafka_assignors_spark.folds.records import DecodedRecord, RecordKind, client_of, to_micros
from kafka_assignors_spark.folds.replay import Replayed
from kafka_assignors_spark.folds.sums import Figures, verdict_of
from kafka_assignors_spark.result import RECORDED

Rows = list[tuple[Any, ...]]


class GenerationRow(NamedTuple):
    """A row of `generations`: a generation with its place in the group's life, as `folds.lives` finds it.

    `reason` says why a member does not decode, `problem` why members or partitions may be missing. `facts`
    are of class `folds.rebalances.Kip848Fact`. `clients` and `topics` are those of the members that decode,
    and `holds` says whether one of these has partitions that it has not revoked.
    """

    group: str
    partition: int
    offset: int
    timestamp: datetime
    incarnation: int
    generation: int
    type: str
    protocol_type: str | None
    protocol: str | None
    leader: str | None
    version: int | None
    empty: bool
    replacement: bool
    skipped: int
    gap_before: bool
    lost: int
    starts_late: bool
    clock_back: bool
    reason: str | None
    problem: str | None
    unknown_topics: Sequence[str]
    facts: Sequence[Mapping[str, str]]
    member_count: int
    clients: Sequence[str]
    topics: Sequence[str]
    holds: bool
    value_bytes: int


class MemberRow(NamedTuple):
    """A row of `members`: what a member of a generation asked for, and what it got.

    `client` is the library that the client id names (see `folds.records`), `version` the subscription's.
    `owned` is the member's own claim, `revoked` that it gave the claimed partitions up before it joined;
    `assigned` is what the leader gave it, or the target that the broker set for it. `pattern` is the regular
    expression that a member of KIP-848 subscribes with (what it matches is among `topics`), and `assignor`
    the one that it asks for; `version` is -1 there.
    """

    group: str
    offset: int
    generation: int
    member_id: str
    instance_id: str | None
    rack: str | None
    client_id: str
    client: str
    client_host: str
    version: int
    topics: Sequence[str]
    owned: TopicPartitions
    owned_generation: int
    revoked: bool
    assigned: TopicPartitions
    pattern: str | None
    assignor: str | None


class AssignmentRow(NamedTuple):
    """A row of `assignments`: a topic of which a member of a generation got partitions."""

    group: str
    offset: int
    generation: int
    member_id: str
    topic: str
    partitions: Sequence[int]


class CurrentRow(NamedTuple):
    """A row of `current`: how far a member of a KIP-848 group has come on its way to its assignment.

    `epoch` is the group epoch that the member has reached, -2 for a static member that is away, null where
    the record is the end of the member; the rest is null then. `state` is "stable", "unrevoked partitions"
    (it has yet to revoke `pending_revocation`), "unreleased partitions" (it waits for others to revoke) or
    "unknown".
    """

    group: str
    partition: int
    offset: int
    timestamp: datetime
    member_id: str
    epoch: int | None
    previous_epoch: int | None
    state: str | None
    assigned: TopicPartitions | None
    pending_revocation: TopicPartitions | None
    unknown_topics: Sequence[str] | None


class CauseRow(NamedTuple):
    """A row of `causes`: why a generation was formed. `causes` are of class `folds.causes.Cause`, in its
    order; never empty."""

    group: str
    partition: int
    offset: int
    generation: int
    timestamp: datetime
    causes: Sequence[str]


def values(row: Any) -> tuple[Any, ...]:
    """The row of a table in a dataclass or a named tuple that has its columns."""
    return tuple(map(_plain, row if isinstance(row, tuple) else astuple(row)))


_PLAIN = frozenset({type(None), bool, int, float, str, list, tuple})


def _plain(value: Any) -> Any:
    if type(value) in _PLAIN:  # nearly all are; the check of the abstract class below is slow
        return value
    if isinstance(value, datetime):
        return to_micros(value)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return [(topic, list(numbers)) for topic, numbers in value.items()]
    return value


def _row(columns: Any, *said_by: object, **own: Any) -> tuple[Any, ...]:
    """A row of the class `columns`: its own values, and the attributes of the first object that has each."""
    return tuple(_plain(own[name] if name in own else _first(name, said_by)) for name in columns._fields)


def _first(name: str, said_by: Iterable[object]) -> Any:
    return next(getattr(each, name) for each in said_by if hasattr(each, name))


def of_generation(recorded: RecordedGeneration) -> dict[str, Rows]:
    """The rows of `generations`, `members` and `assignments`."""
    record = recorded.generation
    members = list(record.members.values())
    generation = _row(
        GenerationRow,
        record,
        recorded,
        protocol=record.protocol or None,
        gap_before=record.skipped > 0,
        facts=[{"fact": fact, "subject": subject} for fact, subject in record.facts],
        member_count=len(members),
        clients=sorted({client_of(member.client_id) for member in members}),
        topics=sorted({topic for member in members for topic in member.topics}),
        holds=any(member.owned and not member.revoked for member in members),
    )
    return {
        "generations": [generation],
        "members": [
            _row(MemberRow, member, record, client=client_of(member.client_id)) for member in members
        ],
        "assignments": [
            (record.group, record.offset, record.generation, member.member_id, topic, list(numbers))
            for member in members
            for topic, numbers in member.assigned.items()
        ],
    }


def causes(recorded: RecordedGeneration, found: Sequence[Cause]) -> tuple[Any, ...]:
    return _row(CauseRow, recorded.generation, recorded, causes=[cause.value for cause in found])


def current(record: Record, event: DecodedRecord, catalogue: Catalogue) -> Rows:
    """The progress of a member of a KIP-848 group towards its target, if the record is about one."""
    key = event.part
    if key is None or event.kind is not RecordKind.KIP848:
        return []
    if key.type is not ConsumerGroupRecord.CURRENT_MEMBER_ASSIGNMENT:
        return []
    place = (key.group, record.partition, record.offset, record.micros, key.member_id)
    said = event.said
    if not isinstance(said, CurrentAssignment):
        return [(*place, None, None, None, None, None, None)]
    unknown: set[str] = set()
    state = said.state.name.lower().replace("_", " ")
    assigned = _plain(_by_name(said.assigned, catalogue, unknown))
    pending = _plain(_by_name(said.pending_revocation, catalogue, unknown))
    return [(*place, said.epoch, said.previous_epoch, state, assigned, pending, sorted(unknown))]


def _by_name(
    assigned: Sequence[AssignedPartitions], catalogue: Catalogue, unknown: set[str]
) -> TopicPartitions:
    by_name: dict[str, Sequence[int]] = {}
    for share in assigned:
        name = catalogue.name_of(share.topic_id)
        if name is None:
            unknown.add(share.topic_id)
        else:
            by_name[name] = share.partitions
    return by_name


@dataclass(slots=True)
class Daily:
    """The figures and the causes of each day, in UTC."""

    figures: dict[tuple[date, str, str], Figures] = field(default_factory=dict)  # with mode and strategy
    churn: dict[tuple[date, Cause], int] = field(default_factory=dict)

    def add_row(self, row: Replayed) -> None:
        if row.problem is not None and row.strategy == RECORDED:
            return
        key = row.timestamp.date(), row.mode, row.strategy
        if key not in self.figures:
            self.figures[key] = Figures()
        self.figures[key].add(row)

    def add_causes(self, when: datetime, found: Sequence[Cause]) -> None:
        for cause in found:
            key = when.date(), cause
            self.churn[key] = self.churn.get(key, 0) + 1

    def tables(self, group: str | None) -> dict[str, Rows]:
        """The rows of `metrics` and `churn`."""
        metrics: Rows = []
        for (day, mode, strategy), sums in self.figures.items():
            metrics.append((*values(verdict_of(group or "", strategy, mode, sums)), day))
        return {
            "metrics": metrics,
            "churn": [(day, group, cause.value, count) for (day, cause), count in self.churn.items()],
        }
