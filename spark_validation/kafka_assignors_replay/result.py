"""The options of a replay, its progress, its error, and its result; `to_json` prepares it for `json.dumps`.

Times are aware `datetime`s in UTC, counts are partitions or rebalances, ratios are plain fractions.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime
from functools import cache
from typing import Any

from kafka_assignors.arguments import UserError
from kafka_assignors_replay.history.culprits import Culprit as Culprit
from kafka_assignors_replay.history.measures import Mode as Mode
from kafka_assignors_replay.history.measures import Verdict as Verdict
from kafka_assignors_replay.history.pause_model import PauseModel

RECORDED = "recorded"
"""The strategy name that stands for production's own assignments."""

MANIFEST = "archive.json"
"""The file in an archive's directory that says where its records come from."""

OFFSETS_TOPIC = "__consumer_offsets"

RAW_NAMES, TOPICS_NAMES = ("raw", "raw.parquet"), ("topics", "topics.parquet")
"""The names that the records, and the catalogue, may have in the directory of a history."""


class ReplayError(UserError):
    """The replay cannot run as asked: one line that says what is wrong, where, and what to do."""


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """What to replay. Exactly one of `path` and `bootstrap_servers` is given.

    `path` is a history directory (`raw` or `raw.parquet`, and `topics.parquet`) or any Parquet with the
    columns partition, offset, timestamp, key and value. `groups` restricts the replay to these groups. With
    `strict` a record that does not decode is an error; with `skip_corrupt` a damaged file on a disk is none.
    `client_config` are librdkafka properties, `timeout_seconds` the longest wait for a live broker.
    `spark_config` is a file of Spark's properties. `sample_groups` is the number of groups that are replayed
    twice. A strategy fails where a rebalance takes it longer than `strategy_timeout_s`.
    """

    path: str | None = None
    bootstrap_servers: str | None = None
    strategies: tuple[str, ...] = ("range", "roundrobin", "sticky", "cooperative-sticky", "rack-aware-sticky")
    modes: tuple[Mode, ...] = (Mode.ONE_STEP, Mode.STEADY_STATE)
    groups: tuple[str, ...] | None = None
    strict: bool = False
    topic: str = OFFSETS_TOPIC
    client_config: Mapping[str, str] = field(default_factory=dict)
    timeout_seconds: float = 10.0
    spark_config: str | None = None
    sample_groups: int = 3
    pauses: PauseModel = field(default_factory=PauseModel)
    strategy_timeout_s: float = 60.0
    skip_corrupt: bool = False

    @property
    def on_disk(self) -> bool:
        """Whether the history is on a disk of this machine."""
        return self.path is not None and "://" not in self.path


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress: phase `number` of `phases` from 1, and `done` of `total` units in it; 0 if not known."""

    phase: str
    number: int
    phases: int
    done: int = 0
    total: int = 0
    unit: str = "tasks"


@dataclass(frozen=True, slots=True)
class DamagedFile:
    """A file of the history that was left out, and the reason."""

    file: str
    reason: str


@dataclass(frozen=True, slots=True)
class UndecodableRecord:
    """A record that could not be read: its position, its group if that is known, and the reason."""

    partition: int
    offset: int
    group: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class HistorySummary:
    """Counts of the records that were read.

    `records` counts all records, without offset commits. `duplicates` counts the additional copies at one
    partition and offset. `generations` are those of classic groups with members, `empty_generations` those
    without, `tombstones` deleted groups; none counts KIP-848. `skipped_numbers` counts the generation numbers
    that no record shows: superseded rebalances, or lost history. `other_records` are of share or streams
    groups, or rows of other topics. `clock_jumps` counts the generations with an earlier time than the record
    before them.
    """

    source: str
    records: int
    duplicates: int
    groups: int
    generations: int
    empty_generations: int
    tombstones: int
    kip848_records: int
    kip848_groups: int
    other_records: int
    skipped_numbers: int
    clock_jumps: int
    undecodable: int
    first_timestamp: datetime | None
    last_timestamp: datetime | None


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """One group's history, and how much of it can be replayed.

    `protocols` are the strategies production ran, `rebalance_protocols` those that they imply (eager,
    cooperative, kip-848). The stock consumer of `eager_clients` is eager, and no member of theirs joined with
    partitions that it kept. `rebalances` counts the generations of one cooperative hand-over once;
    `not_replayed` are by reason. `causes` count generations: one of several causes counts under each. The
    generations lie in `partition` of the offsets topic.
    """

    group: str
    generations: int
    rebalances: int
    replayed_rebalances: int
    not_replayed: Mapping[str, int]
    causes: Mapping[str, int]
    incarnations: int
    skipped_numbers: int
    clock_jumps: int
    protocols: tuple[str, ...]
    rebalance_protocols: tuple[str, ...]
    clients: tuple[str, ...]
    eager_clients: tuple[str, ...]
    min_members: int
    max_members: int
    topics: tuple[str, ...]
    max_partitions: int
    first_timestamp: datetime
    last_timestamp: datetime
    partition: int
    first_offset: int
    last_offset: int
    inferred_topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Difference:
    """A recorded generation whose assignment differs from the replayed one; `explanation` is None where the
    evidence shows no reason."""

    group: str
    partition: int
    offset: int
    generation: int
    client: str
    strategy: str
    explanation: str | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ClientAgreement:
    """How many generations of one strategy, led by one kind of client, the replay repeats exactly.

    `must_match` is True for the Java client and for kafka-assignors. `unchecked` counts generations without a
    usable catalogue entry, `explained` the differences by explanation.
    """

    client: str
    strategy: str
    must_match: bool
    checked: int
    matched: int
    unchecked: int
    explained: Mapping[str, int]
    unexplained: int


@dataclass(frozen=True, slots=True)
class TruthCheck:
    """Whether a replay of `range` and `roundrobin` gives the recorded assignments."""

    clients: tuple[ClientAgreement, ...]
    differences: tuple[Difference, ...]

    @property
    def holds(self) -> bool:
        """Whether every checked generation whose leader must match does, or its difference is explained."""
        return all(client.unexplained == 0 for client in self.clients if client.must_match)

    @property
    def checked(self) -> int:
        return sum(client.checked for client in self.clients if client.must_match)

    @property
    def matched(self) -> int:
        return sum(client.matched for client in self.clients if client.must_match)


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The whole result. `sample` are the groups that were replayed a second time, with the same sums.
    `warnings` say what could not be read, and the consequences. `damaged_files` counts
    the files that were left out, `damaged` lists the first hundred."""

    options: ReplayOptions
    history: HistorySummary
    groups: tuple[GroupSummary, ...]
    verdicts: tuple[Verdict, ...]
    culprits: tuple[Culprit, ...]
    truth: TruthCheck
    sample: tuple[str, ...]
    undecodable: tuple[UndecodableRecord, ...]
    warnings: tuple[str, ...]
    versions: Mapping[str, str]
    seconds: float
    damaged_files: int = 0
    damaged: tuple[DamagedFile, ...] = ()


_PLAIN = frozenset({str, int, float, bool, type(None)})


@cache
def _field_names(kind: Any) -> tuple[str, ...]:
    """The names of the fields of a dataclass or named tuple; none of any other type."""
    return tuple(each.name for each in fields(kind)) if is_dataclass(kind) else getattr(kind, "_fields", ())


def to_json(value: Any) -> Any:
    """`value` as `json.dumps` takes it: dataclasses become objects, times ISO 8601, enums their value.

    Client configuration may hold passwords, so of `ReplayOptions.client_config` only the names are given.
    """
    kind: Any = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, enum.Enum):
        return value.value
    if names := _field_names(kind):
        result = {
            name: each if type(each := getattr(value, name)) in _PLAIN else to_json(each) for name in names
        }
        if isinstance(value, ReplayOptions):
            result["client_config"] = sorted(value.client_config)
        if isinstance(value, TruthCheck):
            result["holds"] = value.holds
        return result
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, (tuple, list, set, frozenset)):
        return [to_json(item) for item in value]
    if isinstance(value, datetime):
        return value.isoformat()
    return value
