"""The replay on Spark: `steps -> replayed`, every group on its own.

Spark brings the records of each group together and in order; `folds.replay` does the rest, one record at a
time. So groups run in parallel, and no group has to fit into memory. A group may be replayed in chunks, one
after the other (see `slices`), and then in several *parts* at once: strategies in a steady-state replay are
independent of each other.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, IntegerType, StructType

from kafka_assignors.group import quoted
from kafka_assignors.pause_model import PauseModel
from kafka_assignors.strategies.registry import load_strategy
from kafka_assignors_spark.catalogue import Catalogue
from kafka_assignors_spark.folds.rebalances import COLUMNS, Generation
from kafka_assignors_spark.folds.replay import GroupReplay
from kafka_assignors_spark.folds.replay_state import StateError
from kafka_assignors_spark.jobs.per_group import apply_to_groups
from kafka_assignors_spark.options import Mode
from kafka_assignors_spark.schemas import REPLAYED

__all__ = ["CHUNK", "FILE", "ReplayPart", "parts_of", "replay", "replay_chunk", "without_states"]

CHUNK = StructType([*REPLAYED.fields]).add("part", IntegerType()).add("state", BinaryType())
"""A row of `schemas.REPLAYED` with a null `state`; or only the state in which a group and part were left."""

_NO_ROW = (None,) * (len(REPLAYED.fields) - 1)


_REMEDY = "remove the checkpoint and start again"


FILE = "file"
"""The column with the file of a state, in the rows of a store that keeps files: errors name it."""


@dataclass(frozen=True, slots=True)
class ReplayPart:
    """A part of the work on a group that is independent of the other parts."""

    strategies: tuple[str, ...]
    modes: tuple[Mode, ...]
    recorded: bool


def parts_of(strategies: Sequence[str], modes: Sequence[Mode]) -> tuple[ReplayPart, ...]:
    """First the part with all the work, for a group that one task replays; then the parts that share the same
    work."""
    together = ReplayPart(tuple(strategies), tuple(modes), recorded=True)
    apart = []
    if Mode.ONE_STEP in modes:
        apart.append(ReplayPart(tuple(strategies), (Mode.ONE_STEP,), recorded=True))
    if Mode.STEADY_STATE in modes:
        apart += [
            ReplayPart((name,), (Mode.STEADY_STATE,), recorded=not place)
            for place, name in enumerate(strategies)
        ]
    return (together, *apart)


def replay(
    steps: DataFrame,
    catalogue: Catalogue,
    strategies: Sequence[str],
    modes: Iterable[Mode] = tuple(Mode),
    pauses: PauseModel | None = None,
) -> DataFrame:
    """`history.steps` replayed under each strategy (a name, or `module:attribute`), as `schemas.REPLAYED`.

    Each worker loads the strategies again, from the import path of this process.
    """
    chunks = steps.withColumn("part", F.lit(0)).withColumn("last", F.lit(True))
    return without_states(replay_chunk(chunks, None, catalogue, parts_of(strategies, tuple(modes)), pauses))


def without_states(chunks: DataFrame) -> DataFrame:
    """The replayed rows, without the states."""
    return chunks.where(F.col("state").isNull()).drop("part", "state", FILE)


def replay_chunk(
    chunks: DataFrame,
    states: DataFrame | None,
    catalogue: Catalogue,
    parts: Sequence[ReplayPart],
    pauses: PauseModel | None = None,
) -> DataFrame:
    """Some consecutive `history.steps` of each group and part, replayed as `CHUNK`.

    `part` numbers `parts`, and `last` says that these steps are the last ones of their group. `states` are
    the states of the groups after the steps before; the result has a new state for each group with more steps
    to come.
    """
    work, import_path = tuple(parts), tuple(sys.path)
    model = pauses or PauseModel()

    class GroupReplayer:
        """Spark makes one for every group and part, and hands it the state, if there is one, and the steps in
        order."""

        def __init__(self) -> None:
            sys.path.extend(path for path in import_path if path not in sys.path)
            self._group: str
            self._part: int
            self._replay: GroupReplay | None = None
            self._last = False

        def eval(self, row: Any) -> Iterator[tuple[Any, ...]]:
            if self._replay is None:
                self._group, self._part = row["group"], row["part"]
                if not 0 <= self._part < len(work):
                    raise StateError(f"{row['file']}: there is no part {self._part}; {_REMEDY}")
                part = work[self._part]
                loaded = {name: load_strategy(name) for name in part.strategies}
                self._replay = GroupReplay(catalogue, loaded, part.modes, model, recorded=part.recorded)
            self._last = row["last"]
            if row["state"] is not None:
                try:
                    self._replay.restore(bytes(row["state"]))
                except StateError as error:
                    of = f"{row['file']}: the state of group {quoted(self._group)} does not read"
                    raise StateError(f"{of}: {error}; {_REMEDY}") from None
                return
            for replayed in self._replay.feed(Generation.from_row(row)):
                yield (*replayed.row(), self._part, None)

        def terminate(self) -> Iterator[tuple[Any, ...]]:
            if self._replay is None:
                return
            if not self._last:
                yield (self._group, *_NO_ROW, self._part, self._replay.state())
                return
            for replayed in self._replay.finish():
                yield (*replayed.row(), self._part, None)

    nothing = (F.lit(None).cast("binary").alias("state"), F.lit(None).cast("string").alias(FILE))
    rows = chunks.select("partition", *COLUMNS, "part", "last", *nothing)
    if states is not None:
        # No record has a negative offset, so that a state comes first.
        before = states.select(
            "group",
            "part",
            "state",
            (F.col(FILE) if FILE in states.columns else F.lit(None).cast("string")).alias(FILE),
            F.lit(-1).alias("partition"),
            F.lit(False).alias("last"),
        )
        rows = rows.unionByName(before, allowMissingColumns=True)
    return apply_to_groups(rows, ("group", "part"), ("partition", "offset"), GroupReplayer, CHUNK)
