"""An explanation in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction

from kafka_assignors.certificate import Criterion, Trade
from kafka_assignors.explain import Chain, Explanation, Move, Reason

__all__ = ["sentences"]

_SHOWN_SENTENCES = 40
_SHOWN_PARTITIONS = 8

_FORCED = {
    Reason.NO_OWNER: "nobody in the group owned {them}: new, or the owner has left",
    Reason.UNSUBSCRIBED: "the owner no longer subscribes to the topic",
    Reason.CLAIM_DROPPED: "claimed, but no claim counts (see dropped_claims)",
}


def sentences(explanation: Explanation, strategy: str) -> Iterator[str]:
    """One for all moves that are alike, as many as a person reads."""
    if not explanation.moves:
        yield "nothing moved"
        return
    said = [*_forced(explanation), *_not_kept(explanation, strategy), *_passed_on(explanation)]
    yield from said[:_SHOWN_SENTENCES]
    if len(said) > _SHOWN_SENTENCES:
        yield f"… and {len(said) - _SHOWN_SENTENCES} more like these: they are in the answer"


def _forced(explanation: Explanation) -> Iterator[str]:
    alike: dict[tuple[Reason, str], list[Move]] = {}
    for move in explanation.moves:
        if move.owner is None:
            alike.setdefault((move.reason, move.member), []).append(move)
    for (reason, member), moves in alike.items():
        why = _FORCED[reason].format(them="it" if len(moves) == 1 else "them")
        yield f"{_named(moves)}: now with {member}; {why}"


def _not_kept(explanation: Explanation, strategy: str) -> Iterator[str]:
    alike: dict[tuple[str | None, str], list[Move]] = {}
    for move in explanation.moves:
        if move.reason is Reason.NOT_KEPT:
            alike.setdefault((move.owner, move.member), []).append(move)
    for (owner, member), moves in alike.items():
        yield f"{_named(moves)}: {owner} -> {member}; {strategy} does not promise to keep owners"


def _passed_on(explanation: Explanation) -> Iterator[str]:
    alike: dict[tuple[str, ...], list[Chain]] = {}
    for chain in explanation.chains:
        if chain.reason is not None:
            alike.setdefault((chain.reason.value, str(chain.change), *chain.members), []).append(chain)
    for chains in alike.values():
        first = chains[0]
        hops = [
            (giver, taker, [one for chain in chains if (one := _hop(explanation, chain, at)) is not None])
            for at, (giver, taker) in enumerate(zip(first.members, first.members[1:], strict=False))
        ]
        way = ", ".join(f"{_named(moves)}: {giver} -> {taker}" for giver, taker, moves in hops)
        yield f"{way}; {_why(first)}"


def _hop(explanation: Explanation, chain: Chain, at: int) -> Move | None:
    """The move from the chain's member at this place to the next."""
    moves = [explanation.moves[number] for number in chain.moves]
    return [move for move in moves if move.owner is not None][at]


def _why(chain: Chain) -> str:
    start, end = chain.members[0], chain.members[-1]
    first, last = chain.loads
    if chain.reason is Reason.BALANCE:
        carries = [f" of capacity {capacity}" for capacity in chain.capacities]
        if carries[0] == carries[1]:
            carries = ["", ""]
        return (
            f"for balance: {start}{carries[0]} has {first} and {end}{carries[1]} {last}, "
            f"and would have {first + 1} and {last - 1} "
            "if one of them had not moved" + (" on" if len(chain.members) > 2 else "")
        )
    if chain.reason is Reason.RACKS:
        trade = next((one for one in chain.change if isinstance(one, Trade)), None)
        if trade is None:
            more = f"{chain.change[Criterion.RACKS]}"
            worth = ""
        else:
            saved = chain.change[Criterion.MOVEMENT]  # negative: moves that would not be
            more = f"{(chain.change[trade] - trade.count(int(saved), 0)) // trade.moves}"
            worth = f", and each is worth {Fraction(trade.moves, trade.misses)} moves"
        return f"for racks: {more} more would be without a replica in the rack of who has it{worth}"
    return "not needed: without this the assignment would be better by the strategy's own criteria"


def _named(moves: Iterable[Move]) -> str:
    """`orders-0, orders-1, pays-3`, and how many more."""
    named = [f"{move.topic}-{move.partition}" for move in moves]
    shown = ", ".join(named[:_SHOWN_PARTITIONS])
    rest = len(named) - _SHOWN_PARTITIONS
    return f"{shown} and {rest} more" if rest > 0 else shown
