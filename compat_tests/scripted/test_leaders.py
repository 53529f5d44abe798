"""Leaders of a large group, or of a group with a member that sends excessive metadata."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from collections.abc import Iterable
from contextlib import closing
from typing import Any

import pytest

from compat_tests.scripted.broker import Late, Never, Request, ScriptedBroker, broker_in_thread
from compat_tests.scripted.test_leader_epochs import poll_until
from compat_tests.scripted.users import CLIENTS, User
from compat_tests.support.hang_limit import HANG_S, hang_limit
from kafka_assignors.assignor import Assignor
from kafka_assignors.group import quoted
from kafka_assignors.messages import DecodedMembers, EncodedAssignments, JoinedMember
from kafka_assignors.wire import Subscription, decode_subscription, encode_subscription
from kafka_assignors_kafka_python import CooperativeKafkaConsumer
from kafka_assignors_kafka_python.cooperative import topics as watching

MISSING = tuple(f"missing-{number}" for number in range(40_000))
LONG = "n" * 32_000

EXCESSIVE = {
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


@pytest.mark.parametrize("excess", EXCESSIVE)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_member_that_sends_absurdly_much_is_named_in_a_bounded_log_and_stops_no_one(
    client: str, excess: str, caplog: pytest.LogCaptureFixture
) -> None:
    others = {member_id: encode_subscription(one) for member_id, one in EXCESSIVE[excess].items()}
    caplog.set_level(logging.INFO)

    async def run() -> None:
        async with ScriptedBroker() as broker:
            group = broker.group("leaders", {"orders": 40}, others=others)
            user = User(broker, group, client)
            async with hang_limit():
                try:
                    await user.start()
                    assert await user.consumes(100)
                    asked = [request.body.topics or [] for request in group.sent("Metadata")]
                finally:
                    await user.close()
            assert max(map(len, asked)) < 200
            assert broker.unexpected == []
            assert user.raised == []

    asyncio.run(run())
    lines = [record.getMessage() for record in caplog.records]
    assert sum(map(len, lines)) < 50_000
    warned = [
        record.getMessage()
        for record in caplog.records
        if record.name.startswith("kafka_assignors_") and record.levelno == logging.WARNING
    ]
    for member_id in others:
        named = quoted(member_id).strip("'")
        assert any(f"ember '{named[:100]}" in line for line in warned), warned
    assert max(map(len, warned)) < 1000


def test_a_leader_that_decodes_for_long_keeps_its_session_and_delivers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    began, released, ended = threading.Event(), threading.Event(), threading.Event()
    read_members = Assignor.read_members

    def slow(self: Assignor, joined: Iterable[JoinedMember]) -> DecodedMembers:
        began.set()
        released.wait(HANG_S)
        ended.set()
        return read_members(self, joined)

    with broker_in_thread() as broker:
        group = broker.group("leaders", {"orders": 4})
        consumer = CooperativeKafkaConsumer(
            "orders",
            bootstrap_servers=broker.bootstrap,
            group_id="leaders",
            client_id="leaders",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=100,
        )
        with closing(consumer):
            assert poll_until(consumer, lambda delivered: len(delivered) == 4)
            monkeypatch.setattr(Assignor, "read_members", slow)
            group.begin_rebalance()
            assert poll_until(consumer, lambda _: began.is_set())
            since = len(group.requests)

            went_on = poll_until(
                consumer,
                lambda delivered: (
                    ended.is_set() or (len(delivered) == 4 and len(group.sent("Heartbeat", since=since)) > 2)
                ),
            )

            assert went_on
            assert not ended.is_set()
            released.set()
            assert poll_until(consumer, lambda _: group.sent("SyncGroup", since=since))
            assert poll_until(consumer, lambda delivered: len(delivered) == 4)
        assert broker.unexpected == []


@pytest.mark.parametrize("client", CLIENTS)
def test_a_leader_whose_strategy_does_not_come_back_is_out_of_the_group_says_so_and_joins_again(
    client: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
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

    async def run() -> None:
        async with ScriptedBroker() as broker:
            group = broker.group("leaders", {"orders": 4})
            user = User(broker, group, client)
            async with hang_limit():
                try:
                    await user.start()
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
                    await user.close()
            assert user.raised == []
            assert broker.unexpected == []

    asyncio.run(run())
    (warning,) = [one for one in caplog.messages if "went on without this consumer" in one]
    assert "'cooperative-sticky' has not finished" in warning
    assert "max_poll_interval_ms" in warning


def is_of_topic(request: Request) -> bool:
    """Whether a Metadata request names the topic of the consumer."""
    return "orders" in [topic.name for topic in request.body.topics or ()]


def test_a_kafka_python_leader_waits_for_no_more_metadata_than_it_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The request that is under way when it begins to lead brings the topics; the next one has no answer."""
    monkeypatch.setattr(watching, "_UNKNOWN_TOPICS_TIMEOUT_MS", 2000 * HANG_S)

    async def run() -> None:
        async with ScriptedBroker() as broker, hang_limit():
            group = broker.group("leaders", {"orders": 4})
            group.answer("JoinGroup", Late(0.3))
            group.answer("Metadata", Late(1.0), when=is_of_topic)
            group.answer("Metadata", Never(), when=is_of_topic, times=math.inf)
            user = User(broker, group, "kafka-python")
            try:
                await user.start()
                await group.until(lambda: group.sent("SyncGroup"))
            finally:
                await user.close()

    asyncio.run(run())


@pytest.mark.parametrize("client", CLIENTS)
def test_a_static_member_finds_partitions_that_are_added_while_it_joins(client: str) -> None:
    """No other member watches the topics if it was the leader before a restart."""

    async def run() -> None:
        async with ScriptedBroker() as broker, hang_limit():
            group = broker.group("leaders", {"orders": 4}, peer_leads=True)
            group.assigned = [("orders", number) for number in range(4)]

            def adds(_: Request) -> bool:
                group.topics["orders"] = 6
                return False

            group.answer("JoinGroup", Never(), when=adds)
            group.answer("Metadata", Late(0.5), when=is_of_topic)
            user = User(broker, group, client, group_instance_id="pod-1", metadata_max_age_ms=500)
            try:
                await user.start()
                await group.until(lambda: len(group.sent("JoinGroup")) == 2)
            finally:
                await user.close()

    asyncio.run(run())


@pytest.mark.parametrize("client", CLIENTS)
def test_a_leader_knows_static_members_by_their_instance_ids(client: str) -> None:
    """The lowest id gets one more, so a restart, which changes the member id alone, moves nothing."""

    async def run() -> None:
        async with ScriptedBroker() as broker, hang_limit():
            others = {"m": encode_subscription(Subscription(3, ("orders",)))}
            group = broker.group("leaders", {"orders": 3}, others=others)
            user = User(broker, group, client, group_instance_id="pod-1")
            try:
                await user.start()
                assert await user.consumes()
                assert await user.call("commit", {user.partition("orders", 2): 5}) == "ok"
                await group.until(lambda: group.sent("Heartbeat"))
            finally:
                await user.close()
            assert group.member_id < "m" < "pod-1"
            # Without it, a broker cannot tell this member from one that has replaced it.
            for api in ("JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit"):
                assert {one.body.group_instance_id for one in group.sent(api)} == {"pod-1"}, api
            assert group.assigned == [("orders", 2)]

    asyncio.run(run())


@pytest.mark.parametrize("client", CLIENTS)
def test_a_pattern_is_matched_with_the_topics_at_the_time_of_the_join(client: str) -> None:
    async def run() -> None:
        async with ScriptedBroker() as broker, hang_limit():
            group = broker.group("leaders", {"orders": 4})
            user = User(broker, group, client)
            user.subscribes = {"pattern": "^orders"}
            try:
                await user.start()
                assert await user.consumes(4)
                since = len(group.requests)
                group.topics["orders-of-today"] = 2
                group.begin_rebalance()
                await group.until(lambda: group.sent("JoinGroup", since=since))
                (join, *_) = group.sent("JoinGroup", since=since)
            finally:
                await user.close()
            joined = decode_subscription(bytes(join.body.protocols[0].metadata))
            assert {*joined.topics} == {"orders", "orders-of-today"}

    asyncio.run(run())


def test_a_leader_whose_user_unsubscribes_while_it_reads_the_members_goes_on_without_an_error() -> None:
    async def run() -> None:
        async with ScriptedBroker() as broker:
            user = User(broker, broker.group("leaders", {"orders": 4}), "aiokafka")
            async with hang_limit():
                try:
                    await user.start()
                    assert await user.consumes(4)
                    consumer: Any = vars(user.client)["_consumer"]
                    consumer.unsubscribe()
                    await consumer._coordinator.watch({"orders"}, racks=False, waits=False)
                finally:
                    await user.close()
            assert broker.unexpected == []
            assert user.raised == []

    asyncio.run(run())
