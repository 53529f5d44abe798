"""The optimum of a group, from `tests.exact_oracle`, which shares no code with our solver. It needs scipy."""

from __future__ import annotations

from compat_tests.corpus.scenario import Best
from kafka_assignors.criteria import MOVES_THEN_RACKS, RACKS_THEN_MOVES
from kafka_assignors.group import Group
from tests.exact_oracle import Oracle
from tests.exact_score import load_histogram, score


def best_of(group: Group) -> Best:
    """The optimum of a group, from the independent solver."""
    oracle = Oracle(group)
    by_movement, by_racks = (
        oracle.best_owners(criteria) for criteria in (MOVES_THEN_RACKS, RACKS_THEN_MOVES)
    )
    moved_first, missed_first = (score(group, owners, oracle.prior) for owners in (by_movement, by_racks))
    loads = load_histogram(group, by_movement)
    assert loads == load_histogram(group, by_racks), "two balanced assignments of different loads"
    return Best(
        loads,
        (moved_first.moved, moved_first.rack_misses),
        (missed_first.rack_misses, missed_first.moved),
    )
