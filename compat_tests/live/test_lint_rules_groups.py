"""Lint's rules on static members, KIP-848 and leaders describe real problems: each one is reproduced."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError as AiokafkaError
from confluent_kafka import KafkaError, KafkaException
from kafka import KafkaConsumer
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from compat_tests.java.member import JavaMember
from compat_tests.live.lint_scenes import Scene, first_error, poll_until
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from compat_tests.support.librdkafka import leave
from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer
from kafka_assignors_cli import main
from kafka_assignors_kafka_python import StickyAssignor
from kafka_assignors_ops.live_group import CLASSIC, CONSUMER, LiveMember

POD_OF_A_DEPLOYMENT = "orders-7d9f8b6c5-x2x4z"
SAME_POD_RESTARTED = "orders-7d9f8b6c5-q8wlk"
POD_OF_A_STATEFUL_SET = "orders-0"


def aiokafka(strategy: str = "sticky", **settings: Any) -> dict[str, Any]:
    return {"client": "aiokafka", "partition_assignment_strategy": [strategy], **settings}


def librdkafka(**settings: Any) -> dict[str, Any]:
    return {"client": "librdkafka", **{name.replace("_", "."): value for name, value in settings.items()}}


async def describe(scene: Scene) -> tuple[LiveMember, ...]:
    return (await asyncio.to_thread(scene.described)).members


# ---- static members


def test_passing_instance_id(kafka: Kafka) -> None:
    def settings(instance_id: str) -> dict[str, Any]:
        # A rebalance waits this long for the missing member, and as long again for its SyncGroup.
        return aiokafka(group_instance_id=instance_id, session_timeout_ms=30_000, rebalance_timeout_ms=3000)

    async def after_restart(first_id: str, second_id: str) -> tuple[int, int]:
        """The members after a restart of one process, and the partitions without a reader."""
        scene = Scene(kafka)
        async with scene.aiokafka(settings(first_id)) as before:
            await before.until(lambda: before.owned)
        async with scene.aiokafka(settings(second_id)) as after:
            await after.until(lambda: after.owned)
            unread = 4 - len(after.owned)
            members = await describe(scene)
            if second_id == SAME_POD_RESTARTED:
                assert (await asyncio.to_thread(scene.lint, live=True))["passing-instance-id"] == "warning"
            return len(members), unread

    async def both() -> Any:
        passing = after_restart(POD_OF_A_DEPLOYMENT, SAME_POD_RESTARTED)
        return await asyncio.gather(passing, after_restart(POD_OF_A_STATEFUL_SET, POD_OF_A_STATEFUL_SET))

    assert asyncio.run(both()) == [(2, 2), (1, 0)]
    scene = Scene(kafka)
    passing = aiokafka(group_instance_id=POD_OF_A_DEPLOYMENT)
    assert scene.lint(passing)["passing-instance-id"] == "warning"
    assert "passing-instance-id" not in scene.lint(aiokafka(group_instance_id=POD_OF_A_STATEFUL_SET))


def test_instance_id_twice(kafka: Kafka) -> None:
    scene = Scene(kafka)
    one = librdkafka(group_instance_id="orders-0", session_timeout_ms=30_000, heartbeat_interval_ms=300)
    first = scene.librdkafka(one)
    poll_until(first, first.assignment)
    second = scene.librdkafka(one)
    poll_until(second, second.assignment)
    fenced = first_error(first)
    assert fenced.code() == KafkaError._FATAL
    assert "fenced" in fenced.str()
    leave(second)
    leave(first)

    assert scene.lint(one, one)["instance-id-twice"] == "error"
    assert scene.lint({**one, "members": 2})["instance-id-twice"] == "error"
    other = {**one, "group.instance.id": "orders-1"}
    assert "instance-id-twice" not in scene.lint(one, other)


def test_members_of_aiokafka_with_one_instance_id_throw_each_other_out(kafka: Kafka) -> None:
    scene = Scene(kafka)
    one = aiokafka(group_instance_id="orders-0")

    async def play() -> None:
        async with scene.aiokafka(one) as first, scene.aiokafka(one) as second:
            await first.until(lambda: len(first.revoked) > 1 and len(second.revoked) > 1)

    # The client does not know FENCED_INSTANCE_ID. With this error on SyncGroup the member stops with an
    # unknown error; with this error on a heartbeat it joins again.
    with contextlib.suppress(AiokafkaError):
        asyncio.run(play())
    assert scene.lint(one, one)["instance-id-twice"] == "error"


# ---- groups with server-side assignment


def test_refused_under_kip848(kafka: Kafka) -> None:
    scene = Scene(kafka)
    for setting in (
        "partition.assignment.strategy=range",
        "session.timeout.ms=6000",
        "heartbeat.interval.ms=900",
    ):
        name, _, value = setting.partition("=")
        refused = {**librdkafka(group_protocol="consumer"), name: value}
        with pytest.raises(KafkaException, match="is not supported for"):
            scene.librdkafka(refused)
        assert scene.lint(refused)["refused-under-kip848"] == "error"
    plain = librdkafka(group_protocol="consumer")
    leave(scene.librdkafka(plain))
    assert "refused-under-kip848" not in scene.lint(plain)

    with pytest.raises(TypeError, match="group_protocol"):
        AIOKafkaConsumer(group_protocol="consumer")
    assert scene.lint(aiokafka(group_protocol="consumer"))["refused-under-kip848"] == "error"


def test_kip848_group(kafka: Kafka) -> None:
    scene = Scene(kafka)
    classic, modern = aiokafka("sticky"), librdkafka(group_protocol="consumer")

    async def play() -> None:
        async with scene.aiokafka(classic) as member:
            await member.until(lambda: len(member.owned) == 4)
            group = await asyncio.to_thread(scene.described)
            assert (group.group_type, group.protocol) == (CLASSIC, "sticky")
            change = ("--change-to", "roundrobin,sticky")
            assert "kip848-group" not in await asyncio.to_thread(scene.lint, live=True, options=change)

            consumer = scene.librdkafka(modern)
            await asyncio.to_thread(poll_until, consumer, consumer.assignment)
            await member.until(lambda: len(member.owned) == 2)
            group = await asyncio.to_thread(scene.described)
            assert (group.group_type, group.protocol) == (CONSUMER, "uniform")
            assert (await asyncio.to_thread(scene.lint, live=True, options=change))["kip848-group"] == "error"
            await asyncio.to_thread(leave, consumer)

    asyncio.run(play())
    assert scene.lint(classic, modern)["kip848-group"] == "error"
    assert "kip848-group" not in scene.lint(classic, librdkafka(group_protocol="classic"))


def test_java_leaves_classic(kafka: Kafka) -> None:
    """Java 4 gets the setting that is announced as the default of Java 5.0."""
    scene = Scene(kafka)
    ours = aiokafka("range")

    async def play() -> None:
        async with scene.aiokafka(ours) as member:
            await member.until(lambda: len(member.owned) == 4)
            java = JavaMember(kafka.bootstrap, scene.group, [scene.topic], protocol="consumer")
            await asyncio.to_thread(java.__enter__)
            try:
                await asyncio.to_thread(java.wait_until, lambda: bool(java.owned))
                group = await asyncio.to_thread(scene.described)
                assert (group.group_type, group.protocol) == (CONSUMER, "uniform")
            finally:
                await asyncio.to_thread(java.__exit__, None, None, None)

    asyncio.run(play())
    java = {"client": "java", "partition.assignment.strategy": "range"}
    assert scene.lint(ours, {**java, "client.version": "4.4.0"})["java-leaves-classic"] == "info"
    assert scene.lint(ours, {**java, "client.version": "5.0.0"})["java-leaves-classic"] == "error"
    told = {**java, "group.protocol": "classic"}
    assert "java-leaves-classic" not in scene.lint(ours, {**told, "client.version": "5.0.0"})


def test_second_roll_due(kafka: Kafka) -> None:
    def revoked_when_another_joins(assignors: str) -> int:
        scene = Scene(kafka)
        options: dict[str, Any] = {"assignors": assignors, "config": {"heartbeat.interval.ms": 300}}
        with JavaMember(kafka.bootstrap, scene.group, [scene.topic], **options) as first:
            first.wait_until(lambda: bool(first.owned))
            with JavaMember(kafka.bootstrap, scene.group, [scene.topic], **options) as second:
                second.wait_until(lambda: bool(second.owned))
                (revoked,) = (event for event in first.events if event["event"] == "revoked")
                return sum(map(len, revoked["partitions"].values()))

    assert revoked_when_another_joins("cooperative-sticky,range") == 4
    assert revoked_when_another_joins("cooperative-sticky") == 2
    scene = Scene(kafka)

    def java(strategies: str) -> dict[str, Any]:
        return {"client": "java", "partition.assignment.strategy": strategies}

    assert scene.lint(java("cooperative-sticky,range"))["second-roll-due"] == "info"
    assert "second-roll-due" not in scene.lint(java("cooperative-sticky"))


# ---- information for the leader


def test_rack_not_told(kafka: Kafka) -> None:
    scene = Scene(kafka)
    stock, ours = aiokafka("stock:range", client_rack="a"), aiokafka("cooperative-sticky", client_rack="a")

    async def rack_in_the_group(
        settings: dict[str, Any], consumer: type[AIOKafkaConsumer] = AIOKafkaConsumer
    ) -> str | None:
        async with scene.aiokafka(settings, consumer=consumer) as member:
            await member.until(lambda: member.owned)
            (live,) = await describe(scene)
            return live.rack

    assert asyncio.run(rack_in_the_group(stock)) is None
    assert asyncio.run(rack_in_the_group(ours, CooperativeAIOKafkaConsumer)) == "a"
    assert scene.lint(stock)["rack-not-told"] == "warning"
    assert "rack-not-told" not in scene.lint(ours)


def test_unreadable_sticky_data(kafka: Kafka, caplog: pytest.LogCaptureFixture) -> None:
    def poll(scene: Scene, strategy: Any, assigned: threading.Event, stopping: threading.Event) -> None:
        consumer = KafkaConsumer(
            scene.topic,
            bootstrap_servers=kafka.bootstrap,
            group_id=scene.group,
            partition_assignment_strategy=[strategy],
            heartbeat_interval_ms=300,
        )
        while not stopping.is_set():
            consumer.poll(timeout_ms=200)
            if consumer.assignment():
                assigned.set()
        consumer.close(autocommit=False)

    async def play(strategy: Any) -> None:
        """A kafka-python member is assigned, and joins again when a third member comes; aiokafka leads."""
        scene, assigned, stopping = Scene(kafka), threading.Event(), threading.Event()
        async with scene.aiokafka(aiokafka("stock:sticky")) as leader:
            await leader.until(lambda: leader.owned)
            polling = asyncio.create_task(asyncio.to_thread(poll, scene, strategy, assigned, stopping))
            try:
                await leader.until(lambda: len(leader.owned) == 2)
                # The member has member data once it is assigned.
                assert await asyncio.to_thread(assigned.wait, HANG_S)
                async with scene.aiokafka(aiokafka("stock:sticky")) as third:
                    await third.until(lambda: third.owned)
            finally:
                stopping.set()
                await polling

    def misread() -> bool:
        return "Could not parse member data" in caplog.text

    asyncio.run(play(StickyAssignor()))
    assert not misread()
    asyncio.run(play(StickyPartitionAssignor))
    assert misread()
    scene = Scene(kafka)
    kafka_python = {"client": "kafka-python", "client_version": "3.0.12"}
    own = {**kafka_python, "partition_assignment_strategy": ["stock:sticky"]}
    ours = {**kafka_python, "partition_assignment_strategy": ["sticky"]}
    assert scene.lint(own, aiokafka())["unreadable-sticky-data"] == "warning"
    assert "unreadable-sticky-data" not in scene.lint(ours, aiokafka())


def test_a_group_that_is_rebalancing_is_not_judged(kafka: Kafka, capsys: pytest.CaptureFixture[str]) -> None:
    with GroupOfMembers(kafka, "compat_tests.aiokafka.member", {"orders": 4}) as group:
        group.start("frozen", ["sticky"])
        group.settle()
        live = ["lint", "--bootstrap-server", kafka.bootstrap, "--group", group.id, "--timeout", "2"]
        assert main(live) == 0
        group.freeze("frozen")
        group.start("newcomer", ["sticky"])
        capsys.readouterr()
        group.wait_for("lint to find the group rebalancing", lambda: main(live) == 2)
        assert "is rebalancing (PreparingRebalance), so its strategy is not known" in capsys.readouterr().err
