"""The options of a replay, the progress that it reports, and the error that it raises."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from kafka_assignors.pauses import PauseModel
from kafka_assignors_spark.folds.faults import FaultRules

__all__ = ["RECORDED", "Mode", "Progress", "ReplayError", "ReplayOptions"]

RECORDED = "recorded"
"""The strategy name that stands for what production did."""


class ReplayError(Exception):
    """A replay that cannot be done as asked: one line that says what is wrong, where, and what to do."""


class Mode(str, enum.Enum):
    """Which of two questions a verdict answers."""

    ONE_STEP = "one-step"
    """Given what production had before each rebalance, what would the strategy have done next?"""

    STEADY_STATE = "steady-state"
    """Had the strategy been running all along, each rebalance starting from its own last assignment?"""


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

    `checkpoint` is a directory, anywhere that Spark can write, in which the replay keeps what is done, and
    from which it goes on after it was killed. `sample_groups` is how many groups are replayed once more
    without Spark, drawn with `sample_seed`; 0 does without.

    `pauses` are the parameters of the model of pauses, `fault_rules` the thresholds of who is at fault.
    `tables` is a folder that the tables are written into as Parquet.
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


@dataclass(frozen=True, slots=True)
class Progress:
    """One report of how far a replay has come.

    `phase` is a short lower-case phrase ("reading the history"), `number` of `phases` counts phases from 1.
    `done` of `total` are the tasks of the phase so far; `total` is 0 while it is not known.
    """

    phase: str
    number: int
    phases: int
    done: int = 0
    total: int = 0
