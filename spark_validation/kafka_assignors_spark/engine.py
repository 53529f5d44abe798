"""What runs a replay: an engine brings records to `folds.group`, and carries away what comes of them.

There are two. Spark takes a history of any size, on a cluster too; the local engine runs the same functions
in this process and a few workers, with pyarrow alone. What they replay, and every figure, is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from kafka_assignors_spark.folds.group import FoldWork, SortedRecord
from kafka_assignors_spark.history import table_on_disk
from kafka_assignors_spark.options import ReplayOptions
from kafka_assignors_spark.result import TableFile

OnTasks = Callable[[int, int], None]
"""Is told how many tasks are done, and how many there are."""


RECORD_BYTES = 100
"""The cost of a record beside its value, in bytes."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is replayed at a time, in bytes of records: of one group, and of all of them."""

    chunk_bytes: int = 64 << 20
    slice_bytes: int = 512 << 20

    def slices(self, size: int, chunks: Mapping[bytes | None, int]) -> int:
        """The slices of so many bytes of records, of which giants have these numbers of chunks."""
        return max(1, -(-size // self.slice_bytes), *chunks.values())


@dataclass(frozen=True, slots=True)
class Survey:
    """What has to be known of all records before one is folded; `folds.group.FoldWork` has the meaning of
    `giants`, `torn` and `collided`. `digest` is equal for the same records in any order.

    `misplaced` counts the records whose column of that name is null, negative or too large.
    """

    slices: int = 1
    giants: Mapping[bytes | None, int] = field(default_factory=dict)
    torn: frozenset[bytes | None] = frozenset()
    collided: frozenset[tuple[int, int]] = frozenset()
    misplaced: Mapping[str, int] = field(default_factory=dict)
    digest: str = ""


class Engine(Protocol):
    """One replay on one history, in the order of these methods."""

    def survey(self, limits: Limits) -> Survey:
        """Look at all records once."""
        ...

    def has_rates(self) -> bool:
        """Whether committed offsets were kept beside the records, from which rates are known."""
        ...

    def named_topics(self) -> Iterable[str]:
        """The topics that members subscribe to."""
        ...

    def catalogue_rows(self) -> tuple[str, list[dict[str, Any]]] | None:
        """The path and the rows of the catalogue beside the records, if there is one; times in
        microseconds."""
        ...

    def begin(self, work: FoldWork, describes: Mapping[str, Any]) -> None:
        """Take the work, of which a checkpoint `describes` all that a result depends on."""
        ...

    def run_slice(self, number: int, on_tasks: OnTasks) -> Iterator[tuple[str, bytes]]:
        """Fold a slice of the records: the sums of groups, and the name of the place that has them."""
        ...

    def details(self, groups: Iterable[bytes]) -> dict[bytes, list[bytes]]:
        """The details of these groups, in the order of their chunks."""
        ...

    def records_of(self, groups: Iterable[str]) -> list[SortedRecord]:
        """The sorted records of a few groups."""
        ...

    def write_tables(self, folder: str) -> tuple[TableFile, ...]:
        """Write the tables of all slices, and say which files hold the rows of which group."""
        ...

    def count_commits(self) -> int:
        """How many records of the history are offset commits."""
        ...


def only_spark(options: ReplayOptions) -> str | None:
    """What of the options only Spark can do, as the beginning of a sentence; None if there is nothing."""
    if options.path is None:
        return "a live cluster is read by Spark"
    if "://" in options.path:
        return f"{options.path}: a URL is read by Spark"
    if options.checkpoint is not None:
        return "a checkpoint is kept by Spark"
    if (table := table_on_disk(options.path)) is not None:
        return f"{table[0]}: a table of the format {table[1]} is read by Spark"
    return None
