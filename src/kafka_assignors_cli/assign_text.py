"""The answer of `assign`, and the explanation of an assignment: tables and sentences, and in JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

from rich.console import RenderableType

from kafka_assignors.criteria import Criterion, Trade
from kafka_assignors.explain import Chain, Explanation, Move, Reason
from kafka_assignors.group import Group, TopicPartitions, some_of
from kafka_assignors_cli.console import Column, ColumnKind, FittedTable, counted, indented, printable

_COLUMNS = (
    Column("member", ColumnKind.NAME),
    Column("partitions"),
    Column("gains", leave_out=2),
    Column("gives up", leave_out=1),
    Column("assigned", ColumnKind.WORDS, leave_out=3),
)
_SHOWN_RANGES = 12


def answer_renderables(
    where: str, strategy: str, group: Group, answer: Mapping[str, Any]
) -> list[RenderableType]:
    """The answer for a group, `where` in the input, given its JSON form: who has what, then its measures."""
    table = FittedTable(_COLUMNS, printable(f"{where}: {strategy}"))
    prior = {member: _pairs(owned) for member, owned in group.claims.prior.items()}
    for member, topics in answer["assignment"].items():
        now, before = _pairs(topics), prior.get(member, set())
        cells = (f"{len(now):,}", f"{len(now - before):,}", f"{len(before - now):,}", _assigned(topics))
        table.add([printable(member), *cells])
    return [table, *indented(_sentences(answer))]


def _pairs(topics: TopicPartitions) -> set[tuple[str, int]]:
    return {(topic, partition) for topic, partitions in topics.items() for partition in partitions}


def _assigned(topics: Mapping[str, Sequence[int]]) -> str:
    return "; ".join(f"{printable(topic)} {_ranges(partitions)}" for topic, partitions in topics.items())


def _ranges(partitions: Sequence[int]) -> str:
    """`0–2, 5`, of ascending numbers; at most `_SHOWN_RANGES` of them."""
    ranges: list[list[int]] = []
    for partition in partitions:
        if ranges and ranges[-1][1] == partition - 1:
            ranges[-1][1] = partition
        else:
            ranges.append([partition, partition])
    shown = [str(low) if low == high else f"{low}–{high}" for low, high in ranges[:_SHOWN_RANGES]]
    more = ["and more"] if len(ranges) > _SHOWN_RANGES else []
    return ", ".join(shown + more)


def _sentences(answer: Mapping[str, Any]) -> Iterator[str]:
    quality = answer["quality"]
    yield (
        f"{counted(quality['partitions'], 'partition')} on {counted(quality['members'], 'member')}: "
        f"{quality['min_load']:,} to {quality['max_load']:,} each; {quality['moved']:,} moved, "
        f"{quality['kept']:,} kept, {quality['forced']:,} had no owner"
    )
    if waiting := _count(answer.get("withheld", {}).values()):
        yield f"{counted(waiting, 'partition')} wait until the present owner has revoked them"
    if dropped := answer.get("dropped_claims"):
        yield f"{counted(len(dropped), 'claim')} of faulty members dropped: --json names them"
    yield from answer.get("findings", ())
    proof = answer.get("reduced", answer)
    if "certificate" in proof:
        yield f"certified: no assignment is better by {', '.join(proof['certificate']['criteria'])}"
    if "improvement" in proof:
        yield f"not the best: {counted(len(proof['improvement']['steps']), 'step')} improve it"
    if "assign_ns" in answer:
        yield f"{answer['assign_ns']:,} ns of CPU in the strategy"
    if "settle" in answer:
        moves = len(answer["settle"]["moves"])
        yield (
            f"not settled: a second run from this result moves {counted(moves, 'partition')}"
            if moves
            else "settled: a second run from this result moves nothing"
        )


def _count(assigned: Iterable[Mapping[str, Sequence[int]]]) -> int:
    return sum(len(partitions) for topics in assigned for partitions in topics.values())


_SHOWN_SENTENCES = 40
_SHOWN_PARTITIONS = 8

_FORCED = {
    Reason.NO_OWNER: "no member of the group owned {them}: new, or the owner has left",
    Reason.UNSUBSCRIBED: "the owner no longer subscribes to the topic",
    Reason.RULES: "by the rules ({rules}) the owner may not have {them}",
    Reason.CLAIM_DROPPED: "claimed, but no claim counts (see dropped_claims)",
}


def explanation_to_json(explanation: Explanation) -> dict[str, Any]:
    """Each move with its reason, and the chains; a move's `chain` is the index of its chain in the list."""
    moves = []
    for move in explanation.moves:
        fields: dict[str, Any] = {
            "topic": move.topic,
            "partition": move.partition,
            "from": move.owner,
            "to": move.member,
            "reason": move.reason.value,
        }
        if move.chain is not None:
            fields["chain"] = move.chain
        moves.append(fields)
    return {"moves": moves, "chains": list(map(_chain_to_json, explanation.chains))}


def _chain_to_json(chain: Chain) -> dict[str, Any]:
    form: dict[str, Any] = {
        "members": list(chain.members),
        "reason": chain.reason.value if chain.reason is not None else None,
        "loads": list(chain.loads),
        "change_if_taken_back": {
            criterion.value: str(change) if isinstance(change, Fraction) else change
            for criterion, change in chain.change.items()
        },
    }
    if chain.capacities != (1, 1):
        form["capacities"] = list(chain.capacities)
    if any(chain.already):
        form["already"] = list(chain.already)
    if chain.layer is not None:
        form["layer"] = chain.layer
    return form


def sentences(explanation: Explanation, strategy: str) -> Iterator[str]:
    """The text of the explanation, one sentence for all similar moves, at most `_SHOWN_SENTENCES`."""
    if not explanation.moves:
        yield "nothing moved"
        return
    said = [*_forced(explanation), *_not_kept(explanation, strategy), *_passed_on(explanation)]
    yield from said[:_SHOWN_SENTENCES]
    if len(said) > _SHOWN_SENTENCES:
        yield f"… and {len(said) - _SHOWN_SENTENCES} more like these: they are in the answer"


def about_loads(loads: Mapping[str, Any]) -> str:
    """One sentence about the loads by weight, given their JSON form."""
    said = (
        f"by weight: the greatest load is {loads['makespan']}, and no assignment has less than "
        f"{loads['lower_bound']}: at most {_above(loads['ratio'])} times the optimum"
    )
    if loads["factor"] is not None:
        said += f" (promised: {_above(loads['factor'])})"
    if loads["unknown_weights"]:
        said += f"; {loads['unknown_weights']} weights are unknown, a median stands in"
    return said


def _above(number: float) -> str:
    """Two decimal places, rounded up: rounding must not improve a bound."""
    return f"{math.ceil(number * 100 - 1e-9) / 100:.2f}"


def _forced(explanation: Explanation) -> Iterator[str]:
    alike: dict[tuple[Reason, str], list[Move]] = {}
    for move in explanation.moves:
        if move.owner is None:
            alike.setdefault((move.reason, move.member), []).append(move)
    for (reason, member), moves in alike.items():
        why = _FORCED[reason].format(them="it" if len(moves) == 1 else "them", rules=_rules(explanation))
        yield f"{_named(moves)}: now with {member}; {why}"


def _rules(explanation: Explanation) -> str:
    return ", ".join(explanation.kept)


def _not_kept(explanation: Explanation, strategy: str) -> Iterator[str]:
    why = {
        Reason.NOT_KEPT: f"{strategy} does not promise to keep owners",
        Reason.LOAD: "for load: {owner} had more than it should have",
        Reason.RULES: f"by the rules ({_rules(explanation)})",
    }
    alike: dict[tuple[Reason, str | None, str], list[Move]] = {}
    for move in explanation.moves:
        if move.reason in why and move.owner is not None:
            alike.setdefault((move.reason, move.owner, move.member), []).append(move)
    for (reason, owner, member), moves in alike.items():
        yield f"{_named(moves)}: {owner} -> {member}; {why[reason].replace('{owner}', str(owner))}"


def _passed_on(explanation: Explanation) -> Iterator[str]:
    alike: dict[tuple[str, ...], list[Chain]] = {}
    for chain in explanation.chains:
        if chain.reason is not None:
            key = (chain.layer or "", chain.reason.value, str(chain.change), *chain.members)
            alike.setdefault(key, []).append(chain)
    for chains in alike.values():
        first = chains[0]
        # From each member of a chain to the next; the move of a partition without an owner comes before them.
        handed_on = [
            [move for at in chain.moves if (move := explanation.moves[at]).owner is not None]
            for chain in chains
        ]
        way = ", ".join(
            f"{_named(moves)}: {giver} -> {taker}"
            for (giver, taker), moves in zip(
                pairwise(first.members), zip(*handed_on, strict=True), strict=True
            )
        )
        yield f"{way}; {_why(first)}"


def _why(chain: Chain) -> str:
    start, end = chain.members[0], chain.members[-1]
    first, last = (load + already for load, already in zip(chain.loads, chain.already, strict=True))
    of_layer, in_layer = (f" of {chain.layer}", f" in {chain.layer}") if chain.layer is not None else ("", "")
    if chain.reason is Reason.BALANCE:
        carries = [f" of capacity {capacity}" for capacity in chain.capacities]
        if carries[0] == carries[1]:
            carries = ["", ""]
        before = f"with {chain.already[0]} and {chain.already[1]} from before, " if any(chain.already) else ""
        return (
            f"for balance{of_layer}: {before}{start}{carries[0]} has {first} and {end}{carries[1]} {last}, "
            f"and would have {first + 1} and {last - 1} "
            "if one of them had not moved" + (" on" if len(chain.members) > 2 else "")
        )
    if chain.reason is Reason.RACKS:
        trade = next((one for one in chain.change if isinstance(one, Trade)), None)
        if trade is None:
            more = f"{chain.change[Criterion.RACKS]}"
            worth = ""
        else:
            saved = chain.change[Criterion.MOVEMENT]  # Negative: the number of moves that the change avoids.
            more = f"{(chain.change[trade] - trade.count(int(saved), 0)) // trade.moves}"
            worth = f", and each is worth {Fraction(trade.moves, trade.misses)} moves"
        return (
            f"for racks{in_layer}: {more} more would be without a replica in the rack of their member{worth}"
        )
    return f"not needed{in_layer}: without this the assignment would be better by the strategy's own criteria"


def _named(moves: Iterable[Move]) -> str:
    """`orders-0, orders-1, pays-3`, and the number of the others."""
    return some_of([f"{move.topic}-{move.partition}" for move in moves], _SHOWN_PARTITIONS)
