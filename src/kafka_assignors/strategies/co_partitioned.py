"""`co-partitioned`: same-numbered partitions of some topics stay on one member; sticky and balanced.

For processes that join streams by key, as Kafka Streams and Faust do: partition 7 of `orders` and of
`payments` hold the same customers, so one member has to have both. See `rules.co_partitioned`.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafka_assignors.strategies.composed import Composed
from kafka_assignors.strategies.rules.balance import LevelPartitions
from kafka_assignors.strategies.rules.co_partitioned import KeepTogether
from kafka_assignors.strategies.rules.tie_breakers import FewestMoves, FewestRackMisses

__all__ = ["CoPartitioned"]


class CoPartitioned(Composed):
    """Same-numbered partitions of the topics of each set go to one member; balance first, then movement.

        CoPartitioned([["orders", "payments"], ["clicks", "views"]])

    Exactly optimal in balance, then movement, then rack misses, where a set of same-numbered partitions
    counts as one. The sets have to be the same on all members. ValueError for a topic in two sets, or alone
    in one.
    """

    __slots__ = ()

    def __init__(self, topics: Iterable[Iterable[str]]) -> None:
        super().__init__(
            "co-partitioned", (KeepTogether(topics), LevelPartitions(), FewestMoves(), FewestRackMisses())
        )
