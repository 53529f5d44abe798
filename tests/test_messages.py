"""The metadata that members join with, and the assignments that a leader makes of it."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest

from kafka_assignors import messages, wire
from kafka_assignors.arguments import optional_name
from kafka_assignors.assignor import Assignor, require_strategy
from kafka_assignors.group import NO_GENERATION, Topic, TopicPartitions
from kafka_assignors.strategies import CooperativeSticky, RackAwareSticky, Sticky
from kafka_assignors.strategies.range_roundrobin import Range
from kafka_assignors.strategy import Strategy
from kafka_assignors.wire.reader import Reader, read_topic_partitions
from tests.joining import Talkative, subscription_bytes

STRATEGIES: list[Strategy] = [Range(), Sticky(), CooperativeSticky()]
ORDERS = Topic("orders", 4)


TOLD = Talkative("told", b"data")
"""A strategy of a third party, with member data, and with claims in our own format."""


def joined(
    strategy: Strategy, member_id: str, last: messages.LastAssignment = messages.NEVER_ASSIGNED
) -> messages.JoinedMember:
    return messages.JoinedMember(member_id, None, subscription_bytes(strategy, ["orders"], last))


def assigned(strategy: Strategy, *members: messages.JoinedMember) -> dict[str, dict[str, list[int]]]:
    assignments = messages.encode_assignments(
        strategy, messages.read_members(strategy, members), [ORDERS], 9
    ).assignments
    return {
        member_id: {topic: list(ps) for topic, ps in wire.decode_assignment(data).partitions.items()}
        for member_id, data in assignments.items()
    }


# ---- members


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy.name)
def test_an_eager_member_never_says_that_it_holds_anything(strategy: Strategy) -> None:
    data = subscription_bytes(strategy, ["orders"], messages.LastAssignment({"orders": [0, 1]}, 7), rack="a")
    subscription = wire.decode_subscription(data)
    assert subscription.owned == {}
    assert subscription.rack == "a"


@pytest.mark.parametrize("strategy", [Sticky(), CooperativeSticky(), TOLD], ids=lambda s: s.name)
def test_the_last_assignment_of_an_eager_member_arrives_as_revoked_with_its_generation(
    strategy: Strategy,
) -> None:
    last = messages.LastAssignment({"orders": [2, 3], "no longer subscribed": [0]}, 7)
    (member,) = messages.read_members(strategy, [joined(strategy, "m", last)]).members
    assert {topic: list(partitions) for topic, partitions in member.owned.items()} == {"orders": [2, 3]}
    assert (member.generation, member.revoked) == (7, True)


# ---- leaders


def test_a_member_that_does_not_decode_gets_nothing_and_the_others_everything() -> None:
    garbage = messages.JoinedMember("broken", "pod-7", b"\x00\x03\x7f\xff\xff\xff")
    group = messages.read_members(Sticky(), [joined(Sticky(), "m"), garbage])
    assert [(member.id, member.instance_id, sorted(member.topics)) for member in group.members] == [
        ("m", None, ["orders"]),
        ("broken", "pod-7", []),
    ]
    (finding,) = group.findings
    assert "'broken'" in finding
    assert "topics" in finding
    assert assigned(Sticky(), joined(Sticky(), "m"), garbage) == {"m": {"orders": [0, 1, 2, 3]}, "broken": {}}


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "é", "x" * 250])
def test_a_topic_that_cannot_exist_is_not_asked_for(name: str) -> None:
    data = wire.encode_subscription(wire.Subscription(version=0, topics=("orders", name)))
    group = messages.read_members(Range(), [messages.JoinedMember("m", None, data)])
    assert group.topics == {"orders"}
    assert "'m' subscribes to 1 topics that cannot exist" in group.findings[0]


def test_of_a_member_with_more_topics_than_a_group_can_have_only_those_of_others_are_asked_for() -> None:
    names = [f"t{number}" for number in range(50_000)]
    data = wire.encode_subscription(wire.Subscription(version=0, topics=("orders", *names)))
    group = messages.read_members(Range(), [messages.JoinedMember("many", None, data), joined(Range(), "m")])
    assert group.topics == {"orders"}
    assert group.findings[0].startswith("member 'many' subscribes to 50001 topics, which is more than 50000")


def test_a_member_that_claims_many_topics_is_one_finding() -> None:
    names = [f"topic-{number}" for number in range(1000)]
    claims = {name: [0] for name in names}
    subscription = wire.Subscription(version=3, topics=("orders",), owned=claims, generation=2**31 - 1)
    liar = messages.JoinedMember("liar", None, wire.encode_subscription(subscription))
    findings = messages.encode_assignments(
        CooperativeSticky(), messages.read_members(CooperativeSticky(), [liar]), [ORDERS], 9
    ).findings
    assert len(findings) == 1
    assert "'liar' claims 1000 partitions of 'topic-0' and 999 other topics" in findings[0]


# ---- arguments


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (Sticky, r"Sticky is a class and a strategy is an instance: pass Sticky\(\)"),
        ("sticky", r"'sticky' is a name and .*load_strategy\('sticky'\) finds the one"),
        (3, r"3 is not a strategy: it does not derive from .*\.Strategy"),
        (Talkative(""), r"Talkative.* is not a strategy: its name is '', not a non-empty string"),
    ],
)
def test_what_is_no_strategy_is_refused_with_what_it_lacks(given: object, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        require_strategy(given)


def test_a_rack_fits_into_what_is_sent() -> None:
    assert optional_name("rack", "ä" * 16_383) == "ä" * 16_383
    for unsendable in ("ä" * 16_384, "\ud800"):
        with pytest.raises(TypeError, match="rack must be text of at most 32767 bytes"):
            optional_name("rack", unsendable)


COUNTS = {"orders": 4, "payments": 2}


def own(partitions: TopicPartitions, *, leader: str = "boss") -> messages.OwnAssignment:
    """How a member that subscribes to `COUNTS` and to a topic without metadata reads this assignment."""
    data = wire.encode_assignment(wire.ConsumerAssignment(1, partitions))
    return messages.read_assignment(data, leader, frozenset({*COUNTS, "created"}), COUNTS.get)


def test_partitions_of_topics_that_were_not_subscribed_are_a_finding_that_names_the_leader() -> None:
    assigned = own({"orders": [1], "secrets": [0], "audit": [0, 1], "nothing": []})
    assert assigned.partitions == {"orders": [1]}
    assert assigned.findings == (
        "the leader 'boss' assigned partitions of 2 topics to this member to which it does not subscribe, "
        "the first being 'audit'. It takes none of them, and joins again later: see which strategy that "
        "leader runs",
    )


def test_partitions_that_may_be_new_are_taken() -> None:
    assigned = own({"orders": [4, 5], "created": [0, 1]})
    assert assigned.partitions == {"orders": [4, 5], "created": [0, 1]}
    assert assigned.findings == ()


@pytest.mark.parametrize(
    ("numbers", "taken", "refused"),
    [
        ([-1, 0, 0, -(2**31)], [0], 2),
        (range(1_000_000), range(1004), 998_996),
        ([2**31 - 1, 2], [2, 2**31 - 1], 0),
    ],
    ids=["negative and repeated", "a million", "far away"],
)
def test_a_member_ignores_assigned_partitions_with_impossible_numbers(
    numbers: Sequence[int], taken: Sequence[int], refused: int
) -> None:
    assigned = own({"orders": numbers, "payments": [0]})
    assert assigned.partitions == {"orders": [*taken], "payments": [0]}
    assert assigned.lacks_metadata is (refused > 2)
    assert [finding.split(" to this")[0] for finding in assigned.findings] == [
        f"the leader 'boss' assigned {refused} partitions"
    ] * bool(refused)


def test_unknown_partitions_are_bounded_over_all_topics() -> None:
    assigned = own({"created": range(800), "orders": range(4, 804)})
    assert sum(map(len, assigned.partitions.values())) == 1000


@pytest.mark.parametrize("data", [b"\0", b"\0\0\x7f\xff\xff\xff", bytes(4 * 2**20 + 1)])
def test_an_assignment_that_does_not_decode_names_the_leader(data: bytes) -> None:
    with pytest.raises(wire.ProtocolError, match=r"^what the leader 'boss' assigned to this member: "):
        messages.read_assignment(data, "boss", frozenset(), COUNTS.get)


def test_long_names_are_cut_in_findings() -> None:
    long = "n" * 32_000
    legal_but_unknown = subscription_bytes(Range(), ["t" * 249], messages.NEVER_ASSIGNED)
    illegal = subscription_bytes(Range(), [long], messages.NEVER_ASSIGNED)
    members = [
        messages.JoinedMember(long, None, b"?"),
        messages.JoinedMember(long + "1", None, illegal),
        messages.JoinedMember(long + "2", None, legal_but_unknown),
    ]
    led = messages.encode_assignments(Range(), messages.read_members(Range(), members), [], 1)
    findings = (*led.findings, *own({long: [0]}, leader=long).findings)
    assert len(findings) == 4
    assert max(map(len, findings)) < 1000


# ---- groups that stay classic


@pytest.mark.parametrize(
    ("strategy", "asked", "stays_classic"),
    [
        (RackAwareSticky(), None, True),
        (RackAwareSticky(), False, False),
        (Range(), None, False),
        (CooperativeSticky(), None, False),
        (CooperativeSticky(), True, True),
    ],
)
def test_each_assignment_has_user_data_if_the_group_is_to_stay_classic(
    strategy: Strategy, asked: bool | None, stays_classic: bool
) -> None:
    class Leading(Assignor):
        log = logging.getLogger("leading")

    assignor = Leading(strategy, stay_classic=asked)
    assert assignor.stay_classic is stays_classic
    members = assignor.read_members([joined(strategy, "a"), joined(strategy, "b")])
    answers = assignor.encode_assignments(members, [ORDERS], 1).assignments.values()
    assert {bool(wire.decode_assignment(data).user_data) for data in answers} == {stays_classic}


def read_by_sarama(user_data: bytes | None) -> None:
    """What a leader of Sarama does with user data of `sticky`: an error ends its join.

    `deserializeTopicPartitionAssignment` in its balance_strategy.go: null is no claim; everything else is
    Java's version 1 or 0, with no byte left.
    """
    if user_data is None:
        return
    try:
        _read_java_alone(user_data, has_generation=True)
    except wire.ProtocolError:
        _read_java_alone(user_data, has_generation=False)


def _read_java_alone(user_data: bytes, *, has_generation: bool) -> None:
    reader = Reader(user_data, "user data")
    read_topic_partitions(reader, "topics")
    if has_generation:
        reader.int32("generation")
    reader.finish("user data")


@pytest.mark.parametrize("user_data", [b"", b"\0", b"\0\0\0\0\0"])
def test_the_model_of_sarama_refuses_user_data_that_are_not_java_s(user_data: bytes) -> None:
    with pytest.raises(wire.ProtocolError):
        read_by_sarama(user_data)


@pytest.mark.parametrize(
    "last",
    [
        messages.NEVER_ASSIGNED,
        messages.LastAssignment({}, 7),
        messages.LastAssignment({"orders": [0, 3]}, 7),
        messages.LastAssignment({"orders": [0]}, NO_GENERATION),
        messages.LastAssignment({"no longer subscribed": [0]}, NO_GENERATION),
    ],
    ids=str,
)
def test_what_members_of_sticky_join_with_is_read_by_sarama(last: messages.LastAssignment) -> None:
    reader = Reader(joined(Sticky(), "m", last).metadata, "subscription")
    reader.int16("version")
    reader.strings("topics")
    read_by_sarama(reader.nullable_byte_array("user_data"))


def test_what_members_of_sarama_send_back_of_their_assignment_is_read_by_sarama() -> None:
    members = messages.read_members(Sticky(), [joined(Sticky(), id) for id in "abcdef"])
    for data in messages.encode_assignments(Sticky(), members, [ORDERS], 1).assignments.values():
        reader = Reader(data, "assignment")
        reader.int16("version")
        read_topic_partitions(reader, "partitions")
        read_by_sarama(reader.nullable_byte_array("user_data"))


def test_stay_classic_is_true_false_or_none() -> None:
    with pytest.raises(TypeError, match="stay_classic must be True, False or None, not 'yes'"):
        Assignor(Range(), stay_classic="yes")  # type: ignore[arg-type]
