"""Step 4: from counts to partitions.

Within a partition class every choice costs the same: this step spreads each topic over the members as evenly
as simple rules can:

- a member that must **release** some partitions of a class releases them from the topics of which it holds
  the most there, and among these from the topic that has lost the fewest so far; the highest numbers go;
- what was released or had no owner is **dealt** in rounds, topic after topic, one partition to each member
  that still wants some. Members that release and receive nothing keep the very sequences that they came with.

Dealing does not look at what the members keep of a topic, so two members exchange partitions afterwards if
the sum of squares over topics and members falls: a member with `a` partitions of a topic gives one to a
member with `b`, and gets one of a topic of which the other has `c` and it has `d`; the sum falls exactly if
(a - b) + (c - d) > 2. Movement and rack misses stay, because only these changes are looked at:

- **Exchange.** Both partitions have been dealt, and neither goes to the member that released it. Both members
  subscribe to both, and together they miss as many racks as before.
- **Pass.** A partition that was dealt goes to a member at which it costs balance as much.
- **Give back.** One that was dealt goes back to the member that released it, which releases another instead.

Nothing is done if more than `MOST_DEALT` partitions were dealt. A giver tries at most the `PARTNERS` members
with the fewest, and all look at `LOOKS` counts and `LOOKS_PER_PARTITION` for each partition dealt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heapreplace
from itertools import chain

from kafka_assignors.group import Assignment, TopicPartitions
from kafka_assignors.solver.classes import Classes, PartitionClass
from kafka_assignors.solver.distribution import deal
from kafka_assignors.solver.flow import Shares

Partitions = dict[str, Sequence[int]]
"""Partitions by topic, ascending, in a dict that may be changed."""


def place(classes: Classes, shares: Shares) -> Assignment:
    """The assignment with these shares. Cost: linear in what the members own and receive, in slices."""
    changes = [
        sorted({member for member, _ in share.items() ^ part.owned_counts.items()})
        for part, share in zip(classes.partition_classes, shares, strict=True)
    ]
    changing = set().union(*changes)
    kept = {member: classes.owned_by(member) for member in changing}  # what each keeps of each class
    dealt: dict[int, Partitions] = {}
    placed: list[PlacedClass] = []
    for number, (part, share) in enumerate(zip(classes.partition_classes, shares, strict=True)):
        wanted = [(m, share.get(m, 0) - part.owned_counts.get(m, 0)) for m in changes[number]]
        placed.append(_place_class(number, part, wanted, kept, dealt))
    holdings = [*classes.prior]
    for member in changing:
        parts = kept[member]
        holdings[member] = _together([parts[number] for number in sorted(parts)], dealt.get(member, {}))
    even_out(classes, placed, holdings)
    return Assignment({member.id: held for member, held in zip(classes.members, holdings, strict=True)})


def _place_class(
    number: int,
    part: PartitionClass,
    wanted: Iterable[tuple[int, int]],
    kept: Mapping[int, dict[int, TopicPartitions]],
    dealt: dict[int, Partitions],
) -> PlacedClass:
    """Place the class of this number: `wanted` says how many more of it members get, or how many fewer."""
    released: Released = {}
    remaining: dict[int, TopicPartitions] = {}
    lost: dict[str, int] = {}  # topic: how many partitions members have released
    demands: list[tuple[int, int]] = []
    for member, more in wanted:
        if more > 0:
            demands.append((member, more))
        elif more < 0:
            left = remaining[member] = _release(member, kept[member][number], -more, lost, released)
            if left:
                kept[member][number] = left
            else:
                del kept[member][number]
    placed = PlacedClass(remaining, released, sum(more for _, more in demands))
    for topic, parts in deal(_heap(part.unowned, released), demands):
        if placed.size <= MOST_DEALT:
            parts = list(parts)
            placed.dealt.append((topic, parts))
        for member, partitions in parts:
            if member not in dealt:
                dealt[member] = {topic: partitions}
            elif topic not in (received := dealt[member]):
                received[topic] = partitions
            else:
                received[topic] = sorted([*received[topic], *partitions])
    return placed


def _release(
    member: int, owned: TopicPartitions, surplus: int, lost: dict[str, int], released: Released
) -> TopicPartitions:
    """What remains of `owned`; adds what the member gives up to `released`, and how much to `lost`."""
    tallest = [(-len(partitions), lost.get(topic, 0), topic) for topic, partitions in owned.items()]
    heapify(tallest)
    for _ in range(surplus):
        height, lost_before, topic = tallest[0]
        heapreplace(tallest, (height + 1, lost_before + 1, topic))
    remaining: Partitions = {}
    for height, lost_now, topic in tallest:
        partitions = owned[topic]
        if -height < len(partitions):
            lost[topic] = lost_now
            released.setdefault(topic, []).append((member, partitions[-height:]))
            partitions = partitions[:-height]
        if partitions:
            remaining[topic] = partitions
    return remaining


def _heap(unowned: TopicPartitions, released: Released) -> Iterable[tuple[str, Sequence[int]]]:
    """The partitions to deal, by topic, ascending."""
    for topic in sorted(unowned.keys() | released.keys()):
        if topic in released:
            gone = chain.from_iterable(partitions for _, partitions in released[topic])
            yield topic, sorted([*unowned.get(topic, ()), *gone])
        else:
            yield topic, unowned[topic]


def _together(kept: Sequence[TopicPartitions], dealt: Partitions) -> TopicPartitions:
    """One member's partitions by topic, ascending."""
    if not dealt and len(kept) == 1:
        return kept[0]
    together = dealt
    for part in kept:
        for topic, partitions in part.items():
            if topic in together:
                partitions = sorted([*together[topic], *partitions])
            together[topic] = partitions
    return together


MOST_DEALT = 5_000
PARTNERS = 32
LOOKS, LOOKS_PER_PARTITION = 2_000, 12

Cell = tuple[int, str]
"""A partition class and a topic."""

Released = dict[str, list[tuple[int, Sequence[int]]]]
"""By topic: the members that released partitions of it, with these."""


@dataclass(slots=True)
class PlacedClass:
    """How one partition class was placed.

    `kept` is what the members keep that had to release some, by number, and `released` what they released.
    `size` is how many partitions were dealt; `dealt` has them by topic, with the members that got them, if
    they are few enough.
    """

    kept: Mapping[int, TopicPartitions]
    released: Released
    size: int
    dealt: list[tuple[str, list[tuple[int, Sequence[int]]]]] = field(default_factory=list)


def even_out(classes: Classes, placed: Sequence[PlacedClass], holdings: list[TopicPartitions]) -> None:
    """Exchange partitions between members; `holdings` has those of each member, by its number.

    Sequences in it are replaced, not changed.
    """
    if not 0 < sum(how.size for how in placed) <= MOST_DEALT:
        return
    if len(classes.class_of_topic) == 1 and len(classes.cohorts) == 1:
        return  # Each load is the member's count of the only topic, and loads are even.
    first, *others = classes.partition_classes
    if not others and not first.owned_counts:
        return  # Dealt in rounds to members that had nothing: no assignment is more even.
    _Exchanges(classes, placed, holdings).run()


class _Exchanges:
    """What may be exchanged, and what members have.

    `_dealt` has what was dealt, by member and cell. `_released` has the member that released a partition, by
    topic and number, and `_kept` what these members kept.
    """

    def __init__(
        self, classes: Classes, placed: Sequence[PlacedClass], holdings: list[TopicPartitions]
    ) -> None:
        self._classes = classes
        self._placed = placed
        self._holdings = holdings
        self._changed: dict[int, dict[str, list[int]]] = {}
        self._loads: dict[int, int] = {}
        self._dealt: dict[int, dict[Cell, list[int]]] = {}
        self._kept: dict[int, dict[Cell, list[int]]] = {}
        self._released: dict[tuple[str, int], int] = {}
        for number, how in enumerate(placed):
            for topic, parts in how.dealt:
                cell = number, topic
                for member, partitions in parts:
                    cells = self._dealt.setdefault(member, {})
                    cells[cell] = [*cells[cell], *partitions] if cell in cells else list(partitions)
            for topic, gone in how.released.items():
                for member, partitions in gone:
                    self._released.update(((topic, partition), member) for partition in partitions)
        self._looks = LOOKS + LOOKS_PER_PARTITION * sum(how.size for how in placed)
        self._cohort_of = {m: cohort for cohort, members in enumerate(classes.cohorts) for m in members}
        self._subscribers = [
            classes.topic_classes[part.topic_class].cohorts for part in classes.partition_classes
        ]

    def run(self) -> None:
        """Exchange partitions as long as it helps and the bounds allow."""
        improved = True
        while improved and self._looks > 0:
            improved = self._exchange_all()
            improved = self._give_back_all() or improved
        for member, topics in self._changed.items():
            holding = dict(self._holdings[member])
            for topic, partitions in topics.items():
                if partitions:
                    holding[topic] = sorted(partitions)
                else:
                    holding.pop(topic, None)
            self._holdings[member] = holding

    def _count(self, member: int, topic: str) -> int:
        changed = self._changed.get(member)
        if changed is not None and topic in changed:
            return len(changed[topic])
        return len(self._holdings[member].get(topic, ()))

    def _load(self, member: int) -> int:
        if member not in self._loads:
            self._loads[member] = sum(map(len, self._holdings[member].values()))
        return self._loads[member]

    def _kept_by(self, member: int) -> dict[Cell, list[int]]:
        if member not in self._kept:
            owned = self._classes.owned_by(member)
            self._kept[member] = {
                (number, topic): list(partitions)
                for number in sorted(owned)
                for topic, partitions in sorted(self._placed[number].kept.get(member, owned[number]).items())
            }
        return self._kept[member]

    # ---- what was dealt to two members

    def _exchange_all(self) -> bool:
        """Cell by cell, let members that have many of a topic give some to those that have the fewest."""
        givers: dict[Cell, list[int]] = {}
        for member, cells in self._dealt.items():
            for cell in cells:
                if self._count(member, cell[1]) > 1:
                    givers.setdefault(cell, []).append(member)
        improved = False
        for cell in sorted(givers):
            number, topic = cell
            may_have = (m for cohort in self._subscribers[number] for m in self._classes.cohorts[cohort])
            fewest_first = sorted((self._count(m, topic), m) for m in may_have)
            self._looks -= len(fewest_first)
            for giver in sorted(givers[cell]):
                while self._looks > 0 and cell in self._dealt[giver]:
                    if not self._exchange(giver, cell, fewest_first):
                        break
                    improved = True
            if self._looks <= 0:
                break
        return improved

    def _exchange(self, giver: int, cell: Cell, fewest_first: Sequence[tuple[int, int]]) -> bool:
        number, topic = cell
        has = self._count(giver, topic)
        for counted, taker in fewest_first[:PARTNERS]:
            if has - counted < 2:
                break
            self._looks -= 1
            fewer = has - self._count(taker, topic)
            if fewer < 2:
                continue
            given = self._given(giver, cell, taker)
            if given is None:
                continue
            if self._costs_as_much(giver, taker) and self._may_pass(giver, number, taker):
                self._pass_dealt(giver, cell, given, taker)
                self._loads[giver] -= 1
                self._loads[taker] += 1
                return True
            for other in self._dealt.get(taker, ()):
                self._looks -= 1
                if other[1] == topic or not self._may_have(giver, other[0]):
                    continue
                gain = fewer + self._count(taker, other[1]) - self._count(giver, other[1])
                if gain <= 2 or not self._misses_as_many(giver, number, taker, other[0]):
                    continue
                if self._exchange_some(giver, cell, taker, other, most=1 + (gain - 3) // 4):
                    return True
        return False

    def _exchange_some(self, giver: int, cell: Cell, taker: int, other: Cell, most: int) -> bool:
        """Exchange as many partitions of these cells as there are, up to `most`; whether there was one."""
        for exchanged in range(most):
            given = self._given(giver, cell, taker)
            taken = self._given(taker, other, giver)
            if given is None or taken is None:
                return exchanged > 0
            self._pass_dealt(giver, cell, given, taker)
            self._pass_dealt(taker, other, taken, giver)
        return True

    # ---- what one has released and another was dealt

    def _give_back_all(self) -> bool:
        """Let members have back what they released, and release what they have more of."""
        improved = False
        if self._released:
            for holder in sorted(self._dealt):
                for cell in list(self._dealt[holder]):
                    while self._looks > 0 and cell in self._dealt[holder]:
                        if not self._give_back(holder, cell):
                            break
                        improved = True
        return improved

    def _give_back(self, holder: int, cell: Cell) -> bool:
        number, topic = cell
        has = self._count(holder, topic)
        for partition in self._dealt[holder][cell]:
            owner = self._released.get((topic, partition))
            if owner is None or owner == holder:
                continue
            fewer = has - self._count(owner, topic)
            for other, kept in self._kept_by(owner).items():
                self._looks -= 1
                gain = fewer + self._count(owner, other[1])
                if gain <= 2 or other[1] == topic or not kept or not self._may_have(holder, other[0]):
                    continue
                gain -= self._count(holder, other[1])
                if gain > 2 and self._misses_as_many(holder, number, owner, other[0]):
                    self._swap_kept(holder, cell, partition, owner, other)
                    return True
        return False

    def _given(self, giver: int, cell: Cell, taker: int) -> int | None:
        """A partition of the cell that the taker did not release."""
        _, topic = cell
        for partition in self._dealt[giver].get(cell, ()):
            if self._released.get((topic, partition)) != taker:
                return partition
        return None

    def _may_have(self, member: int, number: int) -> bool:
        return self._cohort_of[member] in self._subscribers[number]

    def _misses_as_many(self, one: int, its: int, other: int, others: int) -> bool:
        """Whether two members together miss as many racks after an exchange between these two classes."""
        if its == others:
            return True
        racks, parts = self._classes.racks, self._classes.partition_classes
        before = parts[its].misses(racks[one]) + parts[others].misses(racks[other])
        return before == parts[its].misses(racks[other]) + parts[others].misses(racks[one])

    def _costs_as_much(self, giver: int, taker: int) -> bool:
        """Whether the taker's next partition adds to balance what the giver's last one did."""
        here, there = self._cohort_of[giver], self._cohort_of[taker]
        capacities, already = self._classes.capacities, self._classes.already
        saved = 2 * (self._load(giver) + already[here]) - 1
        added = 2 * (self._load(taker) + already[there]) + 1
        return saved * capacities[there] == added * capacities[here]

    def _may_pass(self, giver: int, number: int, taker: int) -> bool:
        """Whether a partition of the class misses as many racks at the taker as at the giver."""
        racks, part = self._classes.racks, self._classes.partition_classes[number]
        return part.misses(racks[giver]) == part.misses(racks[taker])

    def _pass_dealt(self, giver: int, cell: Cell, partition: int, taker: int) -> None:
        self._dealt[giver][cell].remove(partition)
        if not self._dealt[giver][cell]:
            del self._dealt[giver][cell]
        self._dealt.setdefault(taker, {}).setdefault(cell, []).append(partition)
        self._hand_over(giver, cell[1], partition, taker)

    def _swap_kept(self, holder: int, cell: Cell, partition: int, owner: int, other: Cell) -> None:
        self._dealt[holder][cell].remove(partition)
        if not self._dealt[holder][cell]:
            del self._dealt[holder][cell]
        self._kept[owner].setdefault(cell, []).append(partition)
        del self._released[cell[1], partition]
        instead = self._kept[owner][other].pop()
        self._dealt[holder].setdefault(other, []).append(instead)
        self._released[other[1], instead] = owner
        self._hand_over(holder, cell[1], partition, owner)
        self._hand_over(owner, other[1], instead, holder)

    def _hand_over(self, giver: int, topic: str, partition: int, taker: int) -> None:
        self._list(giver, topic).remove(partition)
        self._list(taker, topic).append(partition)

    def _list(self, member: int, topic: str) -> list[int]:
        changed = self._changed.setdefault(member, {})
        if topic not in changed:
            changed[topic] = list(self._holdings[member].get(topic, ()))
        return changed[topic]
