"""What the leader does with a strategy: ask for the target, check it, withhold what members still hold.

* **Target.** `Strategy.assign` says who should own what once the group has settled.
* **Check.** A strategy may be third-party code. An assignment that gives a partition to two members, to none,
  or to a member that did not subscribe never leaves the leader.
* **Hold.** A partition whose next owner is still warming it stays with its owner (`kafka_assignors.handoff`).
* **Withhold.** Under the cooperative protocol (KIP-429) members go on consuming what they own while they
  join. A partition that changes hands is therefore assigned to no member in this generation; its owner sees
  that it is gone, revokes it and rejoins, and the next generation hands it over. It is withheld while *any*
  other member still claims it, in any generation and even if the claim does not count: a claim that is too
  old to earn stickiness can still be a member that is consuming. Only a member with a claim that counts need
  not wait: of two that claim the same partition in the same generation, neither gets it at once.

Under `RebalanceProtocol.CONSUMER` the coordinator withholds partitions, and no member joins again for that,
so here the target is the assignment.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from itertools import chain

from kafka_assignors.group import Assignment, Group, Topic, TopicPartitions, quoted
from kafka_assignors.handoff import Handoff
from kafka_assignors.strategy import RebalanceProtocol, Strategy, is_ours, lent
from kafka_assignors.wire.warm_sections import WarmList


class InvalidAssignmentError(ValueError):
    """A strategy's assignment breaks its contract: the message names member, topic and partition."""


@dataclass(frozen=True, slots=True)
class LeaderResult:
    """The result of `lead`.

    `assignment` is what to send to the members now, `target` what the strategy wants in the end. `withheld`
    is what another member must revoke first, by the member that will get it. `lists` has what each member
    shall warm, and `held` says how many partitions wait for that; it is empty if no member of the group knows
    of warm-ups.
    """

    assignment: Assignment
    target: Assignment
    withheld: Mapping[str, TopicPartitions]
    lists: Mapping[str, WarmList] = field(default_factory=dict)
    held: int = 0


def lead(strategy: Strategy, group: Group, protocol: RebalanceProtocol) -> LeaderResult:
    """Run one assignment of a group as its leader does.

    `protocol` is the one the group runs. Raises `InvalidAssignmentError` if the strategy's assignment breaks
    its contract; an exception of the strategy itself passes through.

    A strategy that is not of this package is handed a copy of the group, and its answer is copied: what it
    changes in either has no effect.
    """
    cooperative = protocol is RebalanceProtocol.COOPERATIVE
    handoff = Handoff.of(strategy, group) if cooperative else None
    if handoff is None:
        target = _target(strategy, group)
        withheld = _still_held(group, target) if cooperative else {}
        return LeaderResult(_without(target, withheld) if withheld else target, target, withheld)
    target = handoff.kept() or _target(strategy, handoff.group)
    held, moves, waiting = handoff.hold(target, strategy.units(lent(strategy, handoff.group)))
    check_assignment(group, held)
    withheld = _still_held(group, held)
    assignment = _without(held, withheld)
    return LeaderResult(assignment, target, withheld, handoff.lists(target, moves, assignment), waiting)


def _target(strategy: Strategy, group: Group) -> Assignment:
    target = strategy.assign(lent(strategy, group))
    if not is_ours(type(strategy)):
        target = _detached(target)
    try:
        check_assignment(group, target)
    except InvalidAssignmentError as error:
        raise InvalidAssignmentError(f"strategy {strategy.name!r}: {error}") from None
    return target


def _detached(answer: Assignment) -> Assignment:
    """A copy of the assignment; a part that is not valid stays as it is, and fails the check."""
    if not isinstance(answer, Assignment) or not isinstance(answer.members, Mapping):
        return answer
    return Assignment(
        {
            member_id: {topic: _plain(numbers) for topic, numbers in assigned.items()}
            if isinstance(assigned, Mapping)
            else assigned
            for member_id, assigned in answer.members.items()
        }
    )


def _plain(numbers: Sequence[int]) -> Sequence[int]:
    """A list of ints, also of what stands for an int, such as one of numpy, which JSON does not know."""
    if type(numbers) is range or not isinstance(numbers, Collection):
        return numbers
    try:
        return array("i", iter(numbers)).tolist()
    except (TypeError, OverflowError):
        return numbers


_SIZED = frozenset({list, range, tuple})
"""The usual types of a sequence of partitions. A check against an abstract class is slow."""


def check_assignment(group: Group, assignment: Assignment) -> None:
    """Raise `InvalidAssignmentError` unless every subscribed partition has exactly one owner.

    That owner must subscribe to its topic; every member of the group must have an entry, and no other id may.
    Time is linear in the partitions.
    """
    if not isinstance(assignment, Assignment):
        raise InvalidAssignmentError(f"returned {type(assignment).__name__} instead of an Assignment")
    members = group.members
    if not isinstance(assignment.members, Mapping):
        raise InvalidAssignmentError(f"its members are {_kind(assignment.members)}, not a mapping")
    if assignment.members.keys() != members.keys():
        if strangers := assignment.members.keys() - members.keys():
            # Ordered by `repr`: these ids may be of any type, and of several types.
            stranger = min(strangers, key=repr)
            raise InvalidAssignmentError(f"assigned to {quoted(stranger)}, who is not a member of the group")
        missing = min(members.keys() - assignment.members.keys())
        raise InvalidAssignmentError(
            f"has no entry for member {quoted(missing)}: give an empty one if it gets nothing"
        )

    shares: dict[str, list[Collection[int]]] = {topic_name: [] for topic_name in group.topics}
    for member_id, assigned in assignment.members.items():
        if type(assigned) is not dict and not isinstance(assigned, Mapping):
            raise InvalidAssignmentError(
                f"gave member {quoted(member_id)} {_kind(assigned)}, not a mapping of topics"
            )
        for kind in {*map(type, assigned.values())} - _SIZED:
            if not issubclass(kind, Sized):  # A generator would be empty by the time it is sent.
                raise InvalidAssignmentError(
                    f"gave member {quoted(member_id)} a {kind.__name__}, not a sequence"
                )
        if not assigned.keys() <= members[member_id].topics:
            topic_name = min(assigned.keys() - members[member_id].topics, key=repr)
            raise InvalidAssignmentError(
                f"gave member {quoted(member_id)} partitions of {quoted(topic_name)}, to which it does not "
                "subscribe"
            )
        for topic_name, partitions in assigned.items():
            if topic_name not in shares:
                raise InvalidAssignmentError(
                    f"gave out partitions of {quoted(topic_name)}, which has no metadata"
                )
            shares[topic_name].append(partitions)

    subscribed = set().union(*{member.topics for member in members.values()})
    for topic_name in sorted(subscribed & group.topics.keys()):  # An error names the same one always.
        _check_topic(group.topics[topic_name], shares[topic_name], assignment)


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _check_topic(topic: Topic, shares: Sequence[Collection[int]], assignment: Assignment) -> None:
    try:
        numbers = array("i", chain.from_iterable(shares))
    except (TypeError, OverflowError):
        raise _not_a_number(topic.name, assignment) from None
    given = set(numbers)
    if len(given) == topic.partitions == len(numbers) and (
        not given or (min(given) == 0 and max(given) == topic.partitions - 1)
    ):
        return

    # The assignment is wrong, so time no longer matters: find the error, and name it.
    owner: dict[int, str] = {}
    for member_id in sorted(assignment.members):
        for partition in assignment.members[member_id].get(topic.name, ()):
            where = f"partition {partition} of {quoted(topic.name)}"
            if not 0 <= partition < topic.partitions:
                raise InvalidAssignmentError(
                    f"gave member {quoted(member_id)} {where}, which has {topic.partitions} partitions"
                )
            if partition in owner:
                first = owner[partition]
                to = (
                    f"{quoted(member_id)} twice"
                    if first == member_id
                    else f"both {quoted(first)} and {quoted(member_id)}"
                )
                raise InvalidAssignmentError(f"gave {where} to {to}")
            owner[partition] = member_id
    missing = [partition for partition in range(topic.partitions) if partition not in owner]
    raise InvalidAssignmentError(
        f"left {len(missing)} of the {topic.partitions} partitions of {quoted(topic.name)} without an owner, "
        f"the first being {missing[0]}"
    )


def _not_a_number(topic_name: str, assignment: Assignment) -> InvalidAssignmentError:
    for member_id, assigned in assignment.members.items():
        try:
            array("i", assigned.get(topic_name, ()))
        except (TypeError, OverflowError) as error:
            return InvalidAssignmentError(
                f"gave member {quoted(member_id)} something of {quoted(topic_name)} "
                f"that is not a partition number: {error}"
            )
    raise AssertionError("all of them are numbers")


def _still_held(group: Group, target: Assignment) -> dict[str, dict[str, list[int]]]:
    """By member, the partitions that the target gives it and that another member has not revoked yet."""
    held_now = {member.id: member.owned for member in group.members.values() if not member.revoked}
    holders: dict[str, list[str]] = {topic_name: [] for topic_name in group.topics}
    for member_id, owned in held_now.items():
        for topic_name in owned:
            if topic_name in holders:
                holders[topic_name].append(member_id)
    held: dict[str, Counter[int]] = {}  # by topic, how many members hold each partition

    prior = group.claims.owners
    withheld: dict[str, dict[str, list[int]]] = {}
    for member_id, assigned in target.members.items():
        own = held_now.get(member_id, {})
        counting = prior.get(member_id, {}) if own else {}
        for topic_name, partitions in assigned.items():
            keeps = counting.get(topic_name, ())
            if partitions is keeps or not holders[topic_name]:
                continue
            if topic_name not in held:
                sets = (set(held_now[each][topic_name]) for each in holders[topic_name])
                held[topic_name] = Counter(chain.from_iterable(sets))
            holds = held[topic_name]
            moving = holds.keys() & partitions
            moving.difference_update(keeps)
            if moving and topic_name in own:
                # Its own claim does not count: a member waits for every other member, not for itself.
                claimed = set(own[topic_name])
                moving = {partition for partition in moving if holds[partition] > (partition in claimed)}
            if moving:
                withheld.setdefault(member_id, {})[topic_name] = sorted(moving)
    return withheld


def _without(target: Assignment, withheld: Mapping[str, TopicPartitions]) -> Assignment:
    members = dict(target.members)
    for member_id, topics in withheld.items():
        left = dict(members[member_id])
        for topic_name, partitions in topics.items():
            gone = set(partitions)
            kept = [partition for partition in left[topic_name] if partition not in gone]
            if kept:
                left[topic_name] = kept
            else:
                del left[topic_name]
        members[member_id] = left
    return Assignment(members)
