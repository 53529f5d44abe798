"""Dealing in rounds: how a heap of things is divided among receivers who want a given number each.

In every round each receiver who still wants something gets one, in order, as one deals cards. So receivers
with equal wishes get the same mixture, to within one, of all kinds that lie on the heap. Rounds between which
no receiver drops out are dealt at once: of things lying in a row, receiver i of n gets every n-th, and a
slice does that without touching a single one of them. Where all things are of one kind there is nothing to
mix, and each receiver is given his in one piece.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

Kind = TypeVar("Kind")


def deal(
    heap: Iterable[tuple[Kind, Sequence[int]]], wishes: Sequence[tuple[int, int]]
) -> Iterator[tuple[Kind, Iterable[tuple[int, Sequence[int]]]]]:
    """Deal the heap, kind by kind, to receivers who want (receiver, number of things).

    Yields a kind with what each receiver gets of it, in the order they lie; a kind may come more than once.
    The heap must hold as many things as are wanted. Cost: linear in the slices.
    """
    pieces = list(heap)
    wanting = [(receiver, wanted) for receiver, wanted in wishes if wanted]
    if len(pieces) == 1:
        kind, things = pieces[0]
        yield kind, _in_one_piece(things, wanting)
    else:
        yield from _in_rounds(pieces, wanting)


def _in_one_piece(
    things: Sequence[int], wanting: Iterable[tuple[int, int]]
) -> Iterator[tuple[int, Sequence[int]]]:
    begin = 0
    for receiver, wanted in wanting:
        end = begin + wanted
        yield receiver, things[begin:end]
        begin = end


def _in_rounds(
    heap: Iterable[tuple[Kind, Sequence[int]]], wanting: list[tuple[int, int]]
) -> Iterator[tuple[Kind, Iterable[tuple[int, Sequence[int]]]]]:
    pieces = iter(heap)
    rest: tuple[Kind, Sequence[int]] | None = None
    dealt_rounds = 0
    while wanting:
        ring = [receiver for receiver, _ in wanting]
        rounds = min(wanted for _, wanted in wanting) - dealt_rounds
        left = rounds * len(ring)
        turn = 0  # whose turn it is
        while left:
            kind, things = rest or next(pieces)
            rest = None
            if len(things) > left:
                rest = kind, things[left:]
                things = things[:left]
            left -= len(things)
            yield kind, zip(ring[turn:] + ring[:turn], _strides(things, len(ring)), strict=False)
            turn = (turn + len(things)) % len(ring)
        dealt_rounds += rounds
        wanting = [(receiver, wanted) for receiver, wanted in wanting if wanted > dealt_rounds]


def _strides(things: Sequence[int], stride: int) -> Iterable[Sequence[int]]:
    """Every `stride`-th of the things, from the first, from the second …; no empty ones."""
    if len(things) <= stride:
        return zip(things, strict=True)  # tuples of one
    return (things[offset::stride] for offset in range(stride))
