"""Generates the data files of the corpus: runs every group's life, asking the peers, and solves it exactly.

    python -m compat_tests.corpus --build

Needs Java, kafka-python, aiokafka and scipy. The optimum comes from `tests.exact_oracle`, which shares no
code with our solver.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

from compat_tests.corpus.life import Situation
from compat_tests.corpus.scenario import Best, Scenario, write_family
from compat_tests.corpus.situations import changes, claims, fresh, mixed, racks, static, topics
from compat_tests.peers.asking import Peer, Peers
from kafka_assignors.criteria import MOVES_THEN_RACKS, RACKS_THEN_MOVES
from kafka_assignors.group import Assignment, Group
from tests.exact_oracle import Oracle
from tests.exact_score import load_histogram, score

__all__ = ["FAMILIES", "best_of", "build"]

FAMILIES: dict[str, ModuleType] = {
    "fresh": fresh,
    "changes": changes,
    "mixed": mixed,
    "topics": topics,
    "claims": claims,
    "static": static,
    "racks": racks,
}


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


def build() -> Iterator[tuple[str, int]]:
    """Write the file of every family; yields its name and its number of scenarios."""
    with Peers() as peers:

        def ask(peer: Peer, group: Group) -> Assignment:
            answer = peers.assign(peer, group)
            if answer.assignment is None:
                raise RuntimeError(f"{peer}: {answer.error}")
            return answer.assignment

        for family, module in FAMILIES.items():
            situations: list[Situation] = list(module.situations(ask))
            write_family(
                family,
                [
                    Scenario(family, s.name, s.situation, s.sources, s.group, best_of(s.group))
                    for s in situations
                ],
            )
            yield family, len(situations)
