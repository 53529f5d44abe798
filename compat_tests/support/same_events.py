"""A fixed series of events in a real group, and their cost under a strategy.

    with CooperativeGroup(kafka, program, {"orders": 44}) as group:
        steps = live_through(group, alerts_first(group, folder), "alerts", 4)

Members read one topic. A new topic is rolled out member by member; then members join, leave and are killed.
The counts come from the members' reports.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from compat_tests.scenarios.cooperative import CooperativeGroup, flat, owned
from compat_tests.support.group_of_members import Settled

__all__ = [
    "AssignorOf",
    "Event",
    "Step",
    "alerts_first",
    "announcing",
    "crowding",
    "joined_tasks",
    "live_through",
    "loads",
    "orders_with_payments",
    "steps",
]

_SESSION_MS = 10_000
"""Long enough that only a killed member's session expires, even on a busy machine."""

_RULES = """\
from kafka_assignors.announcements import Facts
from kafka_assignors_strategies.composed import Composed
from kafka_assignors_strategies.rules import *

strategy = Composed({name!r}, ({rules}, FewestMoves(), FewestRackMisses()), Facts({announces}))
"""


AssignorOf = Callable[[str], str]
"""The assignor, for `MemberSpec.assignors`, of the member with this name."""

Event = tuple[str, Sequence[Callable[[], None]]]
"""The name of the event, and its parts; the group settles after each part."""


def announcing(group: CooperativeGroup, folder: Path, rules: str, announces: Mapping[str, str]) -> AssignorOf:
    """Files with the same rules for all members; the members in `announces` also announce a fact."""
    name = f"announced-{group.run}"

    def assignor_of(member: str) -> str:
        return _written(folder / f"{member}.py", name, rules, announces.get(member, ""))

    return assignor_of


def alerts_first(group: CooperativeGroup, folder: Path) -> str:
    """A file with a strategy that balances `alerts` separately, as an assignor of a member."""
    rules = f"LevelByPriority([['alerts-{group.run}']])"
    return _written(folder / "alerts_first.py", f"alerts-first-{group.run}", rules)


def orders_with_payments(group: CooperativeGroup, folder: Path) -> str:
    """A file whose strategy keeps same-numbered partitions of `orders` and `payments` on one member."""
    topics = f"[['orders-{group.run}', 'payments-{group.run}']]"
    rules = f"KeepTogether({topics}), LevelPartitions()"
    return _written(folder / "joins.py", f"joins-{group.run}", rules)


def _written(file: Path, name: str, rules: str, announces: str = "") -> str:
    file.write_text(_RULES.format(name=name, rules=rules, announces=announces), encoding="utf-8")
    return f"{file}:strategy"


@dataclass(frozen=True, slots=True)
class Step:
    """One event, and how the group settled after it.

    `revoked` counts partitions given up by members that went on consuming others. `added` counts partitions
    that members received.
    """

    event: str
    settled: Settled
    revoked: int
    added: int


def live_through(
    group: CooperativeGroup, assignor: str | AssignorOf, topic: str, partitions: int, *, crowded: bool = True
) -> list[Step]:
    """Three members start reading the topic one at a time, unless the group has had it from the start.

    If `crowded`, a fourth member joins then, one leaves, and one is killed.
    """
    rolled_out = not any(full.startswith(f"{topic}-") for full in group.topics)

    def join(*names: str) -> None:
        for name in names:
            one = assignor if isinstance(assignor, str) else assignor(name)
            group.join(name, [one], session_timeout_ms=_SESSION_MS)

    def create_for(name: str) -> None:
        group.create_topic(topic, partitions)
        subscribe(name)

    def subscribe(name: str) -> None:
        group.subscribe(name, ["orders", topic])

    events: list[Event] = [("three members", [lambda: join("a", "b", "c")])]
    if rolled_out:
        events += [
            (f"one reads `{topic}`", [lambda: create_for("a")]),
            ("all read it", [lambda: subscribe("b"), lambda: subscribe("c")]),
        ]
    if crowded:
        events += crowding(group, lambda: join("d"))
    return list(steps(group, events))


def crowding(group: CooperativeGroup, join: Callable[[], None]) -> list[Event]:
    """Events for a group of a, b and c: a member joins, a member leaves, a member is killed."""
    return [
        ("a fourth joins", [join]),
        ("one leaves", [lambda: group.stop("b")]),
        ("one is killed", [lambda: group.kill("c")]),
    ]


def steps(group: CooperativeGroup, events: Sequence[Event]) -> Iterator[Step]:
    """Run each event when its step is requested."""
    settled = None
    for event, parts in events:
        before = {name: len(member.reports()) for name, member in group.members.items()}
        for happen in parts:
            happen()
            settled = group.settle(after=settled)
        assert settled is not None
        counted: Counter[str] = Counter()
        for name, member in group.members.items():
            for report in member.reports()[before.get(name, 0) :]:
                if report["event"] == "stopped":
                    break
                if report["event"] in ("revoked", "added"):
                    counted[report["event"]] += len(flat(report["partitions"]))
        yield Step(event, settled, counted["revoked"], counted["added"])


def loads(step: Step, topic: str = "") -> list[int]:
    """The number of partitions of each member, for this topic or for all, descending."""
    counts = (
        sum(topic in ("", name) for name, _ in owned(step.settled, member)) for member in step.settled.names
    )
    return sorted(counts, reverse=True)


def joined_tasks(step: Step, one: str, other: str) -> int:
    """The number of partitions of `one` whose owner has the same partition of `other`."""
    found = [owned(step.settled, member) for member in step.settled.names]
    return sum((other, number) in share for share in found for topic, number in share if topic == one)
