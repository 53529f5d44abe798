"""The broker's `uniform` where members subscribe to different topics.

Everybody keeps what it has. A topic at a time, those with most partitions a subscriber first (then those with
fewer subscribers, then by id), what nobody has goes to the subscribers with least; where several have as
little, to the first of them. Then the same topics are *balanced*, again and again: the fullest subscribers
give partitions of the topic, highest numbers first, to the emptiest, until their loads are no more than one
apart or nobody has any of this topic left to give. That ends when all topics were gone through in turn and
nothing moved, or after 16 rounds.

It finds no chains. A member that is too full, but has nothing of a topic that an emptier one reads, stays as
it is, though a third could pass something on. So the loads can be less even than they could be, and
partitions may move that need not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from kafka_assignors.group import Assignment, Group, Member
from kafka_assignors.strategies._order import topics_by_subscribers

__all__ = ["assign_mixed"]

_ROUNDS = 16


def assign_mixed(group: Group, members: list[Member], topic_ids: Mapping[str, bytes]) -> Assignment:
    """The target; `members` are in the order in which the broker numbers them."""
    subscribers = {
        topic.name: positions
        for positions, topics in topics_by_subscribers(group, members)
        for topic in topics
    }

    def rank(topic: str) -> tuple[float, int, tuple[int, int]]:
        readers = len(subscribers[topic])
        return -(group.topics[topic].partitions / readers), readers, _signed(topic_ids[topic])

    claims = group.claims
    work = _Work([claims.prior.get(member.id, {}) for member in members])
    topics = sorted(subscribers, key=rank)
    for topic in topics:
        if topic in claims.unowned:
            work.deal(topic, subscribers[topic], claims.unowned[topic])

    shared = [topic for topic in topics if len(subscribers[topic]) > 1]
    last_moved: int | None = None
    for _ in range(_ROUNDS):
        for index, topic in enumerate(shared):
            if index == last_moved:
                return work.result(group, members)
            if work.balance(topic, subscribers[topic]) or last_moved is None:
                last_moved = index
    return work.result(group, members)


class _Work:
    """Who has what, by the members' positions, on the way to the target."""

    def __init__(self, held: Sequence[Mapping[str, Sequence[int]]]) -> None:
        self._held: list[dict[str, Sequence[int]]] = [dict(topics) for topics in held]
        self._loads = [sum(map(len, topics.values())) for topics in held]

    def deal(self, topic: str, subscribers: Sequence[int], partitions: Sequence[int]) -> None:
        """Give out what nobody has of a topic."""
        takers = _takers(self._by_load(subscribers), self._loads)
        gained: dict[int, list[int]] = {}
        for partition, (_, taker) in zip(partitions, takers, strict=False):
            gained.setdefault(taker, []).append(partition)
            self._loads[taker] += 1
        self._add(topic, gained)

    def balance(self, topic: str, subscribers: Sequence[int]) -> bool:
        """Whether subscribers with most gave any of the topic to those with least."""
        by_load = self._by_load(subscribers)
        if self._loads[by_load[-1]] - self._loads[by_load[0]] <= 1:
            return False
        stock = {
            position: sorted(self._held[position][topic])
            for position in subscribers
            if topic in self._held[position]
        }
        gained: dict[int, list[int]] = {}
        takers = _takers(by_load, self._loads)
        for most, giver in _givers(by_load, self._loads, stock):
            least, taker = next(takers)
            if most - least <= 1:
                break
            gained.setdefault(taker, []).append(stock[giver].pop())
            self._loads[giver] -= 1
            self._loads[taker] += 1
        if gained:
            for position, left in stock.items():
                if left:
                    self._held[position][topic] = left
                else:
                    del self._held[position][topic]
            self._add(topic, gained)
        return bool(gained)

    def result(self, group: Group, members: Sequence[Member]) -> Assignment:
        by_id = {member.id: held for member, held in zip(members, self._held, strict=True)}
        return Assignment({member_id: by_id[member_id] for member_id in group.members})

    def _by_load(self, subscribers: Sequence[int]) -> list[int]:
        return sorted(subscribers, key=self._loads.__getitem__)  # stable: ties by position

    def _add(self, topic: str, gained: Mapping[int, Sequence[int]]) -> None:
        for position, partitions in gained.items():
            held = self._held[position]
            held[topic] = sorted((*held.get(topic, ()), *partitions))


def _takers(by_load: Sequence[int], loads: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Without end, the load that is filled up next and a member that has it, emptiest first.

    `loads` must grow by one for each member that comes out.
    """
    level, reached = loads[by_load[0]], 0
    while True:
        while reached < len(by_load) and loads[by_load[reached]] == level:
            reached += 1
        for taker in islice(by_load, reached):
            yield level, taker
        level += 1


def _givers(
    by_load: Sequence[int], loads: Sequence[int], stock: Mapping[int, Sequence[int]]
) -> Iterator[tuple[int, int]]:
    """The load that is worn down next and a member that has it and something in stock, fullest first.

    `loads` and `stock` must shrink by one for each member that comes out. Members with nothing left to give
    drop out, and the last in the row takes the place of each.
    """
    row, start = list(by_load), len(by_load)
    level = loads[by_load[-1]] + 1
    while row:
        level = loads[row[start - 1]] if len(row) == start else level - 1
        while start and loads[row[start - 1]] == level:
            start -= 1
        for place in range(len(row) - 1, start - 1, -1):
            giver = row[place]
            if stock.get(giver):
                yield level, giver
            else:
                row[place] = row[-1]
                row.pop()


def _signed(topic_id: bytes) -> tuple[int, int]:
    """A sort key as `Uuid.compareTo` compares: two signed numbers."""
    return int.from_bytes(topic_id[:8], "big", signed=True), int.from_bytes(topic_id[8:], "big", signed=True)
