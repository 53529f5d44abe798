"""What the folding of a KIP-848 group gives: generations, and what is known of how they came about."""

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
"""The `type` of a generation: by which protocol its group was run, the latter is that of KIP-848."""

DEFAULT_ASSIGNOR = "server default"
"""The protocol of a generation whose members ask for no assignor: no record says what the broker takes."""

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
    """What happened between two generations, as far as only the records of KIP-848 show it."""

    EXPIRED = "expired"
    """A static member that was away was removed, and nobody had come back as it."""

    REBALANCE_TIMEOUT = "rebalance timeout"
    """A member was removed that still had partitions to revoke, when its rebalance timeout was over."""

    PATTERN_RESOLVED = "pattern resolved anew"
    """A regular expression matches other topics than before, or was looked up for the first time."""

    TOPICS_CHANGED = "topics changed"
    """The same topics are subscribed to, and the hash over their metadata is another."""

    PARTITIONS_ADDED = "partitions added"
    """The group's own list of topics has more partitions of one (brokers before the hash)."""

    MIGRATED = "migrated"
    """The group changed its protocol."""


@dataclass(frozen=True, slots=True)
class FoldedGeneration:
    """A generation, an empty one, or the end of a group, at the record that completes it.

    `continues` says that it goes on with the life of the generation before although that ended with a
    tombstone, `starts_late` that it is the first of a life whose first epochs are not in the history. `lost`
    counts the epochs before it that no record shows. `unknown_topics` are topic ids that the catalogue does
    not name; they are missing in what members are `assigned`. `facts` are of class `Kip848Fact`, each with
    whom or what it is about.
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
