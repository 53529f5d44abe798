"""What leaders ask for, and how they bear members whose bytes do not decode, or are absurdly many."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from struct import pack
from typing import Any

import pytest

from compat_tests.scripted.broker import Held, Late, Never, Request
from compat_tests.scripted.model import Group
from compat_tests.scripted.users import TOPIC, User, each_client
from compat_tests.support.hang_limit import HANG_S
from kafka_assignors.assignor import Assignor
from kafka_assignors.group import quoted
from kafka_assignors.messages import EncodedAssignments
from kafka_assignors.wire import Subscription, decode_assignment, decode_subscription, encode_subscription
from kafka_assignors_kafka_python.cooperative import topics as watching
from kafka_assignors_kafka_python.cooperative.inside import ConsumerCoordinator

MISSING = tuple(f"missing-{number}" for number in range(40_000))
LONG = "n" * 32_000
IMPOSSIBLE = ("no such/topic", "..", "")

EXCESSIVE = {
    "topics that cannot exist": {
        "evil": Subscription(0, ("orders", *IMPOSSIBLE)),
    },
    "40,000 topics that do not exist": {
        "evil": Subscription(3, ("orders", *MISSING)),
    },
    "names of 32 kB": {
        LONG + "1": Subscription(3, ("orders", LONG)),
        LONG + "2": Subscription(3, ("orders",), owned={LONG: [0], "orders": [7]}, generation=1),
        LONG + "3": Subscription(3, ("t" * 249,)),
    },
    "a million claims": {
        "evil": Subscription(3, ("orders",), owned={"orders": [*range(4, 1_000_000)]}, generation=1),
    },
    "claims on 40,000 topics": {
        "evil": Subscription(3, MISSING, owned=dict.fromkeys(MISSING, (0,)), generation=1),
    },
}

LARGEST = 2**31 - 1
NO_USER_DATA = pack(">hih6si", 3, 1, 6, b"orders", -1)

UNREADABLE = {
    "nothing": b"",
    "noise": bytes(range(256)) * 16,
    "a negative version": pack(">hii", -7, 0, -1),
    "2 GB of topics": pack(">hih6s", 3, LARGEST, 6, b"orders"),
    "a negative number of topics": pack(">hih6s", 3, -LARGEST, 6, b"orders"),
    "2 GB of user data": pack(">hih6si5s", 3, 1, 6, b"orders", LARGEST, b"short"),
    "2 GB of owned topics": NO_USER_DATA + pack(">ih6s", LARGEST, 6, b"orders"),
    "2 GB of partitions": NO_USER_DATA + pack(">ih6sii", 1, 6, b"orders", LARGEST, 0),
    "a name that breaks off": pack(">hih6s", 3, 1, 32767, b"orders"),
    "a name of negative length": pack(">hih", 3, 1, -2),
    "a name that is not UTF-8": pack(">hih3si", 3, 1, 3, b"\xff\xfe\xfd", -1),
    "a rack that breaks off": NO_USER_DATA + pack(">iih1s", 0, 5, 300, b"a"),
}

READER_OF_ORDERS = encode_subscription(Subscription(3, (TOPIC,)))
READER_OF_LATE = encode_subscription(Subscription(3, ("late",)))

MANY = {f"topic-{number}": 1 for number in range(200)}
"""More topics than a leader asks for by name while it does not know them."""

HOSTILE = {
    "bytes that do not decode": UNREADABLE,
    **{
        excess: {member_id: encode_subscription(one) for member_id, one in members.items()}
        for excess, members in EXCESSIVE.items()
    },
}


@pytest.mark.parametrize("hostility", HOSTILE)
@each_client(consumes=0)
async def test_a_hostile_member_is_named_in_a_bounded_log_and_stops_no_one(
    user: User, group: Group, hostility: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    group.others = HOSTILE[hostility]
    await user.start()
    assert await user.consumes(100)
    asked = [request.body.topics or [] for request in group.sent("Metadata")]
    answer = group.sent("SyncGroup")[0].body.assignments
    given = {m.member_id for m in answer if decode_assignment(bytes(m.assignment)).partitions}
    hostile = EXCESSIVE.get(hostility, {}).items()
    assert given == {group.member_id, *(id for id, one in hostile if TOPIC in one.topics)}
    await user.close()
    assert max(map(len, asked)) < 200
    assert not {topic.name for topics in asked for topic in topics} & {*IMPOSSIBLE, LONG}
    assert user.raised == []
    assert sum(map(len, caplog.messages)) < 50_000
    warned = [
        record.getMessage()
        for record in caplog.records
        if record.name.startswith("kafka_assignors_") and record.levelno == logging.WARNING
    ]
    for member_id in group.others:
        named = quoted(member_id).strip("'")
        assert any(f"ember '{named[:100]}" in line for line in warned), warned
    assert max(map(len, warned)) < 1000


@each_client(consumes=0)
async def test_a_leader_whose_strategy_does_not_come_back_is_out_of_the_group_says_so_and_joins_again(
    user: User, group: Group, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The thread of the strategy goes on, and what it returns is dropped."""
    began, released = threading.Event(), threading.Event()
    assign = Assignor.encode_assignments

    def stuck_once(self: Assignor, *arguments: Any) -> EncodedAssignments:
        if not began.is_set():
            began.set()
            assert released.wait(HANG_S)
        return assign(self, *arguments)

    monkeypatch.setattr(Assignor, "encode_assignments", stuck_once)
    await user.start()
    try:
        await group.until(began.is_set)
        assert group.sent("SyncGroup") == []
        group.remove_member()
        assert await user.consumes(4)
        assert not released.is_set()
        released.set()
        group.begin_rebalance()
        await group.until(lambda: len(group.sent("SyncGroup")) == 2)
    finally:
        released.set()
    assert user.raised == []
    (warning,) = [one for one in caplog.messages if "went on without this consumer" in one]
    assert "'cooperative-sticky' has not finished" in warning
    assert "max_poll_interval_ms" in warning


def is_of_topic(request: Request) -> bool:
    """Whether a Metadata request names the topic of the consumer."""
    return TOPIC in [topic.name for topic in request.body.topics or ()]


@each_client("kafka-python", consumes=0)
async def test_a_kafka_python_leader_waits_for_no_more_metadata_than_it_needs(
    user: User, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request that is under way when it begins to lead brings the topics; the next one has no answer."""
    monkeypatch.setattr(watching, "_UNKNOWN_TOPICS_TIMEOUT_MS", 2000 * HANG_S)
    group.answer("JoinGroup", Late(0.3))
    group.answer("Metadata", Late(1.0), when=is_of_topic)
    group.answer("Metadata", Never(), when=is_of_topic, times=math.inf)
    await user.start()
    await group.until(lambda: group.sent("SyncGroup"))


@each_client(
    of_group={"peer_leads": True, "assigned": [(TOPIC, number) for number in range(4)]},
    consumes=0,
    group_instance_id="pod-1",
    metadata_max_age_ms=500,
)
async def test_a_static_member_finds_partitions_that_are_added_while_it_joins(
    user: User, group: Group
) -> None:
    """No other member watches the topics if it was the leader before a restart."""

    def adds(_: Request) -> bool:
        group.topics[TOPIC] = 6
        return False

    group.answer("JoinGroup", Never(), when=adds)
    group.answer("Metadata", Late(0.5), when=is_of_topic)
    await user.start()
    await group.until(lambda: len(group.sent("JoinGroup")) == 2)


@each_client(of_group={"topics": {TOPIC: 3}, "others": {"m": READER_OF_ORDERS}}, group_instance_id="pod-1")
async def test_a_leader_knows_static_members_by_their_instance_ids(user: User, group: Group) -> None:
    """The lowest id gets one more, so a restart, which changes the member id alone, moves nothing."""
    assert await user.call("commit", {user.partition(TOPIC, 2): 5}) == "ok"
    await group.until(lambda: group.sent("Heartbeat"))
    assert group.member_id < "m" < "pod-1"
    # Without it, a broker cannot tell this member from one that has replaced it.
    for api in ("JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit"):
        assert {one.body.group_instance_id for one in group.sent(api)} == {"pod-1"}, api
    assert group.assigned == [(TOPIC, 2)]


@each_client(consumes=0)
async def test_a_pattern_is_matched_with_the_topics_at_the_time_of_the_join(
    user: User, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if kafka-python's user polls after the metadata have come, and before its I/O thread joins."""
    update = ConsumerCoordinator._handle_metadata_update

    def update_and_poll(coordinator: Any, cluster: Any) -> None:
        before = coordinator._subscription.subscription
        update(coordinator, cluster)
        if before and coordinator._subscription.subscription != before:
            poll = threading.Thread(target=coordinator.subscription_may_have_changed)
            poll.start()
            poll.join(0.5)  # It waits for this thread.

    monkeypatch.setattr(ConsumerCoordinator, "_handle_metadata_update", update_and_poll)
    user.subscribes = {"pattern": "^orders"}
    await user.start()
    assert await user.consumes(4)
    settled = len(group.requests)
    await group.until(lambda: group.sent("Heartbeat", since=settled))
    since = len(group.requests)
    group.topics["orders-of-today"] = 2
    group.begin_rebalance()
    await group.until(lambda: group.sent("JoinGroup", since=since))
    (join, *_) = group.sent("JoinGroup", since=since)
    joined = decode_subscription(bytes(join.body.protocols[0].metadata))
    assert {*joined.topics} == {TOPIC, "orders-of-today"}


@each_client(of_group={"others": {"m": READER_OF_LATE}}, heartbeat_interval_ms=50)
async def test_a_leader_asks_for_topics_that_are_missing_and_at_rest_for_nothing(
    user: User, group: Group
) -> None:
    async def heartbeats(number: int) -> None:
        since = len(group.requests)
        await group.until(lambda: len(group.sent("Heartbeat", since=since)) >= number)

    since = len(group.requests)
    await group.until(lambda: len(group.sent("Metadata", since=since)) > 3)
    group.topics["late"] = 1
    await group.until(lambda: group.sent("SyncGroup", since=since))
    await heartbeats(10)  # The group has settled.
    at_rest = len(group.requests)
    await heartbeats(20)
    assert group.sent("Metadata", since=at_rest) == []


@each_client("kafka-python", heartbeat_interval_ms=20)
async def test_rebalances_while_one_metadata_request_is_under_way_leave_no_tasks(
    user: User, group: Group
) -> None:
    group.answer("Metadata", Never(), times=math.inf)
    tasks = user.client.consumer._coordinator._net._pending_tasks

    async def rebalance(since: int) -> int:
        group.begin_rebalance()
        await group.until(lambda: group.sent("SyncGroup", since=since))
        return len(tasks)

    waiting = [await rebalance(len(group.requests)) for _ in range(20)]
    assert waiting[-1] < waiting[0] + 10


@each_client(
    of_group={
        "topics": {TOPIC: 4, "by-hand": 1, **MANY},
        "others": {"m": encode_subscription(Subscription(3, (*MANY,)))},
    },
    consumes=0,
    metadata_max_age_ms=200,
)
async def test_topics_assigned_by_hand_while_a_leader_waits_for_metadata_are_followed(
    user: User, group: Group, client: str
) -> None:
    """The request to leave has no response yet, so nothing has ended the work of the leader."""
    released, left = asyncio.Event(), asyncio.Event()
    # aiokafka asks for all topics before it joins, too.
    group.answer(
        "Metadata", Held(released), when=lambda request: group.generation > 0 and request.body.topics is None
    )
    group.answer("LeaveGroup", Held(left))
    await user.start()
    await group.until(lambda: any(request.scripted for request in group.requests))
    for method, *arguments in (["unsubscribe"], ["assign", [user.partition("by-hand", 0)]]):
        assert await user.call(method, *arguments) == "ok"
    since = len(group.requests)
    released.set()
    await group.until(lambda: len(group.sent("Metadata", since=since)) > 3)
    named = [topic.name for topic in group.sent("Metadata")[-1].body.topics]
    assert named == ["by-hand"] if client == "kafka-python" else "by-hand" in named
    left.set()
