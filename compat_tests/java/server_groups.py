"""Random KIP-848 groups and random histories of them, each made from a seed alone.

`server_group(seed)` is `random_group(seed)` with topic ids. In every second group members own nearly all
partitions, very unevenly, as a careless assignor would assign them.

`history(seed)` is a group whose members and topics change: it has 1 to 12 members at first and 30 at most; in
half of the histories all members have the same subscription.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from compat_tests.java.random_groups import random_group
from kafka_assignors.group import NO_GENERATION, Group, Member, Topic

__all__ = ["Change", "history", "server_group"]

MOST_MEMBERS = 30


def server_group(seed: int) -> Group:
    """The group of this seed with judged claims; it is the same on every machine."""
    rng = random.Random(f"server group {seed}")
    drawn = random_group(seed)
    group = replace(drawn, topics={name: with_id(rng, topic) for name, topic in drawn.topics.items()})
    if seed % 2:
        group = _unevenly_owned(rng, group)
    prior = group.claims.owners
    members = [
        replace(
            member,
            owned=prior.get(member.id, {}),
            generation=1 if member.id in prior else rng.choice((1, NO_GENERATION)),
        )
        for member in group.members.values()
    ]
    return Group.of(group.topics.values(), members, 2)


def with_id(rng: random.Random, topic: Topic) -> Topic:
    """The topic with a new id."""
    return replace(topic, id=base64.urlsafe_b64encode(rng.randbytes(16)).decode()[:22])


def _unevenly_owned(rng: random.Random, group: Group) -> Group:
    greed = {member_id: rng.random() ** 3 + 0.01 for member_id in group.members}
    owned: dict[str, dict[str, list[int]]] = {member_id: {} for member_id in group.members}
    for name, topic in group.topics.items():
        owners = [id_ for id_, one in group.members.items() if name in one.topics and rng.random() < 0.8]
        for partition in range(topic.partitions) if owners else ():
            if rng.random() < 0.95:
                (owner,) = rng.choices(owners, [greed[member_id] for member_id in owners])
                owned[owner].setdefault(name, []).append(partition)
    members = [replace(one, owned=owned[id_], generation=1) for id_, one in group.members.items()]
    return Group.of(group.topics.values(), members, 2)


@dataclass(frozen=True, slots=True)
class Change:
    """The next epoch: `what` names the change; `topics` and `members` are the group's after it.

    The request of the member `heartbeat` makes the coordinator compute the target. `left` has left the group,
    and `recreated` is a topic with a new id. Members own nothing here: the assignor keeps their partitions.
    """

    what: str
    topics: Mapping[str, Topic]
    members: Mapping[str, Member]
    heartbeat: Member
    left: str | None = None
    recreated: str | None = None


def history(seed: int, epochs: int) -> Iterator[Change]:
    """The first `epochs` changes of the group of this seed; the first one is a member's join."""
    rng = random.Random(f"history {seed}")
    topics = {
        name: with_id(rng, Topic(name, rng.randint(1, 40)))
        for name in (f"topic-{rng.getrandbits(32):08x}" for _ in range(rng.randint(1, 6)))
    }
    alike = rng.random() < 0.5
    members: dict[str, Member] = {}

    def subscription() -> frozenset[str]:
        names = sorted(topics)
        return frozenset(names if alike else rng.sample(names, rng.randint(1, len(names))))

    def some(what: Mapping[str, object]) -> str:
        return rng.choice(sorted(what))

    for _ in range(epochs):
        what = rng.choice(("join", "join", "leave", "grow", "subscribe", "create", "delete", "recreate"))
        left = recreated = heartbeat = None
        if len(members) < 2 or (len(members) < MOST_MEMBERS and rng.random() < 0.4):
            what = "join"
        if what == "leave" and len(members) > 1:
            left = some(members)
            del members[left]
        elif what == "grow":
            name = some(topics)
            topics[name] = replace(topics[name], partitions=topics[name].partitions + rng.randint(1, 9))
        elif what == "subscribe" and not alike:
            heartbeat = replace(members[some(members)], topics=subscription())
        elif what == "create":
            name = f"topic-{rng.getrandbits(32):08x}"
            topics[name] = with_id(rng, Topic(name, rng.randint(1, 40)))
        elif what == "delete" and len(topics) > 1:
            del topics[some(topics)]
        elif what == "recreate":
            recreated = some(topics)
            topics[recreated] = with_id(rng, topics[recreated])
        else:
            what = "join"
            instance_id = f"pod-{rng.getrandbits(32):08x}" if rng.random() < 0.3 else None
            member_id = base64.urlsafe_b64encode(rng.randbytes(16)).decode()[:22]
            heartbeat = Member(member_id, subscription(), instance_id)
        if heartbeat is None:
            heartbeat = members[some(members)]
        members[heartbeat.id] = heartbeat
        yield Change(what, dict(topics), dict(members), heartbeat, left, recreated)
