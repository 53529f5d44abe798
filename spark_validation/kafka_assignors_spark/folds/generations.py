"""The values that the fold of a KIP-848 group yields: generations, and the facts that led to them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from kafka_assignors_spark.folds.records import MemberRecord, RecordKind

__all__ = [
    "CLASSIC",
    "CONSUMER",
    "DEFAULT_ASSIGNOR",
    "HISTORY_STARTS",
    "MEMBERS_WENT",
    "TORN",
    "UNPROVEN",
    "UNREADABLE",
    "WITHOUT_METADATA",
    "FoldedGeneration",
    "Kip848Fact",
]

CLASSIC, CONSUMER = "classic", "consumer"
"""The `type` of a generation: the protocol of its group, classic or that of KIP-848."""

DEFAULT_ASSIGNOR = "server default"
"""The protocol of a generation whose members ask for no assignor: no record shows the broker's choice."""

HISTORY_STARTS = "the history starts in the middle of the group's life, and may not have all of its members"
UNPROVEN = "records before it are lost, and nothing has shown since that all of its members are still there"
UNREADABLE = "a record that it rests on does not decode"
WITHOUT_METADATA = "members of it are not described by any record"
MEMBERS_WENT = "members left while their assignment was made"
TORN = (
    "records of the group lie in several partitions, so that their order is not known: the offsets topic was "
    "given more partitions, or these are records of two clusters"
)


class Kip848Fact:
    """A change between two generations that only the records of KIP-848 show."""

    EXPIRED = "expired"
    """The broker removed a static member that was away; no member had returned under its instance id."""

    REBALANCE_TIMEOUT = "rebalance timeout"
    """The broker removed a member that had not revoked its partitions within its rebalance timeout."""

    PATTERN_RESOLVED = "pattern resolved anew"
    """A regular expression matches other topics than before, or was looked up for the first time."""

    TOPICS_CHANGED = "topics changed"
    """The subscribed topics are the same, and the hash over their metadata differs."""

    PARTITIONS_ADDED = "partitions added"
    """The group's own list of topics has more partitions of one (brokers before the hash)."""

    MIGRATED = "migrated"
    """The group changed its protocol."""


@dataclass(frozen=True, slots=True)
class FoldedGeneration:
    """A generation, an empty one, or the end of a group, at the record that completes it.

    `continues` says that it continues the life of the generation before, although that ended with a
    tombstone; `starts_late` that it is the first of a life whose first epochs are not in the history. `lost`
    counts the epochs before it that no record shows. `unknown_topics` are topic ids that the catalogue does
    not name; they are missing in what members are `assigned`. `facts` pair a constant of `Kip848Fact` with
    the member, topic or pattern that it concerns.
    """

    kind: RecordKind
    offset: int
    timestamp: datetime
    generation: int | None = None
    protocol: str | None = None
    members: tuple[MemberRecord, ...] = ()
    continues: bool = False
    starts_late: bool = False
    lost: int = 0
    problem: str | None = None
    unknown_topics: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
