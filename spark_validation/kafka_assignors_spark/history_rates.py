"""The rates at which a group consumed in an archived history, for a group that is to be sized.

    weights = rates_of_history("archive/", "billing", percentile=95)

It reads the kept commits of a history on a disk with pyarrow, and needs no Spark. The memory is that of the
commits of one group: about 50 bytes each while they are sorted, and 16 bytes each while they are counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from kafka_assignors.group import InvalidGroupError
from kafka_assignors.weights import GivenWeights
from kafka_assignors_spark.catalogue import Catalogue
from kafka_assignors_spark.folds.rates import RateHistory
from kafka_assignors_spark.history import COMMITS, catalogue_rows, commits_of, committed_files, rows_of
from kafka_assignors_spark.result import ReplayError


def rates_of_history(folder: str, group: str, percentile: float = 95.0) -> GivenWeights:
    """The rate of each partition that the group committed, in milli-records a second, from 0 on.

    It is the rate that the partition did not exceed in `percentile` per cent of the time between its first
    and its last commit; 100 gives the greatest rate from one commit to the next. None for a partition of
    which no rate is known (`folds.rates` has the rules). The busiest times of partitions may differ, so that
    the sum over the partitions is at least the rate of the group at its percentile, and may be above it.

    ValueError for a percentile that is none. `ReplayError` if the folder has no kept commits, or none of this
    group, or what is there does not read.
    """
    if not 0 <= percentile <= 100:
        raise ValueError(f"percentile must be from 0 to 100, not {percentile!r}")
    files = committed_files(folder)
    if not files and not Path(folder).exists():
        raise ReplayError(f"{folder}: there is no such file or directory")
    if not files:
        raise ReplayError(
            f"{folder}: no committed offsets are kept here; archive --committed-offsets SECONDS keeps them"
        )
    found = commits_of(files, group)
    if not found.num_rows:
        raise ReplayError(f"{folder}: there are no committed offsets of group {group!r}")
    rates: dict[str, dict[int, int | None]] = {}
    for topic, partition, history, interval_s in _histories(found):
        rates.setdefault(topic, {})[partition] = history.rate_at(percentile, interval_s)
    counts = _partition_counts(folder)
    return {
        topic: [of_topic.get(number) for number in range(max(counts.get(topic, 0), max(of_topic) + 1))]
        for topic, of_topic in sorted(rates.items())
    }


def _histories(sorted_commits: pa.Table) -> Iterator[tuple[str, int, RateHistory, int]]:
    """Topic, partition, rates and the longest interval of each partition."""
    history, interval_s, last = RateHistory(), 1, None
    for batch in sorted_commits.to_batches(max_chunksize=10_000):
        for _, _, micros, _, topic, partition, committed, commit_interval_s in rows_of(batch, COMMITS):
            if topic is None or partition is None or not 0 <= partition < _MOST_PARTITIONS or micros is None:
                continue
            place: tuple[str, int] = (topic, partition)
            if last is not None and place != last:
                yield *last, history, interval_s
                history, interval_s = RateHistory(), 1
            last = place
            interval_s = max(interval_s, commit_interval_s or 1)
            history.add(micros, committed, commit_interval_s or 1)
    if last is not None:
        yield *last, history, interval_s


_MOST_PARTITIONS = 100_000
"""A partition with a greater number is none: one would stand for a list of as many unknown rates."""


def _partition_counts(folder: str) -> dict[str, int]:
    """How many partitions the topics have by the latest entry of the catalogue, if there is one."""
    found = catalogue_rows(folder)
    if found is None:
        return {}
    place, rows = found
    try:
        catalogue = Catalogue.from_rows(rows)
    except InvalidGroupError as error:
        raise ReplayError(f"{Path(place)}: {error}") from None
    return {name: catalogue.entries(name)[-1].partitions for name in {row["topic"] for row in rows}}
