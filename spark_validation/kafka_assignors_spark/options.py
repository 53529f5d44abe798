"""The options of a replay, the progress that it reports, and the error that it raises."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from kafka_assignors.pause_model import PauseModel
from kafka_assignors_spark.folds.faults import FaultRules

__all__ = [
    "COMMITTED_NAMES",
    "MANIFEST",
    "RAW_NAMES",
    "RECORDED",
    "TOPICS_NAMES",
    "WHOLE_GROUPS",
    "Mode",
    "Progress",
    "ReplayError",
    "ReplayOptions",
]

RECORDED = "recorded"
"""The strategy name that stands for what production did."""

MANIFEST = "archive.json"
"""The file that says whose records the directory of an archive holds."""

RAW_NAMES, TOPICS_NAMES = ("raw", "raw.parquet"), ("topics", "topics.parquet")
"""The names that the records, and the catalogue, may have in the directory of a history."""

COMMITTED_NAMES = ("committed", "committed.parquet")
"""The names that the committed offsets beside the records may have there."""

WHOLE_GROUPS = ("generations", "causes", "replayed", "faults")
"""The tables of which a group has all its rows in one file or a few."""


class ReplayError(Exception):
    """The replay cannot run as asked: one line that says what is wrong, where, and what to do."""


class Mode(str, enum.Enum):
    """The starting point of each rebalance in a replay."""

    ONE_STEP = "one-step"
    """Each rebalance starts from the recorded owners before it."""

    STEADY_STATE = "steady-state"
    """Each rebalance starts from the strategy's own last assignment, as if it had been in use from the
    start."""


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """What to replay. Exactly one of `path` and `bootstrap_servers` is given.

    `path` is a history directory (`raw` or `raw.parquet`, and `topics.parquet`) or any Parquet with the
    columns partition, offset, timestamp, key and value. `strategies` are names or `module:attribute`.
    `groups` restricts the replay to these groups, None means all. With `strict` a record that does not
    decode is an error.

    `client_config` are librdkafka properties for a live broker (security and the like), `timeout_seconds`
    the longest wait for it. `master` is Spark's, `spark_config` a file of properties for a session that is
    started.

    `checkpoint` is a directory, anywhere that Spark can write, in which the replay keeps finished slices, and
    from which it continues after it was killed. `sample_groups` is the number of groups, drawn with
    `sample_seed`, that are also replayed without Spark; 0 for none.

    `pauses` are the parameters of the model of pauses, `fault_rules` the thresholds for the clients that make
    groups rebalance. `tables` is a folder that the tables are written into as Parquet.

    With `skip_corrupt` damaged files of a history on a disk are left out; otherwise one is an error.

    `strategy_timeout_s` is the time that a strategy may take for one rebalance; with more it has failed.
    """

    path: str | None = None
    bootstrap_servers: str | None = None
    strategies: tuple[str, ...] = (
        "range",
        "roundrobin",
        "sticky",
        "cooperative-sticky",
        "rack-aware-sticky",
    )
    modes: tuple[Mode, ...] = (Mode.ONE_STEP, Mode.STEADY_STATE)
    groups: tuple[str, ...] | None = None
    strict: bool = False
    topic: str = "__consumer_offsets"
    client_config: Mapping[str, str] = field(default_factory=dict)
    timeout_seconds: float = 10.0
    master: str | None = None
    spark_config: str | None = None
    checkpoint: str | None = None
    sample_groups: int = 3
    sample_seed: int = 0
    pauses: PauseModel = field(default_factory=PauseModel)
    fault_rules: FaultRules = field(default_factory=FaultRules)
    tables: str | None = None
    strategy_timeout_s: float = 60.0
    skip_corrupt: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """One report of a replay's progress.

    `phase` is a short lower-case phrase ("reading the history"), `number` of `phases` counts phases from 1.
    `done` of `total` are the tasks of the phase so far; `total` is 0 while it is not known.
    """

    phase: str
    number: int
    phases: int
    done: int = 0
    total: int = 0
