"""Groups whose owned partitions are an optimal assignment already, as an independent solver proved.

A leader of any release has to leave these groups unchanged. Otherwise leaders of two releases would move
partitions back and forth. The exact oracle wrote `data/settled_groups.jsonl` once; the file does not change:

    python -m tests.settled_groups --groups 120 > tests/data/settled_groups.jsonl
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from kafka_assignors.group import Assignment, Group
from kafka_assignors.group_json import parse_group
from kafka_assignors_cli.group_form import group_to_json
from tests.exact_groups import Limits, random_group
from tests.exact_oracle import Oracle
from tests.exact_score import Order

__all__ = ["FILE", "owned", "settled", "settled_groups"]

FILE = Path(__file__).parent / "data" / "settled_groups.jsonl"

SIZES = Limits(members=7, topics=5, partitions=8)
ORDERS = {
    "sticky": Order.MOVEMENT_RACKS,
    "cooperative-sticky": Order.MOVEMENT_RACKS,
    "rack-aware-sticky": Order.RACKS_MOVEMENT,
}
"""The wishes after balance that each strategy's assignments are optimal in."""


def settled(group: Group, order: Order, rng: random.Random) -> Group:
    """The same members, which own an optimal assignment; `rng` chooses among the optimal ones."""
    members, topics = list(group.members.values()), list(group.topics.values())
    rng.shuffle(members)
    rng.shuffle(topics)
    owners = Oracle(Group.of(topics, members)).best_owners(order)
    of_member: dict[str, dict[str, list[int]]] = {member_id: {} for member_id in group.members}
    for (topic, number), member_id in sorted(owners.items()):
        of_member[member_id].setdefault(topic, []).append(number)
    return Group.of(
        group.topics.values(),
        [
            replace(member, owned=of_member[member.id], generation=6 if of_member[member.id] else -1)
            for member in group.members.values()
        ],
        7,
    )


def owned(group: Group) -> Assignment:
    """The owned partitions as an assignment."""
    return Assignment({member.id: member.owned for member in group.members.values()})


def settled_groups() -> Iterator[tuple[str, Group]]:
    """The groups of the file, each with the strategy that has to leave it unchanged."""
    for line in FILE.read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        yield case["strategy"], parse_group(case["group"])


def main() -> None:
    parser = argparse.ArgumentParser(description="Write settled groups, a JSON object a line.")
    parser.add_argument("--groups", type=int, default=120)
    options = parser.parse_args()
    for number in range(options.groups):
        rng = random.Random(f"settled/{number}")
        group = random_group(rng, SIZES)
        strategy = list(ORDERS)[number % len(ORDERS)]
        case = {"strategy": strategy, "group": group_to_json(settled(group, ORDERS[strategy], rng))}
        print(json.dumps(case, separators=(",", ":")))


if __name__ == "__main__":
    main()
