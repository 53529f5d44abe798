"""The rows of the tables that a user may ask for, as plain values in the order of the columns of
`schemas.TABLES`.

Times are microseconds since 1970, and partitions by topic are a list of pairs, as Arrow takes a map.
"""

from __future__ import annotations

import enum
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from datetime import date, datetime
from functools import partial
from typing import Any

from kafka_assignors.group import TopicPartitions
from kafka_assignors_replay.catalogue import Catalogue
from kafka_assignors_replay.history.consumer_offsets import ConsumerGroupRecord
from kafka_assignors_replay.history.generations import Record
from kafka_assignors_replay.history.group_replay import Replayed
from kafka_assignors_replay.history.kip848_records import CurrentAssignment, Partitions
from kafka_assignors_replay.history.measures import Measures, Mode, Sums
from kafka_assignors_replay.history.rebalances import Cause, Generation
from kafka_assignors_replay.history.records import DecodedRecord, RecordKind, to_micros
from kafka_assignors_replay.history.sums import add_row

Rows = list[tuple[Any, ...]]


GENERATIONS = (
    *("group", "partition", "offset", "timestamp", "incarnation", "generation", "type", "protocol_type"),
    *("protocol", "leader", "version", "empty", "replacement", "skipped", "gap_before", "lost"),
    *("starts_late", "clock_back", "reason", "problem", "unknown_topics", "facts", "member_count", "clients"),
    *("topics", "holds", "value_bytes"),
)
"""The columns of `generations`, which `history.rebalances.Generation` describes; `clients` and `topics` are
those of the members that decode."""

MEMBERS = (
    *("group", "offset", "generation", "member_id", "instance_id", "rack", "client_id", "client"),
    *("client_host", "version", "topics", "owned", "owned_generation", "revoked", "assigned", "pattern"),
    "assignor",
)
"""The columns of `members`, which `history.records.MemberRecord` describes."""


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


def replayed(row: Replayed) -> tuple[Any, ...]:
    """The row of `replayed`, in which each measure is a column."""
    place, rest = row[:_MEASURES_AT], row[_MEASURES_AT + 1 :]
    return (*map(_plain, place), *(row.measures or _NOT_MEASURED), *map(_plain, rest))


_MEASURES_AT = Replayed._fields.index("measures")
_NOT_MEASURED = (None,) * len(Measures._fields)


def of_generation(record: Generation) -> dict[str, Rows]:
    """The rows of `generations`, `members` and `assignments`."""
    members = list(record.members.values())
    own = {
        "protocol": record.protocol or None,
        "gap_before": record.skipped > 0,
        "facts": [{"fact": fact.value, "subject": subject} for fact, subject in record.facts],
        "member_count": len(members),
        "clients": sorted({member.client for member in members}),
        "topics": sorted({topic for member in members for topic in member.topics}),
    }
    place = (record.group, record.offset, record.generation)
    return {
        "generations": [
            tuple(own[name] if name in own else _plain(getattr(record, name)) for name in GENERATIONS)
        ],
        "members": [
            (*place, *(_plain(getattr(member, name)) for name in MEMBERS[len(place) :])) for member in members
        ],
        "assignments": [
            (*place, member.member_id, topic, list(numbers))
            for member in members
            for topic, numbers in member.assigned.items()
        ],
    }


def causes(record: Generation, found: Sequence[Cause]) -> tuple[Any, ...]:
    place = (record.group, record.partition, record.offset, record.generation, to_micros(record.timestamp))
    return (*place, [cause.value for cause in found])


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


def _by_name(partitions: Partitions, catalogue: Catalogue, unknown: set[str]) -> TopicPartitions:
    by_name: dict[str, Sequence[int]] = {}
    for topic_id, numbers in partitions.items():
        name = catalogue.name_of(topic_id)
        if name is None:
            unknown.add(topic_id)
        else:
            by_name[name] = numbers
    return by_name


@dataclass(slots=True)
class Daily:
    """The figures and the causes of each day, in UTC."""

    # With mode and strategy.
    figures: defaultdict[tuple[date, str, str], Sums] = field(default_factory=partial(defaultdict, Sums))
    churn: Counter[tuple[date, Cause]] = field(default_factory=Counter)

    def add_row(self, row: Replayed) -> None:
        add_row(self.figures, (row.timestamp.date(), row.mode, row.strategy), row)

    def add_causes(self, when: datetime, found: Sequence[Cause]) -> None:
        self.churn.update((when.date(), cause) for cause in found)

    def tables(self, group: str | None) -> dict[str, Rows]:
        """The rows of `metrics` and `churn`."""
        metrics: Rows = []
        for (day, mode, strategy), sums in self.figures.items():
            metrics.append((*values(sums.verdict(group or "", strategy, Mode(mode))), day))
        return {
            "metrics": metrics,
            "churn": [(day, group, cause.value, count) for (day, cause), count in self.churn.items()],
        }
