"""The rows of the tables that a user may ask for: see `schemas.TABLES`, whose order of columns they have.

Times are microseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields
from datetime import date, datetime
from typing import Any

from kafka_assignors.wire import AssignedPartitions, ConsumerGroupRecord, CurrentAssignment
from kafka_assignors_spark.catalogue import Catalogue
from kafka_assignors_spark.folds.causes import Cause
from kafka_assignors_spark.folds.clients import client_of
from kafka_assignors_spark.folds.lives import Record, RecordedGeneration
from kafka_assignors_spark.folds.records import DecodedRecord, MemberRecord, RecordKind
from kafka_assignors_spark.folds.replay import Replayed
from kafka_assignors_spark.folds.sums import Figures
from kafka_assignors_spark.folds.verdicts import verdict_of
from kafka_assignors_spark.options import RECORDED
from kafka_assignors_spark.result import Verdict
from kafka_assignors_spark.timestamps import to_micros

__all__ = ["Daily", "Rows", "causes", "current", "of_generation", "values"]

Rows = list[tuple[Any, ...]]

values = astuple


def of_generation(recorded: RecordedGeneration) -> dict[str, Rows]:
    """The rows of `generations`, `members` and `assignments`."""
    record = recorded.generation
    place = (record.group, record.offset, record.generation)
    members = list(record.members.values())
    return {
        "generations": [_generation(recorded)],
        "members": [(*place, *_member(member)) for member in members],
        "assignments": [
            (*place, member.member_id, topic, list(numbers))
            for member in members
            for topic, numbers in member.assigned.items()
        ],
    }


def _generation(recorded: RecordedGeneration) -> tuple[Any, ...]:
    record = recorded.generation
    members = record.members.values()
    return (
        record.group,
        recorded.partition,
        record.offset,
        to_micros(record.timestamp),
        record.incarnation,
        record.generation,
        record.type,
        recorded.protocol_type,
        record.protocol or None,
        record.leader,
        recorded.version,
        record.empty,
        record.replacement,
        record.skipped,
        record.skipped > 0,
        record.lost,
        record.starts_late,
        recorded.clock_back,
        recorded.reason,
        record.problem,
        list(recorded.unknown_topics),
        [{"fact": fact, "subject": subject} for fact, subject in record.facts],
        len(members),
        sorted({client_of(member.client_id) for member in members}),
        sorted({topic for member in members for topic in member.topics}),
        any(member.owned and not member.revoked for member in members),
        recorded.value_bytes,
    )


def _member(member: MemberRecord) -> tuple[Any, ...]:
    return (
        member.member_id,
        member.instance_id,
        member.rack,
        member.client_id,
        client_of(member.client_id),
        member.client_host,
        member.version,
        list(member.topics),
        _by_topic(member.owned),
        member.owned_generation,
        member.revoked,
        _by_topic(member.assigned),
        member.pattern,
        member.assignor,
    )


def _by_topic(partitions: Mapping[str, Sequence[int]]) -> list[tuple[str, list[int]]]:
    """As Arrow takes a map."""
    return [(topic, list(numbers)) for topic, numbers in partitions.items()]


def causes(recorded: RecordedGeneration, found: Sequence[Cause]) -> tuple[Any, ...]:
    record = recorded.generation
    place = (record.group, recorded.partition, record.offset, record.generation)
    return (*place, to_micros(record.timestamp), [cause.value for cause in found])


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
    assigned = _by_name(said.assigned, catalogue, unknown)
    pending = _by_name(said.pending_revocation, catalogue, unknown)
    return [(*place, said.epoch, said.previous_epoch, state, assigned, pending, sorted(unknown))]


def _by_name(
    assigned: Sequence[AssignedPartitions], catalogue: Catalogue, unknown: set[str]
) -> list[tuple[str, list[int]]]:
    by_name: dict[str, list[int]] = {}
    for share in assigned:
        name = catalogue.name_of(share.topic_id)
        if name is None:
            unknown.add(share.topic_id)
        else:
            by_name[name] = list(share.partitions)
    return _by_topic(by_name)


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
            verdict = verdict_of(group or "", strategy, mode, sums)
            row = [getattr(verdict, each.name) for each in fields(Verdict)]
            metrics.append((*row[:2], mode, *row[3:-1], list(verdict.failures), day))
        return {
            "metrics": metrics,
            "churn": [(day, group, cause.value, count) for (day, cause), count in self.churn.items()],
        }
