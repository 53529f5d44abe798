"""The offsets that a group commits: each partition has its own rate, which follows the time of day.

    rate of a partition = min(1,000, 20 * Pareto(1.5)) records a second * the curve of the day * noise

The curve is 0.5 at two in the morning and 1.5 at two in the afternoon. Each partition has one commit in each
interval, as in an archive with `--committed-offsets`.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafka_assignors_replay.folds.consumer_offsets import group_partition
from kafka_assignors_replay.folds.records import to_micros
from spark_validation.fleet.happenings import daylight
from spark_validation.fleet.profile import START, FleetOptions, GroupProfile, topics_of

__all__ = ["CommitRow", "commits"]

_RATE = 20.0
_MOST_RATE = 1_000.0

CommitRow = tuple[int, int, int, str, str, int, int, int]
"""The record's partition, offset and time in microseconds; then group, topic, partition of the topic,
committed offset and interval in seconds."""


def commits(options: FleetOptions, profile: GroupProfile) -> Iterator[CommitRow]:
    """The commits of one group, ordered by time."""
    rng = options.random("commits", profile.index)
    every_ms, start = 1000 * options.committed_offsets_s, to_micros(START)
    place = group_partition(profile.group, options.offsets_partitions)
    plans = topics_of(options, profile.topics)
    rates = {
        (plan.topic.name, number): min(_MOST_RATE, _RATE * rng.paretovariate(1.5))
        for plan in plans
        for number in range(plan.grown.partitions if plan.grows_at_ms is not None else plan.topic.partitions)
    }
    offsets = dict.fromkeys(rates, 0.0)
    for begin in range(0, options.duration_ms, every_ms):
        of_the_day = 0.5 + daylight(begin)
        for order, ((topic, number), rate) in enumerate(rates.items()):
            offsets[topic, number] += rate * of_the_day * rng.uniform(0.8, 1.2) * options.committed_offsets_s
            if number < next(plan.at(begin).partitions for plan in plans if plan.topic.name == topic):
                at_ms = begin + every_ms - 1 - order % every_ms
                committed = int(offsets[topic, number])
                yield (
                    *(place, at_ms * options.groups + profile.index, start + 1000 * at_ms),
                    *(profile.group, topic, number, committed, options.committed_offsets_s),
                )
