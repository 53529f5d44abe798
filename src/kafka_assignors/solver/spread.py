"""The last of step 4: topics spread over members more evenly, by exchanges that cost nothing.

Placement releases and deals by simple rules that do not look at what else a member has of a topic. Here two
members exchange partitions if all that was decided before stays as it is and topics lie more evenly
afterwards, that is if the sum of squares over topics and members falls. Let a member that has `a` partitions
of a topic give one to a member that has `b` of it, and get one of another topic, of which that one has `c`
and it has `d`: the sum falls exactly if (a - b) + (c - d) > 2.

Movement and rack misses stay as they are, because only these changes are looked at:

- **Exchange.** Both partitions have been dealt, and neither goes to who released it: each has moved, and goes
  on having moved. Both members subscribe to both, and together they miss as many racks as before.
- **Pass.** A partition that was dealt goes to a member at which it costs balance as much, under the same
  conditions. Where members have the same capacity that is one that has one less in all: the two change loads.
- **Give back.** One that was dealt goes back to the member that released it, which releases another instead.

The sum falls each time, so this comes to an end. It is also bounded: nothing is done if more than
`MOST_DEALT` partitions were dealt (there the rounds in which they are dealt have to do), a giver turns to the
`PARTNERS` members with the fewest at most, and all together look at `LOOKS` counts and `LOOKS_PER_PARTITION`
for each partition dealt. What two members cannot mend between them, such as a ring of three, stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kafka_assignors.group import TopicPartitions
from kafka_assignors.solver.classes import Classes

__all__ = ["MOST_DEALT", "PlacedClass", "even_out"]

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

    `kept` is what those members keep, by number, that had to release some, and `released` what they released.
    `size` is how many partitions
    were dealt; `dealt` has them by topic, with the members that got them, if they are few enough.
    """

    kept: Mapping[int, TopicPartitions]
    released: Released
    size: int
    dealt: list[tuple[str, list[tuple[int, Sequence[int]]]]] = field(default_factory=list)


def even_out(classes: Classes, placed: Sequence[PlacedClass], holdings: list[TopicPartitions]) -> None:
    """Exchange partitions in `holdings`, which has those of each member, by its number.

    Sequences in it are replaced and not touched.
    """
    if sum(how.size for how in placed) > MOST_DEALT:
        return
    (first, *others) = classes.partition_classes or (None,)
    if first is None or (not others and not first.owned_counts):
        return  # dealt in rounds to members who had nothing: nothing can be more even
    _Exchanges(classes, placed, holdings).run()


class _Exchanges:
    """What may be exchanged, and what members have.

    `dealt` has, by member and cell, what was dealt to it. `released` says who released a partition, by topic
    and number, and `kept`, of these members, what they kept. What is looked up of a member is read from its
    holding when it is first asked for.
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
        """Whether it misses as many racks when a partition of the class goes from the one to the other."""
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
