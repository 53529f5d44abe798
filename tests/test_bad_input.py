"""How invalid members and topics are handled: the table of docs/internals/errors.md, row by row.

Every row is tested in the core (with each of our strategies) and through the leader (bytes in, bytes out).
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kafka_assignors.claims import NAMED_PARTITIONS
from kafka_assignors.group import Group, InvalidGroupError, Member, Topic
from kafka_assignors.leader import lead
from kafka_assignors.messages import EncodedAssignments, JoinedMember, encode_assignments, read_members
from kafka_assignors.strategies import CooperativeSticky, Strategy, load_strategy
from kafka_assignors.wire import Subscription, decode_assignment, encode_subscription

STRATEGIES = [
    load_strategy(name)
    for name in (
        "range",
        "roundrobin",
        "sticky",
        "cooperative-sticky",
        "rack-aware-sticky",
        "capacity",
        "standby",
        "priority",
    )
]
each_strategy = pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy.name)

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


class TestClaimsOnPartitionsThatDoNotExist:
    group = group_of(member("a", -7, 0, 1, 4, 99), member("b", 2, 3))

    @each_strategy
    def test_core(self, strategy: Strategy) -> None:
        dropped = self.group.claims.dropped
        assert [(claim.member_id, claim.partitions) for claim in dropped] == [("a", (-7, 4, 99))]
        assert loads(strategy, self.group) == {"a": 2, "b": 2}

    def test_leader(self) -> None:
        found = joined(self.group)
        assert counts(found.assignments) == {"a": 2, "b": 2}
        assert found.findings == (
            "member 'a' claims 3 partitions of 'orders' that do not count: the topic has 4 partitions",
        )


class TestTopicsWithoutMetadata:
    group = group_of(member("a", topics="orders gone"), member("b", topics="gone"))

    @each_strategy
    def test_core(self, strategy: Strategy) -> None:
        assert loads(strategy, self.group) == {"a": 4, "b": 0}


class TestMembersWithoutSubscriptions:
    group = group_of(member("a"), member("b", 0, topics=""))

    @each_strategy
    def test_core(self, strategy: Strategy) -> None:
        assert loads(strategy, self.group) == {"a": 4, "b": 0}
        assert loads(strategy, group_of(member("b", topics=""))) == {"b": 0}

    def test_leader(self) -> None:
        # The member has not claimed that it revoked partition 0, so the partition waits.
        found = joined(self.group)
        assert counts(found.assignments) == {"a": 3, "b": 0}
        assert found.findings == (
            "member 'b' claims 1 partitions of 'orders' that do not count: "
            "the member does not subscribe to the topic",
        )


class TestDuplicateMemberIds:
    def test_core(self) -> None:
        with pytest.raises(InvalidGroupError, match="member id 'a' appears twice"):
            group_of(member("a"), member("a"))


class TestTwoMembersWithOneInstanceId:
    group = group_of(member("b", instance_id="pod"), member("a", instance_id="pod"), partitions=3)

    @each_strategy
    def test_core(self, strategy: Strategy) -> None:
        assert loads(strategy, self.group) == {"a": 2, "b": 1}

    def test_leader(self) -> None:
        # A broker does not send this either: the second member fences the first.
        assert counts(joined(self.group).assignments) == {"a": 2, "b": 1}


class TestAMillionClaimsByOneMember:
    real = group_of(member("a", *range(MILLION)), member("b"), partitions=MILLION)
    false = group_of(member("a", *range(4, MILLION + 4)), member("b", 0))

    @pytest.mark.parametrize("strategy", [STRATEGIES[3], STRATEGIES[-1]], ids=lambda strategy: strategy.name)
    def test_core(self, strategy: Strategy) -> None:
        assert loads(strategy, self.real) == {"a": MILLION // 2, "b": MILLION // 2}
        dropped = self.false.claims.dropped
        assert [(claim.count, len(claim.partitions)) for claim in dropped] == [(MILLION, NAMED_PARTITIONS)]

    def test_leader(self) -> None:
        found = joined(self.false)
        assert counts(found.assignments) == {"a": 2, "b": 2}
        assert len(found.findings) == 1
        assert f"claims {MILLION} partitions of 'orders' that do not count" in found.findings[0]


class TestAnEmptyGroup:
    @each_strategy
    def test_core(self, strategy: Strategy) -> None:
        assert loads(strategy, group_of()) == {}
        assert loads(strategy, Group({}, {})) == {}

    def test_leader(self) -> None:
        encoded = joined(group_of())
        assert (encoded.assignments, encoded.findings) == ({}, ())
