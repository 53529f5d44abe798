"""The replay on Spark: `steps -> replayed`, every group on its own.

Spark brings the records of each group together and in order; `group_replay` does the rest, one record at a
time. So groups run in parallel, and no group has to fit into memory.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pyspark.sql import DataFrame

from kafka_assignors.pauses import PauseModel
from kafka_assignors.strategies.registry import load_strategy
from kafka_assignors_spark.catalogue import Catalogue
from kafka_assignors_spark.group_replay import GroupReplay
from kafka_assignors_spark.rebalances import Generation
from kafka_assignors_spark.result import Mode
from kafka_assignors_spark.table_functions import apply_to_groups
from kafka_assignors_spark.tables import REPLAYED

__all__ = ["replay"]


def replay(
    steps: DataFrame,
    catalogue: Catalogue,
    strategies: Sequence[str],
    modes: Iterable[Mode] = tuple(Mode),
    pauses: PauseModel | None = None,
) -> DataFrame:
    """`history.steps` replayed under each strategy (a name, or `module:attribute`), as `tables.REPLAYED`.

    The strategies are loaded again where the work is done, from the import path of this process.
    """
    names, asked, import_path = tuple(strategies), tuple(modes), tuple(sys.path)
    model = pauses or PauseModel()

    class GroupReplayer:
        """Spark makes one for every group, and hands it the group's records in order."""

        def __init__(self) -> None:
            sys.path.extend(path for path in import_path if path not in sys.path)
            loaded = {name: load_strategy(name) for name in names}
            self._replay = GroupReplay(catalogue, loaded, asked, model)

        def eval(self, row: Any) -> Iterator[tuple[Any, ...]]:
            for replayed in self._replay.feed(Generation.from_row(row)):
                yield replayed.row()

        def terminate(self) -> Iterator[tuple[Any, ...]]:
            for replayed in self._replay.finish():
                yield replayed.row()

    return apply_to_groups(steps, "group", ("partition", "offset"), GroupReplayer, REPLAYED)
