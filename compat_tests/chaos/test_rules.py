"""Each rule, on ledgers that keep it and on ledgers that break it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from compat_tests.chaos.ledger import (
    Commit,
    CommitFailure,
    Delivery,
    Ending,
    Generation,
    Ledger,
    Outage,
    Ownership,
    Partition,
)
from compat_tests.chaos.rules import RULES, duplicates, judge

P = ("orders", 0)
Q = ("orders", 1)


def generation(at: float, number: int, **shares: tuple[str, int] | None) -> Generation:
    """A member id is the member's name, with a suffix if it is not the member's first id."""
    return Generation(
        at,
        number,
        next(iter(shares)),
        {member: member.split("_")[0] for member in shares},
        {member: frozenset({partition} if partition else ()) for member, partition in shares.items()},
    )


def owns(
    member_id: str,
    since: float,
    until: float = math.inf,
    ending: Ending = Ending.OPEN,
    partition: Partition = P,
    number: int = 1,
    told_at: float = math.inf,
) -> Ownership:
    member = member_id.split("_")[0]
    return Ownership(since, until, member, member_id, partition, ending, told_at, number)


HANDED_OVER = Ledger(
    deliveries=[Delivery(2, "a", P, 0, 4), Delivery(3, "a", P, 5, 9), Delivery(6, "b", P, 10, 19)],
    ownerships=[owns("a", 1, 4, Ending.REVOKED), owns("b", 5)],
    commits=[Commit(2.5, 1, P, 5), Commit(3.9, 2, P, 10), Commit(6.5, 3, P, 20)],
    generations=[
        generation(0.9, 1, a=P),
        generation(3.5, 2, a=None, b=None),
        generation(4.5, 3, a=None, b=P),
    ],
    written={P: 20},
)
"""a owns the partition and commits its records, and b goes on."""

ZOMBIE = Ledger(
    deliveries=[Delivery(2, "a", P, 0, 9), Delivery(11, "b", P, 5, 19), Delivery(13, "b", P, 20, 29)],
    ownerships=[owns("a", 1, 15, Ending.LOST), owns("b", 10.1)],
    commits=[Commit(2.5, 1, P, 5), Commit(13.5, 2, P, 30)],
    generations=[generation(0.9, 1, a=P, b=None), generation(10, 2, b=P)],
    written={P: 30},
)
"""a freezes at 3. The coordinator removes it, b goes on at a's committed offset, and a is told at 15."""

AWAKE = replace(
    ZOMBIE, deliveries=[*ZOMBIE.deliveries[:2], Delivery(12, "a", P, 10, 12), *ZOMBIE.deliveries[2:]]
)
"""The zombie delivers records of its buffer before it is told."""

AWAKE_WITHOUT_A_LEASE = replace(AWAKE, without_lease=frozenset({"a"}))


def handed_to_b_as(last: Delivery) -> Ledger:
    """The records that a did not have are handed over like this."""
    return replace(HANDED_OVER, deliveries=[*HANDED_OVER.deliveries[:2], last])


TWICE = replace(handed_to_b_as(Delivery(6, "b", P, 9, 19)), commits=HANDED_OVER.commits[:1])
"""a does not commit its last records, and b is handed one of them."""

LATE = Ledger(
    deliveries=[Delivery(11, "b", P, 0, 9)],
    ownerships=[owns("b", 10.1), owns("a", 14, 15, Ending.LOST)],
    generations=[generation(1, 1, a=P, b=None), generation(10, 2, b=P)],
)
"""a announces what an older generation gave it when b has it already."""


def stale(joined_from: Mapping[str, int]) -> Ledger:
    """Member a gets the partition in generation 2, and generation 3 has these JoinGroups."""
    return Ledger(
        deliveries=[Delivery(11, "b", P, 0, 9)],
        ownerships=[owns("a", 2, 12, Ending.LOST), owns("b", 10.1)],
        generations=[
            generation(1, 2, a=P),
            replace(generation(10, 3, a=None, b=P), joined_from=joined_from),
        ],
    )


STALE = stale({"a": 1, "b": 2})
"""The coordinator keeps static member a with its JoinGroup of generation 1."""

COPIED = replace(HANDED_OVER, copies={P: dict.fromkeys(range(20), 1)})

HANDED_AGAIN = [*HANDED_OVER.deliveries, Delivery(7, "b", P, 19, 19)]
REFUSED = CommitFailure(3.5, "a", frozenset({P}), "TopicAuthorizationFailedError")
REMOVED = [generation(0.9, 1, a=P, b=None), generation(4.5, 2, b=P)]


def told_as_revoked(at: float, **changes: Any) -> Ledger:
    """The zombie is told that the partition is revoked."""
    ownerships = [owns("a", 1, 15, Ending.REVOKED, told_at=at), ZOMBIE.ownerships[1]]
    return replace(ZOMBIE, ownerships=ownerships, **changes)


def ended(ending: Ending, first: int) -> Ledger:
    """a ends without a commit of its last records, and b begins at `first`."""
    return replace(
        handed_to_b_as(Delivery(6, "b", P, first, 19)),
        ownerships=[owns("a", 1, 4, ending), owns("b", 5)],
        commits=HANDED_OVER.commits[: 1 if first == 5 else None],
    )


KEPT: Mapping[str, Ledger] = {
    "handed over": HANDED_OVER,
    "zombie": ZOMBIE,
    "empty": Ledger(),
    "revoked in time": told_as_revoked(9),
    "revoked while cut off": told_as_revoked(14, outages=[Outage(12, 16, "a")]),
    "a late announcement": LATE,
    "revoked after a late announcement": Ledger(
        ownerships=[
            owns("b", 10.1, 18, Ending.REVOKED, told_at=17),
            Ownership(14, 15, "a", "", P, Ending.LOST),
        ],
        generations=[*LATE.generations, generation(16, 3, a=None, b=None)],
    ),
    "a static member that is late": STALE,
    "a static member that is late for its second generation": replace(
        stale({"a": -1, "b": 2}), static=frozenset("a")
    ),
    "a zombie without a lease": AWAKE_WITHOUT_A_LEASE,
    "removed and refused": replace(TWICE, generations=REMOVED, failures=[REFUSED]),
    "cut off": replace(TWICE, failures=[REFUSED], outages=[Outage(3, 4, "a")]),
    "lost": ended(Ending.LOST, 5),
    "died": ended(Ending.DIED, 5),
    "copied": COPIED,
    "handed again and copied once": replace(COPIED, deliveries=HANDED_AGAIN, commits=HANDED_OVER.commits[:2]),
    "a copy of what is not confirmed": replace(COPIED, copies={P: dict.fromkeys(range(26), 1)}),
}

BROKEN: Mapping[str, Mapping[str, Ledger]] = {
    "no record is lost": {
        "missing at the end": replace(HANDED_OVER, written={P: 21}),
        "missing partition": replace(HANDED_OVER, written={P: 20, Q: 1}),
    },
    "commits cover only what was delivered": {
        "gap": replace(HANDED_OVER, deliveries=HANDED_OVER.deliveries[::2]),
        "early commit": replace(HANDED_OVER, commits=[Commit(2.1, 1, P, 9)]),
    },
    "no committed offset goes back": {
        "earlier offset": replace(HANDED_OVER, commits=[*HANDED_OVER.commits, Commit(6.4, 4, P, 19)]),
    },
    "partitions are announced only if given": {
        "not given": replace(HANDED_OVER, generations=HANDED_OVER.generations[:2]),
    },
    "members are told when partitions go": {
        "no word": replace(HANDED_OVER, ownerships=[owns("a", 1, 4, Ending.SILENT), owns("b", 5)]),
    },
    "what others own already is not revoked": {
        "revoked too late": told_as_revoked(14),
        "revoked after another took over": Ledger(
            ownerships=[owns("b", 10.1, 18, Ending.REVOKED, told_at=17), owns("a", 14)],
            generations=[*LATE.generations, generation(13, 3, a=P)],
        ),
    },
    "no partition has two live owners": {
        "two owners": replace(HANDED_OVER, ownerships=[owns("a", 1, 5.5, Ending.REVOKED), owns("b", 5)]),
        "one names no generation, and is not static": stale({"a": -1, "b": 2}),
        "one is static": stale({"a": 2}),
    },
    "members deliver only what they own": {
        "after the end": handed_to_b_as(Delivery(4.5, "a", P, 10, 19)),
        "before the begin": handed_to_b_as(Delivery(4.9, "b", P, 10, 19)),
        "told without a lease": replace(
            AWAKE_WITHOUT_A_LEASE, ownerships=[owns("a", 1, 11.5, Ending.LOST), owns("b", 10.1)]
        ),
    },
    "zombies with a lease deliver nothing": {
        "awake": AWAKE,
        "awake and late": replace(LATE, deliveries=[*LATE.deliveries, Delivery(14.5, "a", P, 0, 3)]),
        "awake and static": replace(STALE, deliveries=[*STALE.deliveries, Delivery(11.5, "a", P, 10, 13)]),
    },
    "nothing is delivered twice without need": {
        "not committed": TWICE,
        "left without a commit": replace(TWICE, generations=REMOVED),
        "another one was cut off": replace(TWICE, failures=[REFUSED], outages=[Outage(3, 4, "b")]),
        "handed again": replace(HANDED_OVER, deliveries=HANDED_AGAIN),
    },
    "every record is copied once": {
        "not copied": replace(COPIED, copies={P: dict.fromkeys(range(19), 1)}),
        "copied twice": replace(COPIED, copies={P: dict.fromkeys(range(20), 1) | {7: 2}}),
    },
    "owners begin where was committed": {
        "below the committed offset": ended(Ending.DIED, 9),
    },
}
"""Ledgers that break a rule, by rule."""


@pytest.mark.parametrize("ledger", KEPT.values(), ids=list(KEPT))
def test_correct_histories_break_no_rule(ledger: Ledger) -> None:
    assert judge(ledger) == []


@pytest.mark.parametrize(
    ("rule", "ledger"),
    [
        pytest.param(rule, ledger, id=name)
        for rule, ledgers in BROKEN.items()
        for name, ledger in ledgers.items()
    ],
)
def test_a_history_with_a_fault_breaks_the_rule(rule: str, ledger: Ledger) -> None:
    assert rule in {violation.rule for violation in judge(ledger)}


@pytest.mark.parametrize("ending", [Ending.REVOKED, Ending.LOST])
def test_no_commit_of_a_member_is_accepted_after_it_was_told_that_the_partition_is_gone(
    ending: Ending,
) -> None:
    rule = RULES["nothing is committed after its revocation"]
    ownerships = [owns("a", 1, 4, ending), owns("b", 5), owns("a", 8, number=3)]
    ledger = Ledger(ownerships=ownerships, generations=[generation(4.4, 2, a=None, b=P)])

    def late(at: float, number: int, member: str = "a", **changes: Any) -> list[str]:
        commits = [Commit(at, 1, P, 9, member, number)]
        return [text for _, text in rule(replace(ledger, commits=commits, **changes))]

    assert late(4.5, 1) == [f"committed by a: orders/0 @ 9, 0.500 s after it was told: {ending.value}"]
    assert late(4.5, 2)  # Another assignment followed, without this partition.
    assert late(8.5, 1)  # The partition has come back, but the commit is older.
    assert late(8.5, 2)
    assert not late(3.9, 1)
    assert not late(4.01, 1)  # The clocks differ by so much.
    assert not late(4.3, 1)  # It was on its way, and the partition has no owner yet.
    assert late(5.1, 1, generations=())
    assert not late(8.5, 3)
    assert not late(4.5, 0, "")  # An automatic commit, or one of another client.
    assert not late(5.5, 1, "b")
    timed_out = CommitFailure(3.9, "a", frozenset({P}), "KafkaTimeoutError: no answer")
    assert not late(4.5, 1, failures=[timed_out])
    assert late(4.5, 1, failures=[replace(timed_out, error="CommitFailedError: lost")])
    assert not late(4.5, 1, outages=[Outage(3.5, 4.4, "a")])
    assert late(4.5, 1, outages=[Outage(3.5, 4.4, "b")])
    assert late(4.5, 1, outages=[Outage(4.6, 9)])


def test_what_is_allowed_to_come_twice_is_counted() -> None:
    assert duplicates(AWAKE_WITHOUT_A_LEASE).by_zombies == 3
    assert duplicates(ended(Ending.LOST, 5)).allowed == 5


def test_every_rule_has_been_broken_here() -> None:
    of_commits = "nothing is committed after its revocation"
    assert BROKEN.keys() | {of_commits} == RULES.keys()
