"""`rollout`: what members announce, and how it affects their assignment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given

from kafka_assignors.announcements import Facts, decode_facts, encode_facts
from kafka_assignors.group import Assignment, Group, Member, Topic, Warmth
from kafka_assignors.leader import check_assignment, lead
from kafka_assignors.quality import measure
from kafka_assignors.strategies import CooperativeSticky, RebalanceProtocol
from kafka_assignors.strategy import MemberContext
from kafka_assignors_strategies import Rollout
from tests.any_group import announced_groups
from tests.exact_comparison import owning
from tests.exact_score import plain
from tests.reduced import assert_best_of_the_rest

COOPERATIVE = RebalanceProtocol.COOPERATIVE
ORDERS = frozenset({"orders"})


def a_member(name: str, release: str | None = None, share: int | None = None) -> Member:
    return Member(name, ORDERS, data=encode_facts(Facts(release, share)))


def members_of(release: str | None, count: int, share: int | None = None) -> list[Member]:
    return [a_member(f"{release}-{number}", release, share) for number in range(count)]


def assigned(members: Sequence[Member], partitions: int) -> Group:
    """The group of these readers of orders in which every member owns its assignment."""
    group = Group.of([Topic("orders", partitions)], members)
    return owning(group, target(group))


def joined_by(group: Group, *members: Member) -> Group:
    return replace(group, members=group.members | {member.id: member for member in members})


def target(group: Group) -> Assignment:
    return lead(Rollout(), group, COOPERATIVE).target


def per_release(group: Group, assignment: Assignment) -> dict[str | None, int]:
    loads: dict[str | None, int] = {}
    for id, member in group.members.items():
        release = decode_facts(member.data).release
        loads[release] = loads.get(release, 0) + assignment.load(id)
    return loads


def moved(group: Group, assignment: Assignment) -> int:
    return measure(group, assignment).moved


def findings(group: Group) -> str:
    return "\n".join(Rollout().findings(group))


# ---- shares


def test_a_canary_gets_its_share_at_once_and_nothing_else_moves() -> None:
    old = assigned(members_of("1", 3), 60)
    group = joined_by(old, a_member("canary", "2", 1000))
    after = target(group)
    assert per_release(group, after) == {"1": 54, "2": 6}
    assert moved(group, after) == 6


def test_promotion_and_rollback_move_what_the_share_changes_and_come_back() -> None:
    group = assigned([*members_of("1", 3), a_member("canary", "2", 1000)], 60)
    before = {id: member.owned for id, member in group.members.items()}
    promoted = joined_by(group, replace(group.members["canary"], data=encode_facts(Facts("2", 5000))))
    half = target(promoted)
    assert per_release(promoted, half) == {"1": 30, "2": 30}
    assert moved(promoted, half) == 24

    back = owning(promoted, half)
    back = joined_by(back, replace(back.members["canary"], data=encode_facts(Facts("2", 1000))))
    after = target(back)
    assert moved(back, after) == 24
    assert sorted(after.load(id) for id in before) == [6, 18, 18, 18]


def test_shares_of_more_than_everything_are_scaled_and_that_is_said() -> None:
    group = assigned([*members_of("1", 1), *members_of("2", 1, 9000), *members_of("3", 1, 9000)], 10)
    assert per_release(group, target(group)) == {"1": 0, "2": 5, "3": 5}
    assert "ask for 180 % together, more than everything" in findings(group)


# ---- members that drain


def test_a_draining_member_gives_up_all_partitions_and_no_other_member_does() -> None:
    group = assigned(members_of("1", 4), 12)
    leaving = joined_by(group, replace(group.members["1-0"], warmth=Warmth(draining=True)))
    after = target(leaving)
    assert [after.load(id) for id in leaving.members] == [0, 4, 4, 4]
    assert moved(leaving, after) == 3


def test_while_all_members_drain_the_topic_is_read() -> None:
    members = [replace(a_member(name), warmth=Warmth(draining=True)) for name in ("a", "b")]
    group = assigned(members, 4)
    assert [target(group).load(id) for id in group.members] == [2, 2]


# ---- any group


@given(announced_groups)
def test_no_assignment_of_what_the_shares_leave_is_better(group: Group) -> None:
    assert_best_of_the_rest(Rollout(), group)


@given(announced_groups)
def test_a_second_round_hands_over_and_moves_nothing(group: Group) -> None:
    group = replace(group, generation=3)
    first = lead(Rollout(), group, COOPERATIVE)
    second = owning(group, first.assignment)
    assert moved(second, lead(Rollout(), second, COOPERATIVE).target) == 0
    assert not lead(Rollout(), second, COOPERATIVE).withheld


@given(announced_groups)
def test_without_announcements_it_is_cooperative_sticky(group: Group) -> None:
    silent = replace(group, members={id: replace(m, data=b"") for id, m in group.members.items()})
    assert plain(target(silent)) == plain(lead(CooperativeSticky(), silent, COOPERATIVE).target)


# ---- announcements that are wrong


def test_thousands_of_releases_are_no_burden() -> None:
    members = [a_member(f"m{number:05}", f"r{number}", number) for number in range(3_000)]
    group = assigned(members, 500)
    check_assignment(group, target(group))
    assert "3000 releases announce shares: those of the 16 with most members count" in findings(group)
    assert max(map(len, Rollout().findings(group))) < 1000


# ---- the strategy as an object


def test_rollout_announces_the_facts_of_its_arguments() -> None:
    strategy = Rollout("v2", 0.1)
    said = decode_facts(strategy.member_data(MemberContext(ORDERS)))
    assert (said.release, said.share) == ("v2", 1000)


def test_a_running_member_can_change_its_share() -> None:
    strategy = Rollout("v2", 0.1)
    for share, expected in ((0.5, 5000), (None, None)):
        strategy.announce(share=share)
        said = decode_facts(strategy.member_data(MemberContext(ORDERS)))
        assert (said.release, said.share) == ("v2", expected)
        assert repr(strategy) == f"Rollout(release='v2', share={share!r})"


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan"), "0.1", True])
def test_a_share_is_a_number_between_0_and_1(share: object) -> None:
    with pytest.raises((TypeError, ValueError), match="a share is"):
        Rollout("v2", share)  # type: ignore[arg-type]
    with pytest.raises((TypeError, ValueError), match="a share is"):
        Rollout("v2").announce(share=share)  # type: ignore[arg-type]


def test_a_release_is_text() -> None:
    with pytest.raises(TypeError, match="a release is text"):
        Rollout(2)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="1 to 255 bytes"):
        Rollout("")
