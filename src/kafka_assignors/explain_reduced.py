"""Why a partition moved, where a strategy balanced something else than the group as it is.

Rules turn a group into another one before it is balanced, and a balance may be of one part of the partitions
after the other. Then what is explained is what was balanced: a chain is one of the reduced group, and of one
layer, in which loads from before count as they did for the strategy.

What the rules did before that is in none of these chains. A partition whose owner may not have it is free in
the reduced group. One that stays together with others belongs to whoever owned most of them, and may have
moved there without any move of the whole. So the moves of the group itself are looked at as well: they say
why something was free, and those that no move of the reduced group stands for are by the rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kafka_assignors.explain import Chain, Explanation, Move, Reason, explain, moves_of
from kafka_assignors.group import Assignment, Group
from kafka_assignors.strategy import Layered, Reduced

__all__ = ["explain_layers", "explain_reduced"]


def explain_reduced(group: Group, assignment: Assignment, reduced: Reduced) -> Explanation:
    """Why each partition moved, as chains of the reduced group. Cost: that of `explain`, twice."""
    scale = reduced.scale if reduced.plain_scale is None else reduced.plain_scale
    of_reduced = explain(reduced.group, reduced.assignment, reduced.criteria, scale=scale)
    return _in_group(of_reduced, group, assignment, reduced)


def explain_layers(group: Group, assignment: Assignment, layered: Layered) -> Explanation:
    """Why each partition moved, layer by layer. Cost: that of `explain`, for each layer and once more."""
    moves: list[Move] = []
    chains: list[Chain] = []
    for layer in layered.layers:
        part = explain(layered.group, layer.assignment, layered.criteria, scale=layer.scale)
        before, moves_before = len(chains), len(moves)
        moves += (replace(move, chain=_later(move.chain, before)) for move in part.moves)
        for chain in part.chains:
            places = tuple(moves_before + at for at in chain.moves)
            chains.append(replace(chain, moves=places, layer=layer.name))
    return _in_group(_sorted(moves, chains), group, assignment, layered)


def _in_group(
    explanation: Explanation, group: Group, assignment: Assignment, form: Reduced | Layered
) -> Explanation:
    """The same with what the claims and the rules account for."""
    if form.stands_for is None:
        return replace(explanation, kept=form.kept)
    left = {(move.topic, move.partition): move for move in moves_of(group, assignment)}
    moves: list[Move] = []
    for move in explanation.moves:
        one = move.topic, move.partition
        unit = form.stands_for[move.topic][move.partition] if move.topic in form.stands_for else (one,)
        # Of what stays together, others may have owned a part: that moved by the rules, or not at all.
        meant = [
            left.pop(each)
            for each in unit
            if each in left and (move.owner is None or left[each].owner == move.owner)
        ]
        if len(meant) == 1:
            move = replace(move, topic=meant[0].topic, partition=meant[0].partition)
        moves.append(replace(move, reason=_why_free(meant)) if move.owner is None and meant else move)
    moves += (move if move.owner is None else replace(move, reason=Reason.RULES) for move in left.values())
    return replace(_sorted(moves, explanation.chains), kept=form.kept)


def _why_free(meant: Sequence[Move]) -> Reason:
    """Why what nobody owned in the reduced group had no owner, given its moves in the group itself."""
    return Reason.RULES if any(move.owner is not None for move in meant) else meant[0].reason


def _sorted(moves: Sequence[Move], chains: Sequence[Chain]) -> Explanation:
    """By topic and partition, as moves are."""
    order = sorted(range(len(moves)), key=lambda at: (moves[at].topic, moves[at].partition))
    place = {at: number for number, at in enumerate(order)}
    return Explanation(
        tuple(moves[at] for at in order),
        tuple(replace(chain, moves=tuple(place[at] for at in chain.moves)) for chain in chains),
    )


def _later(chain: int | None, before: int) -> int | None:
    return None if chain is None else before + chain
