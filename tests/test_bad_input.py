"""How invalid members and topics are handled: the table of docs/internals/errors.md, row by row."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kafka_assignors.group import Group, InvalidGroupError, Member, Topic
from kafka_assignors.leader import lead
from kafka_assignors.messages import EncodedAssignments, JoinedMember, encode_assignments, read_members
from kafka_assignors.strategies import CooperativeSticky, Strategy, load_strategy
from kafka_assignors.wire import Subscription, decode_assignment, encode_subscription

STRATEGIES = [
    *("range", "roundrobin", "sticky", "cooperative-sticky"),
    *("rack-aware-sticky", "capacity", "standby", "priority"),
]
each_strategy = pytest.mark.parametrize("strategy", [*map(load_strategy, STRATEGIES)], ids=STRATEGIES)

GENERATION = 5
MILLION = 1_000_000


def group_of(*members: Member, partitions: int = 4) -> Group:
    return Group.of([Topic("orders", partitions)], members, GENERATION)


def member(name: str, *owned: int, topics: str = "orders", instance_id: str | None = None) -> Member:
    claim = {"orders": list(owned)} if owned else {}
    return Member(name, frozenset(topics.split()), instance_id, owned=claim, generation=GENERATION - 1)


def loads(strategy: Strategy, group: Group) -> dict[str, int]:
    """How many partitions each member gets in a checked assignment."""
    led = lead(strategy, group, strategy.protocols[0])
    return {member_id: led.target.load(member_id) for member_id in group.members}


def joined(group: Group) -> EncodedAssignments:
    """The assignments that the leader encodes for these members."""
    members = [
        JoinedMember(
            one.id,
            one.instance_id,
            encode_subscription(
                Subscription(3, tuple(sorted(one.topics)), b"", one.owned, one.generation, one.rack)
            ),
        )
        for one in group.members.values()
    ]
    strategy = CooperativeSticky()
    return encode_assignments(
        strategy, read_members(strategy, members), group.topics.values(), group.generation
    )


def counts(sent: Mapping[str, bytes]) -> dict[str, int]:
    return {
        member_id: sum(map(len, decode_assignment(data).partitions.values()))
        for member_id, data in sent.items()
    }


NOT_THERE = group_of(member("a", -7, 0, 1, 4, 99), member("b", 2, 3))
UNSUBSCRIBED = group_of(member("a"), member("b", 0, topics=""))
ONE_INSTANCE = group_of(member("b", instance_id="pod"), member("a", instance_id="pod"), partitions=3)


@each_strategy
@pytest.mark.parametrize(
    ("group", "expected"),
    [
        pytest.param(NOT_THERE, {"a": 2, "b": 2}, id="claims on partitions that do not exist"),
        pytest.param(
            group_of(member("a", topics="orders gone"), member("b", topics="gone")),
            {"a": 4, "b": 0},
            id="a topic without metadata",
        ),
        pytest.param(UNSUBSCRIBED, {"a": 4, "b": 0}, id="a member without a subscription"),
        pytest.param(group_of(member("b", topics="")), {"b": 0}, id="no subscription at all"),
        pytest.param(ONE_INSTANCE, {"a": 2, "b": 1}, id="two members with one instance id"),
        pytest.param(group_of(), {}, id="no members"),
        pytest.param(Group({}, {}), {}, id="no members and no topics"),
    ],
)
def test_the_core_assigns_the_rest(strategy: Strategy, group: Group, expected: Mapping[str, int]) -> None:
    assert loads(strategy, group) == expected


FALSE_MILLION = group_of(member("a", *range(4, MILLION + 4)), member("b", 0))


@pytest.mark.parametrize(
    ("group", "expected", "finding"),
    [
        pytest.param(
            NOT_THERE,
            {"a": 2, "b": 2},
            "member 'a' claims 3 partitions of 'orders' that do not count: the topic has 4 partitions",
            id="claims on partitions that do not exist",
        ),
        # The member has not claimed that it revoked partition 0, so the partition waits.
        pytest.param(
            UNSUBSCRIBED,
            {"a": 3, "b": 0},
            "member 'b' claims 1 partitions of 'orders' that do not count: the member does not subscribe",
            id="a member without a subscription",
        ),
        # A broker does not send this either: the second member fences the first.
        pytest.param(ONE_INSTANCE, {"a": 2, "b": 1}, None, id="two members with one instance id"),
        pytest.param(
            FALSE_MILLION,
            {"a": 2, "b": 2},
            f"member 'a' claims {MILLION} partitions of 'orders' that do not count",
            id="a million claims by one member",
        ),
        pytest.param(group_of(), {}, None, id="no members"),
    ],
)
def test_the_leader_assigns_the_rest_and_names_the_member(
    group: Group, expected: Mapping[str, int], finding: str | None
) -> None:
    found = joined(group)
    assert counts(found.assignments) == expected
    assert [one.startswith(finding or "") for one in found.findings] == [True] * (finding is not None)


def test_a_member_id_that_appears_twice_is_refused() -> None:
    with pytest.raises(InvalidGroupError, match="member id 'a' appears twice"):
        group_of(member("a"), member("a"))
