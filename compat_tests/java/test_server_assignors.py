"""`kip848-range` gives the same result as the class of a released broker, `kip848-uniform` the same loads and
moves, for thousands of groups.
"""

from __future__ import annotations

import base64
import json
import random
from collections import Counter
from dataclasses import replace

import pytest

from compat_tests.java.oracle import JavaOracle
from compat_tests.java.random_groups import features, random_group
from kafka_assignors.group import NO_GENERATION, Assignment, Group
from kafka_assignors.quality import measure
from kafka_assignors_cli.group_form import assignment_to_json, group_to_json
from kafka_assignors_strategies import Kip848Range, Kip848Uniform

GROUPS = 2000


def server_group(seed: int) -> Group:
    """A random group with topic ids and judged claims, the same on every machine.

    In every second group members own nearly all partitions, very unevenly.
    """
    rng = random.Random(f"server group {seed}")
    drawn = random_group(seed)
    ids = {name: base64.urlsafe_b64encode(rng.randbytes(16)).decode()[:22] for name in drawn.topics}
    group = replace(
        drawn, topics={name: replace(topic, id=ids[name]) for name, topic in drawn.topics.items()}
    )
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


@pytest.mark.timeout(600)
def test_loads_and_moves_are_those_of_the_broker_and_range_is_equal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    seen: Counter[str] = Counter()
    groups = [server_group(seed) for seed in range(GROUPS)]
    with JavaOracle("kip848-range", "kip848-uniform") as java:
        all_answers = [java.assign(group) for group in groups]
    for seed, (group, answers) in enumerate(zip(groups, all_answers, strict=True)):
        where = f"server_group({seed}): {json.dumps(group_to_json(group))}"
        ranges = (Kip848Range().assign(group), answers["kip848-range"])
        assert assignment_to_json(ranges[0]) == assignment_to_json(ranges[1]), where
        ours, theirs = Kip848Uniform().assign(group), answers["kip848-uniform"]
        moved = measure(group, theirs).moved
        equal = (loads(ours), measure(group, ours).moved) == (loads(theirs), moved)
        kind = "mixed" if len({member.topics for member in group.members.values()}) > 1 else "alike"
        assert equal or kind == "mixed", where
        seen.update(features(group))
        seen.update({kind: 1, f"{kind}, equal": equal, "moves": bool(moved)})
    with capsys.disabled():
        print(
            f"\nloads and moves equal in {seen['alike, equal']} of {seen['alike']} groups whose members "
            f"subscribe alike, in {seen['mixed, equal']} of {seen['mixed']} others"
        )
    wanted = ("moves", "mixed subscriptions", "owned partitions", "static members", "30 members and more")
    assert min(seen[feature] for feature in wanted) > GROUPS // 50
    assert seen["mixed, equal"] > 0.5 * seen["mixed"]


def loads(assignment: Assignment) -> list[int]:
    return sorted(map(assignment.load, assignment.members))
