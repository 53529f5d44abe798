"""Why a partition moved: for every partition that is not where it was, one reason.

The explanation is computed after the assignment, from the group and the assignment alone. So it costs nothing
unless requested, and it explains the assignments of other strategies and programs just as well.

A partition without an owner had to go to some member; that is its reason. For a partition whose owner is in
the group, the question is what would be wrong if it had stayed. A single partition has no answer: if orders-3
stays with m1, m1 may pass on pays-0 instead. So moves are examined in *chains*. A chain begins at a member
that ends with fewer partitions than it owned, or that got a partition without an owner; each member passes a
partition on to the next; it ends at the member that ends with more than it owned. Every move is in one chain,
and all of them together turn what members owned into what they have. (The moves are a flow; this is its
decomposition into paths and, if any are left, circles: L. R. Ford and D. R. Fulkerson, "Flows in Networks",
1962, section I.2.)

To find the purpose of a chain, take it back as a whole: each partition stays with its owner, so the first
member has one more and the last member one less. If that makes balance worse, the chain is for balance. If
balance is the same and more partitions miss their racks, it is for racks, provided the strategy puts racks
before movement, or trades them and the misses outweigh the moves. Otherwise the chain was not needed: without
it the assignment is valid, and better by the strategy's own criteria. A strategy that keeps its promise has
no such chain.

Rules reduce a group to another one before it is balanced, and a strategy may balance the partitions in
layers. Then the chains are those of the reduced group (`explain_reduced`), or of one layer, which counts the
loads of earlier layers as the strategy did (`explain_layers`). These chains do not show what the rules did
first. In the reduced group, a partition whose owner may not have it is free. Partitions that stay together
belong to the member that owned most of them, so one of them may have moved there although the whole did not
move. So the moves of the original group count as well: they say why a partition was free, and a move without
a counterpart in the reduced group is due to the rules.
"""

from __future__ import annotations

import enum
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from kafka_assignors.criteria import PLAIN, AnyCriterion, Criterion, Scale
from kafka_assignors.group import Assignment, Group
from kafka_assignors.strategy import Layered, Reduced


class Reason(enum.Enum):
    """Why a partition is not where it was, or is somewhere for the first time."""

    NO_OWNER = "no-owner"
    """No member of the group claims it: its owner has left, or the partition is new."""

    UNSUBSCRIBED = "unsubscribed"
    """The member that owned it no longer subscribes to its topic."""

    CLAIM_DROPPED = "claim-dropped"
    """Members claimed it, and none of the claims counts: two of the same generation, or a false one."""

    BALANCE = "balance"
    """Balance would be worse if it had stayed."""

    RACKS = "racks"
    """Balance would be no worse if it had stayed, but more partitions would be in the wrong rack."""

    LOAD = "load"
    """Its owner had more load, by the weights of the partitions, than it should have."""

    RULES = "rules"
    """By a rule: its owner may not have it, or it goes to the partitions that it stays together with."""

    NOT_KEPT = "not-kept"
    """The strategy does not promise to keep partitions with their owners."""

    UNNEEDED = "unneeded"
    """The strategy promises to keep partitions with their owners, and could have kept this one."""


@dataclass(frozen=True, slots=True)
class Move:
    """A partition that `member` has now.

    `owner` owned it and is in the group; None if there is no such member, or if the reduced group takes the
    partition from it. `chain` is the index of its chain in `Explanation.chains`; None if the strategy does
    not keep owners, or if a rule alone explains the move.
    """

    topic: str
    partition: int
    owner: str | None
    member: str
    reason: Reason
    chain: int | None = None


@dataclass(frozen=True, slots=True)
class Chain:
    """Moves that belong together: each member passes one partition on, and the next one takes it.

    `moves` are indexes into `Explanation.moves`. The first may be of a partition without an owner; alone, it
    needs no other reason. The others each go from `members[i]` to `members[i + 1]`; in a circle the last
    member is the first. `loads` are the partition counts of the first and the last member now, and
    `capacities` their capacities. Without the chain the first would have one more and the last one less,
    except in a circle. `already` counts the partitions that the two have from earlier layers; `layer` is the
    name of the layer, if the group was balanced in layers.

    `change` says what taking the chain back would add to each of the strategy's criteria; the first that is
    not 0 decides. It is empty if there is nothing to take back.
    """

    moves: tuple[int, ...]
    members: tuple[str, ...]
    loads: tuple[int, int]
    reason: Reason | None
    change: Mapping[AnyCriterion, int | Fraction]
    capacities: tuple[int, int] = (1, 1)
    already: tuple[int, int] = (0, 0)
    layer: str | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Every partition that is not with the member that owned it, by topic and number; and their chains.

    `kept` names the rules that reduced the group, if the chains are those of a reduced group.
    """

    moves: tuple[Move, ...]
    chains: tuple[Chain, ...]
    kept: tuple[str, ...] = ()


def explain(
    group: Group,
    assignment: Assignment,
    criteria: Sequence[AnyCriterion] | None,
    *,
    scale: Scale = PLAIN,
    by_load: bool = False,
) -> Explanation:
    """Why each partition moved. The assignment must be a valid one of the group, or a part of one.

    `criteria` are the strategy's, None if it declares none; `scale` is its measure of balance; `by_load` says
    that it balances loads by weight. Cost: linear in the partitions of topics with moves, in the claims, and
    in the moves.
    """
    moves = moves_of(group, assignment)
    if criteria is None or Criterion.MOVEMENT not in criteria:
        otherwise = Reason.LOAD if by_load else Reason.NOT_KEPT
        kept_by_chance = (move if move.owner is None else replace(move, reason=otherwise) for move in moves)
        return Explanation(tuple(kept_by_chance), ())
    chains = []
    explained = list(moves)
    for number, path in enumerate(_paths(group, moves)):
        chain = _chain(group, assignment, tuple(criteria), scale, moves, path)
        chains.append(chain)
        for at in path:
            reason = moves[at].reason if moves[at].owner is None else chain.reason
            assert reason is not None
            explained[at] = replace(moves[at], reason=reason, chain=number)
    return Explanation(tuple(explained), tuple(chains))


# ------------------------------------------------------------------------------------------------ moves


def moves_of(group: Group, assignment: Assignment) -> list[Move]:
    """The moves, by topic and partition. A move with an earlier owner has no final reason yet."""
    claims = group.claims
    claimed = _claims_on(group, claims.unowned)
    moves = []
    owners: dict[str, dict[int, str]] = defaultdict(dict)
    for member_id, prior in claims.prior.items():
        for topic, partitions in prior.items():
            here = assignment.members[member_id].get(topic, ())
            if gone := set(partitions).difference(here):
                owners[topic].update(dict.fromkeys(gone, member_id))
    unowned = {topic: set(partitions) for topic, partitions in claims.unowned.items()}
    for member_id, by_topic in assignment.members.items():
        for topic, partitions in by_topic.items():
            for partition in unowned.get(topic, set()).intersection(partitions):
                reason = claimed.get((topic, partition), Reason.NO_OWNER)
                moves.append(Move(topic, partition, None, member_id, reason))
            for partition in owners.get(topic, {}).keys() & set(partitions):
                owner = owners[topic][partition]
                moves.append(Move(topic, partition, owner, member_id, Reason.NOT_KEPT))
    return sorted(moves, key=lambda move: (move.topic, move.partition))


def _claims_on(group: Group, unowned: Mapping[str, Iterable[int]]) -> dict[tuple[str, int], Reason]:
    """Why claimed partitions have no owner."""
    asked = {topic: set(partitions) for topic, partitions in unowned.items()}
    found: dict[tuple[str, int], Reason] = {}
    for member in group.members.values():
        for topic, partitions in member.owned.items():
            for partition in asked.get(topic, set()).intersection(partitions):
                if topic in member.topics:
                    found[topic, partition] = Reason.CLAIM_DROPPED
                else:
                    found.setdefault((topic, partition), Reason.UNSUBSCRIBED)
    return found


# ------------------------------------------------------------------------------------------------ chains


def _paths(group: Group, moves: Sequence[Move]) -> Iterator[tuple[int, ...]]:
    """All moves as paths from a loss, or from a partition without an owner, to a gain; then as circles."""
    passed_on: dict[str, deque[int]] = {member_id: deque() for member_id in group.members}
    gains = dict.fromkeys(group.members, 0)
    arrivals = []
    for at, move in enumerate(moves):
        gains[move.member] += 1
        if move.owner is None:
            arrivals.append(at)
        else:
            gains[move.owner] -= 1
            passed_on[move.owner].append(at)

    circles: list[tuple[int, ...]] = []

    def follow(path: list[int], start: str) -> tuple[int, ...]:
        """Extend the path as far as it goes; where it returns to one of its members, cut out that circle."""
        member = moves[path[-1]].member
        on_way = [start, member] if member != start else [start]
        before = len(path) - len(on_way) + 1  # an arrival comes before the first member
        while gains[member] <= 0 and passed_on[member]:
            path.append(passed_on[member].popleft())
            member = moves[path[-1]].member
            if member in on_way:
                at = on_way.index(member)
                circles.append(tuple(path[before + at :]))
                del path[before + at :], on_way[at + 1 :]
            else:
                on_way.append(member)
        gains[member] -= gains[member] > 0
        return tuple(path)

    # A member that ends with fewer partitions begins a path for each of them; it received the rest that it
    # passes on.
    for member_id in sorted(group.members):
        while gains[member_id] < 0:
            gains[member_id] += 1
            yield follow([passed_on[member_id].popleft()], member_id)
    for at in arrivals:
        yield follow([at], moves[at].member)
    # The remaining moves enter each member as often as they leave it: circles, each cut out on the way.
    for member_id in sorted(group.members):
        if passed_on[member_id]:
            follow([passed_on[member_id].popleft()], member_id)
    yield from circles


def _chain(
    group: Group,
    assignment: Assignment,
    criteria: tuple[AnyCriterion, ...],
    scale: Scale,
    moves: Sequence[Move],
    path: tuple[int, ...],
) -> Chain:
    handed_on = [moves[at] for at in path if moves[at].owner is not None]
    start, end = handed_on[0].owner if handed_on else moves[path[0]].member, moves[path[-1]].member
    assert start is not None
    members = (start, *(move.member for move in handed_on))
    loads = assignment.load(start), assignment.load(end)
    capacities = scale.capacity(start), scale.capacity(end)
    already = scale.has_already(start), scale.has_already(end)
    if not handed_on:
        return Chain(path, members, loads, None, {}, capacities, already)
    one_more = Fraction(2 * (loads[0] + already[0]) + 1, capacities[0])
    one_less = Fraction(2 * (loads[1] + already[1]) - 1, capacities[1])
    worse = one_more - one_less if start != end else Fraction(0)
    misses = sum(_misses(group, move, move.owner) for move in handed_on)
    misses -= sum(_misses(group, move, move.member) for move in handed_on)
    change: dict[AnyCriterion, int | Fraction] = {
        one: one.count(moves=-len(handed_on), misses=misses) for one in criteria
    }
    if Criterion.BALANCE in change:
        change[Criterion.BALANCE] = worse.numerator if worse.denominator == 1 else worse
    decides = next(one for one in criteria if change[one])
    reason = Reason.UNNEEDED
    if change[decides] > 0:
        reason = Reason.BALANCE if decides is Criterion.BALANCE else Reason.RACKS
    return Chain(path, members, loads, reason, change, capacities, already)


def _misses(group: Group, move: Move, member_id: str | None) -> bool:
    rack = group.members[member_id].rack if member_id is not None else None
    return bool(group.topics[move.topic].rack_misses(rack, [move.partition]))


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
        moves += (
            replace(move, chain=None if move.chain is None else before + move.chain) for move in part.moves
        )
        for chain in part.chains:
            places = tuple(moves_before + at for at in chain.moves)
            chains.append(replace(chain, moves=places, layer=layer.name))
    return _in_group(_sorted(moves, chains), group, assignment, layered)


def _in_group(
    explanation: Explanation, group: Group, assignment: Assignment, form: Reduced | Layered
) -> Explanation:
    """The explanation of the original group: with the moves and reasons that are due to claims and rules."""
    if form.stands_for is None:
        return replace(explanation, kept=form.kept)
    left = {(move.topic, move.partition): move for move in moves_of(group, assignment)}
    moves: list[Move] = []
    for move in explanation.moves:
        one = move.topic, move.partition
        unit = form.stands_for[move.topic][move.partition] if move.topic in form.stands_for else (one,)
        # Other members may have owned a part of the unit: that part moved by the rules, or did not move.
        meant = [
            left.pop(each)
            for each in unit
            if each in left and (move.owner is None or left[each].owner == move.owner)
        ]
        if len(meant) == 1:
            move = replace(move, topic=meant[0].topic, partition=meant[0].partition)
        if move.owner is None and meant:
            # In the original group its owner may not have it, or it had no owner, for the reason of that
            # move.
            by_rules = any(one.owner is not None for one in meant)
            move = replace(move, reason=Reason.RULES if by_rules else meant[0].reason)
        moves.append(move)
    moves += (move if move.owner is None else replace(move, reason=Reason.RULES) for move in left.values())
    return replace(_sorted(moves, explanation.chains), kept=form.kept)


def _sorted(moves: Sequence[Move], chains: Sequence[Chain]) -> Explanation:
    order = sorted(range(len(moves)), key=lambda at: (moves[at].topic, moves[at].partition))
    place = {at: number for number, at in enumerate(order)}
    return Explanation(
        tuple(moves[at] for at in order),
        tuple(replace(chain, moves=tuple(place[at] for at in chain.moves)) for chain in chains),
    )
