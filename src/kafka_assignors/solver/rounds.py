"""Dealing in rounds: how a heap of things is divided among receivers who want a given number each.

In every round each receiver who still wants something gets one, in order, as one deals cards. So receivers
with equal wishes get the same mixture, to within one, of whatever kinds lie on the heap. Rounds between which
nobody drops out are dealt at once: of things lying in a row, receiver i of n gets every n-th, and a slice
does that without touching a single one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

__all__ = ["deal"]

Kind = TypeVar("Kind")


def deal(
    heap: Iterable[tuple[Kind, Sequence[int]]], wishes: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, Kind, Sequence[int]]]:
    """Deal the heap, kind by kind, to receivers who want (receiver, number of things).

    Yields (receiver, kind, slice); a receiver may get several slices of a kind. The heap must hold as many
    things as are wanted. Cost: linear in the slices.
    """
    pieces = iter(heap)
    kind_left: tuple[Kind, Sequence[int]] | None = None
    dealt_rounds = 0
    receivers = [(receiver, wanted) for receiver, wanted in wishes if wanted]
    while receivers:
        ring = [receiver for receiver, _ in receivers]
        rounds = min(wanted for _, wanted in receivers) - dealt_rounds
        left = rounds * len(ring)
        turn = 0  # who is next
        while left:
            kind, things = kind_left or next(pieces)
            kind_left = None
            if len(things) > left:
                kind_left = kind, things[left:]
                things = things[:left]
            left -= len(things)
            for offset in range(min(len(ring), len(things))):
                yield ring[(turn + offset) % len(ring)], kind, things[offset :: len(ring)]
            turn = (turn + len(things)) % len(ring)
        dealt_rounds += rounds
        receivers = [(receiver, wanted) for receiver, wanted in receivers if wanted > dealt_rounds]
