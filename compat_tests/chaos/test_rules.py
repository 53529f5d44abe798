"""Each rule, on a ledger that keeps it and on ledgers that break it."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from compat_tests.chaos.ledger import (
    Commit,
    CommitFailure,
    Delivery,
    Ending,
    Generation,
    Happening,
    Ledger,
    Outage,
    Ownership,
    Partition,
    around,
)
from compat_tests.chaos.rules import RULES, duplicates, judge, unexplained_losses

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
) -> Ownership:
    member = member_id.split("_")[0]
    return Ownership(since, until, member, member_id, partition, ending, number=number)


HANDED_OVER = Ledger(
    deliveries=[Delivery(2, "a", P, 0, 4), Delivery(3, "a", P, 5, 9), Delivery(6, "b", P, 10, 19)],
    ownerships=[owns("a", 1, 4, Ending.REVOKED), owns("b", 5)],
    commits=[Commit(2.5, 1, P, 5), Commit(3.9, 2, P, 10), Commit(6.5, 3, P, 20)],
    generations=[
        generation(0.9, 1, a=P),
        generation(3.5, 2, a=None, b=None),
        generation(4.5, 3, a=None, b=P),
    ],
    happenings=[Happening(3.4, "b joins", "b")],
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


def broken(ledger: Ledger) -> set[str]:
    return {violation.rule for violation in judge(ledger)}


@pytest.mark.parametrize("ledger", [HANDED_OVER, ZOMBIE, Ledger()], ids=["handed over", "zombie", "empty"])
def test_correct_histories_break_no_rule(ledger: Ledger) -> None:
    assert judge(ledger) == []


def test_records_that_are_confirmed_and_never_delivered_are_lost() -> None:
    (found,) = judge(dataclasses.replace(HANDED_OVER, written={P: 21}))
    assert found.rule == "no record is lost"
    assert "[20..20] was handed to no member" in found.text
    (found,) = judge(dataclasses.replace(HANDED_OVER, written={**HANDED_OVER.written, Q: 1}))
    assert (found.rule, found.partition) == ("no record is lost", Q)


def test_a_gap_is_lost_even_if_what_follows_is_delivered_and_a_commit_must_not_cover_it() -> None:
    gap = [one for one in HANDED_OVER.deliveries if one.first != 5]
    ledger = dataclasses.replace(HANDED_OVER, deliveries=gap)
    assert broken(ledger) == {"no record is lost", "commits cover only what was delivered"}


def test_a_commit_must_not_run_ahead_of_deliveries_that_come_later() -> None:
    ledger = dataclasses.replace(HANDED_OVER, commits=[Commit(2.1, 1, P, 9)])
    assert broken(ledger) == {"commits cover only what was delivered"}


def test_committed_offsets_must_not_go_back_in_the_log_for_any_timestamps() -> None:
    back = [*HANDED_OVER.commits, Commit(6.4, 4, P, 19)]
    (found,) = judge(dataclasses.replace(HANDED_OVER, commits=back))
    assert (found.rule, found.text) == ("no committed offset goes back", "committed: orders/0 @ 19, after 20")


@pytest.mark.parametrize("ending", [Ending.REVOKED, Ending.LOST])
def test_no_commit_of_a_member_is_accepted_after_it_was_told_that_the_partition_is_gone(
    ending: Ending,
) -> None:
    rule = RULES["nothing is committed after its revocation"]
    ownerships = [owns("a", 1, 4, ending), owns("b", 5), owns("a", 8, number=3)]
    ledger = Ledger(ownerships=ownerships, generations=[generation(4.4, 2, a=None, b=P)])

    def late(at: float, number: int, member: str = "a", **changes: Any) -> list[str]:
        commits = [Commit(at, 1, P, 9, member, number)]
        return [text for _, text in rule(dataclasses.replace(ledger, commits=commits, **changes))]

    assert late(4.5, 1) == [f"committed by a: orders/0 @ 9, 0.500 s after it was told: {ending.value}"]
    assert late(4.5, 2)  # Another assignment followed, without this partition.
    assert late(8.5, 1)  # The partition has come back, but the commit is older.
    assert late(8.5, 2)
    assert not late(3.9, 1)
    assert not late(4.01, 1)  # The clocks differ by so much.
    assert not late(4.3, 1)  # It was on its way, and the partition has no owner yet.
    assert not late(4.9, 1, generations=())
    assert late(5.1, 1, generations=())
    assert not late(8.5, 3)
    assert not late(8.5, 4)
    assert not late(4.5, 0, "")  # An automatic commit, or one of another client.
    assert not late(5.5, 1, "b")
    timed_out = CommitFailure(3.9, "a", frozenset({P}), "KafkaTimeoutError: no answer")
    assert not late(4.5, 1, failures=[timed_out])
    assert late(4.5, 1, failures=[dataclasses.replace(timed_out, member="b")])
    assert late(4.5, 1, failures=[dataclasses.replace(timed_out, error="CommitFailedError: lost")])
    assert not late(4.5, 1, outages=[Outage(3.5, 4.4, "a")])
    assert late(4.5, 1, outages=[Outage(3.5, 4.4, "b")])
    assert late(4.5, 1, outages=[Outage(0.1, 0.9)])
    assert late(4.5, 1, outages=[Outage(4.6, 9)])


def test_a_member_announces_only_partitions_that_a_generation_gave_it() -> None:
    ledger = dataclasses.replace(HANDED_OVER, generations=HANDED_OVER.generations[:2])
    assert "partitions are announced only if given" in broken(ledger)


def test_partitions_do_not_go_without_a_word() -> None:
    ownerships = [owns("a", 1, 4, Ending.SILENT), owns("b", 5)]
    ledger = dataclasses.replace(HANDED_OVER, ownerships=ownerships)
    assert broken(ledger) == {"members are told when partitions go"}


def test_what_another_member_got_before_is_told_as_lost() -> None:
    zombie, owner = ZOMBIE.ownerships
    late = dataclasses.replace(zombie, ending=Ending.REVOKED, told_at=14)
    (found,) = judge(dataclasses.replace(ZOMBIE, ownerships=[late, owner]))
    assert found.rule == "what others own already is not revoked"
    in_time = dataclasses.replace(late, told_at=9)
    assert judge(dataclasses.replace(ZOMBIE, ownerships=[in_time, owner])) == []
    cut_off = [Outage(12, 16, "a")]
    assert judge(dataclasses.replace(ZOMBIE, ownerships=[late, owner], outages=cut_off)) == []


def test_what_another_member_announces_late_from_an_older_generation_is_still_revoked() -> None:
    ownerships = [
        dataclasses.replace(owns("b", 10.1, 18, Ending.REVOKED), told_at=17),
        Ownership(14, 15, "a", "", P, Ending.LOST),
    ]
    generations = [generation(1, 1, a=P, b=None), generation(10, 2, b=P), generation(16, 3, a=None, b=None)]
    assert judge(Ledger(ownerships=ownerships, generations=generations)) == []
    newer = [generation(1, 1, a=P, b=None), generation(10, 2, b=P), generation(13, 3, a=P)]
    took_over = [ownerships[0], owns("a", 14)]
    assert "what others own already is not revoked" in broken(Ledger(ownerships=took_over, generations=newer))


def test_an_owner_that_the_coordinator_counts_in_is_live_until_it_has_given_up() -> None:
    late = [owns("a", 1, 5.5, Ending.REVOKED), owns("b", 5)]
    (found,) = judge(dataclasses.replace(HANDED_OVER, ownerships=late))
    assert found.rule == "no partition has two live owners"
    assert "for 0.500 s" in found.text


def test_a_late_announcement_of_an_older_generation_makes_a_zombie_not_a_live_owner() -> None:
    ledger = Ledger(
        deliveries=[Delivery(11, "b", P, 0, 9)],
        ownerships=[owns("b", 10.1), owns("a", 14, 15, Ending.LOST)],
        generations=[generation(1, 1, a=P, b=None), generation(10, 2, b=P)],
    )
    assert judge(ledger) == []
    zombie = dataclasses.replace(ledger, deliveries=[*ledger.deliveries, Delivery(14.5, "a", P, 0, 3)])
    assert "zombies with a lease deliver nothing" in broken(zombie)


def test_a_static_member_that_did_not_join_in_time_is_a_zombie_not_a_live_owner() -> None:
    # Member `a` gets the partition in generation 2, and generation 3 has its JoinGroup of generation 1.
    stale = dataclasses.replace(generation(10, 3, a=None, b=P), joined_from={"a": 1, "b": 2})
    ledger = Ledger(
        deliveries=[Delivery(11, "b", P, 0, 9)],
        ownerships=[owns("a", 2, 12, Ending.LOST), owns("b", 10.1)],
        generations=[generation(1, 2, a=P, b=None), stale],
    )
    assert judge(ledger) == []
    zombie = dataclasses.replace(ledger, deliveries=[*ledger.deliveries, Delivery(11.5, "a", P, 10, 13)])
    assert "zombies with a lease deliver nothing" in broken(zombie)
    joined = dataclasses.replace(stale, joined_from={"a": 2, "b": 2})
    in_time = dataclasses.replace(ledger, generations=[ledger.generations[0], joined])
    assert "no partition has two live owners" in broken(in_time)


def test_records_come_from_partitions_that_are_owned() -> None:
    for delivery in (Delivery(4.5, "a", P, 10, 19), Delivery(4.9, "b", P, 10, 19)):
        ledger = dataclasses.replace(HANDED_OVER, deliveries=[*HANDED_OVER.deliveries[:2], delivery])
        assert broken(ledger) == {"members deliver only what they own"}


def test_a_zombie_with_a_lease_delivers_nothing_and_another_may_until_it_is_told() -> None:
    again = dataclasses.replace(
        ZOMBIE, deliveries=[*ZOMBIE.deliveries[:2], Delivery(12, "a", P, 10, 12), *ZOMBIE.deliveries[2:]]
    )
    assert broken(again) == {"zombies with a lease deliver nothing"}
    tolerated = dataclasses.replace(again, without_lease=frozenset({"a"}))
    assert judge(tolerated) == []
    assert duplicates(tolerated).by_zombies == 3
    told = dataclasses.replace(
        tolerated,
        ownerships=[owns("a", 1, 11.5, Ending.LOST), owns("b", 10.1)],
    )
    assert broken(told) == {"members deliver only what they own"}


def test_member_that_revokes_without_a_commit_breaks_a_rule() -> None:
    twice = [*HANDED_OVER.deliveries[:2], Delivery(6, "b", P, 9, 19)]
    ledger = dataclasses.replace(HANDED_OVER, deliveries=twice, commits=HANDED_OVER.commits[:1])
    (found,) = judge(ledger)
    assert found.rule == "nothing is delivered twice without need"
    assert "9 was handed to a before, whose ownership ended: revoked" in found.text


def test_member_that_left_without_a_commit_breaks_a_rule_and_a_removed_one_does_not() -> None:
    ledger = dataclasses.replace(
        HANDED_OVER,
        deliveries=[*HANDED_OVER.deliveries[:2], Delivery(6, "b", P, 9, 19)],
        commits=HANDED_OVER.commits[:1],
        generations=[generation(0.9, 1, a=P, b=None), generation(4.5, 2, b=P)],
    )
    assert broken(ledger) == {"nothing is delivered twice without need"}
    # A removed member that could not commit is excused.
    failed = [CommitFailure(3.5, "a", frozenset({P}), "UnknownMemberIdError")]
    assert judge(dataclasses.replace(ledger, failures=failed)) == []


@pytest.mark.parametrize("member", ["a", "b"])
def test_a_member_that_was_cut_off_or_had_no_right_could_not_commit_and_no_other_is_excused(
    member: str,
) -> None:
    ledger = dataclasses.replace(
        HANDED_OVER,
        deliveries=[*HANDED_OVER.deliveries[:2], Delivery(6, "b", P, 9, 19)],
        commits=HANDED_OVER.commits[:1],
        failures=[CommitFailure(3.5, "a", frozenset({P}), "TopicAuthorizationFailedError")],
        outages=[Outage(3, 4, member)],
    )
    assert (judge(ledger) == []) == (member == "a")


COPIED = dataclasses.replace(HANDED_OVER, copies={P: dict.fromkeys(range(20), 1)})


@pytest.mark.parametrize(
    ("offset", "times"), [(0, 0), (19, 0), (7, 2), (25, 1)], ids=["first", "last", "twice", "not confirmed"]
)
def test_confirmed_record_that_is_not_copied_exactly_once_breaks_a_rule(offset: int, times: int) -> None:
    assert judge(COPIED) == []
    copies = dict.fromkeys(range(20), 1) | {offset: times}
    ledger = dataclasses.replace(COPIED, copies={P: copies})
    # A record whose confirmation the writer never got may exist, and is then also copied once.
    assert broken(ledger) == ({"every record is copied once"} if times != 1 else set())


def test_members_that_copy_may_be_handed_a_record_again_and_copy_it_once() -> None:
    again = [*HANDED_OVER.deliveries, Delivery(7, "b", P, 19, 19)]
    assert broken(dataclasses.replace(HANDED_OVER, deliveries=again))
    assert judge(dataclasses.replace(COPIED, deliveries=again, commits=HANDED_OVER.commits[:2])) == []


@pytest.mark.parametrize("ending", [Ending.LOST, Ending.DIED])
def test_a_dead_or_fenced_member_may_not_have_committed(ending: Ending) -> None:
    ledger = dataclasses.replace(
        HANDED_OVER,
        deliveries=[*HANDED_OVER.deliveries[:2], Delivery(6, "b", P, 5, 19)],
        ownerships=[owns("a", 1, 4, ending), owns("b", 5)],
        commits=HANDED_OVER.commits[:1],
    )
    assert judge(ledger) == []
    assert duplicates(ledger).allowed == 5


def test_successor_of_a_dead_member_must_begin_at_the_committed_offset() -> None:
    ledger = dataclasses.replace(
        HANDED_OVER,
        deliveries=[*HANDED_OVER.deliveries[:2], Delivery(6, "b", P, 9, 19)],
        ownerships=[owns("a", 1, 4, Ending.DIED), owns("b", 5)],
    )
    assert broken(ledger) == {"owners begin where was committed"}


def test_a_loss_has_a_cause_if_something_was_done_to_the_member_or_to_a_broker() -> None:
    lost = [owns("a", 1, 40, Ending.LOST), owns("b", 1, 40, Ending.REVOKED)]
    causes = {
        Happening(15, "Freeze(member='a', seconds=10)", "a"): 0,
        Happening(15, "broker 1 is killed"): 0,
        Happening(15, "Freeze(member='b', seconds=10)", "b"): 1,
        Happening(15, "AddPartitions(topic='orders', total=9)"): 1,
        Happening(9, "Freeze(member='a', seconds=10)", "a"): 1,
    }
    for cause, unexplained in causes.items():
        ledger = Ledger(ownerships=lost, happenings=[cause])
        assert len(unexplained_losses(ledger)) == unexplained, cause
    assert unexplained_losses(Ledger(ownerships=lost, without_lease=frozenset({"a"}))) == []


def test_every_rule_has_been_broken_here() -> None:
    tests = "".join(
        str(constant)
        for name, value in globals().items()
        if name.startswith("test_")
        for constant in value.__code__.co_consts
    )
    assert {rule for rule in RULES if rule not in tests} == set()


def test_the_story_around_a_violation_is_that_of_its_partition() -> None:
    ledger = dataclasses.replace(HANDED_OVER, deliveries=[*HANDED_OVER.deliveries, Delivery(6, "c", Q, 0, 0)])
    story = "\n".join(around(ledger, 5.0, P, seconds=2.0))
    assert "   -1.000 s  a owns orders/0 no more: revoked" in story
    assert "   -1.600 s  **** b joins" in story
    assert "orders/1" not in story
    assert "is handed orders/0 [0..4]" not in story  # three seconds before
