"""Lint's rules on votes and lists describe real problems: each one is reproduced, and then fixed."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from aiokafka.errors import InconsistentGroupProtocolError
from confluent_kafka import KafkaError, KafkaException
from kafka import KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor as StockCooperativeSticky
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import InconsistentGroupProtocolError as InconsistentInKafkaPython
from kafka.errors import KafkaConfigurationError

from compat_tests.live.lint_scenes import Scene, first_error, poll_until
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from compat_tests.support.librdkafka import leave
from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer
from kafka_assignors_kafka_python import CooperativeStickyAssignor


def aiokafka(*strategies: str) -> dict[str, Any]:
    return {"client": "aiokafka", "partition_assignment_strategy": list(strategies)}


def librdkafka(*strategies: str) -> dict[str, Any]:
    return {"client": "librdkafka", "partition.assignment.strategy": ",".join(strategies)}


def kafka_python(*strategies: str) -> dict[str, Any]:
    return {
        "client": "kafka-python",
        "client_version": "3.0",
        "partition_assignment_strategy": list(strategies),
    }


def test_no_common_strategy(kafka: Kafka) -> None:
    scene = Scene(kafka)
    running = aiokafka("stock:roundrobin")

    async def play() -> None:
        async with scene.aiokafka(running) as first:
            await first.until(lambda: first.owned)

            with pytest.raises(InconsistentGroupProtocolError):
                async with scene.aiokafka(aiokafka("stock:range")):
                    raise AssertionError("it joined")

            consumer = scene.librdkafka(librdkafka("cooperative-sticky"))
            refused = await asyncio.to_thread(first_error, consumer)
            assert refused.code() == KafkaError.INCONSISTENT_GROUP_PROTOCOL
            await asyncio.to_thread(leave, consumer)

            with pytest.raises(InconsistentInKafkaPython):
                await asyncio.to_thread(poll_kafka_python, scene)

            async with scene.aiokafka(aiokafka("stock:range", "stock:roundrobin")) as second:
                await second.until(lambda: len(second.owned) == 2 == len(first.owned))

    asyncio.run(play())
    for newcomer in (aiokafka("stock:range"), librdkafka("cooperative-sticky"), kafka_python("stock:range")):
        assert scene.lint(running, newcomer)["no-common-strategy"] == "error"
    assert "no-common-strategy" not in scene.lint(running, aiokafka("stock:range", "stock:roundrobin"))


def poll_kafka_python(scene: Scene) -> None:
    consumer = KafkaConsumer(
        scene.topic,
        bootstrap_servers=scene.kafka.bootstrap,
        group_id=scene.group,
        partition_assignment_strategy=[RangePartitionAssignor],
    )
    try:
        deadline = time.monotonic() + HANG_S
        while time.monotonic() < deadline:
            consumer.poll(timeout_ms=500)
    finally:
        consumer.close(autocommit=False)


def test_lint_refuses_a_change_of_strategy_in_one_roll_and_accepts_it_in_two(kafka: Kafka) -> None:
    scene = Scene(kafka)

    async def play() -> None:
        async with scene.aiokafka(aiokafka("sticky")) as old:
            await old.until(lambda: old.owned)

            one_roll = await asyncio.to_thread(
                scene.lint, live=True, options=("--change-to", "cooperative-sticky")
            )
            assert one_roll["no-common-strategy"] == "error"
            new_alone = aiokafka("cooperative-sticky")
            by_files = await asyncio.to_thread(scene.lint, new_alone, live=True)
            assert by_files["no-common-strategy"] == "error"
            with pytest.raises(InconsistentGroupProtocolError):
                async with scene.aiokafka(new_alone):
                    raise AssertionError("it joined")

            first_roll = ("--change-to", "cooperative-sticky,sticky")
            assert "no-common-strategy" not in await asyncio.to_thread(
                scene.lint, live=True, options=first_roll
            )
            listed = ("--change-to", "cooperative-sticky", "--from", "cooperative-sticky,sticky")
            refused = await asyncio.to_thread(scene.refused, *listed)
            assert "runs 'sticky', so not every member has this list" in refused
            async with scene.aiokafka(aiokafka("cooperative-sticky", "sticky")) as rolled:
                await rolled.until(lambda: len(rolled.owned) == 2 == len(old.owned))

                await old.__aexit__(None, None, None)
                await rolled.until(lambda: len(rolled.owned) == 4)
                assert "no-common-strategy" not in await asyncio.to_thread(
                    scene.lint, live=True, options=listed
                )
                async with scene.aiokafka(new_alone) as renewed:
                    await renewed.until(lambda: len(renewed.owned) == 2 == len(rolled.owned))
                    assert (await asyncio.to_thread(scene.described)).protocol == "cooperative-sticky"

    asyncio.run(play())


def test_first_choice_loses(kafka: Kafka) -> None:
    async def strategy_in_use(scene: Scene, *lists: tuple[str, ...]) -> str | None:
        async with (
            scene.aiokafka(aiokafka(*lists[0])) as first,
            scene.aiokafka(aiokafka(*lists[1])) as second,
        ):
            await first.until(lambda: len(first.owned) == 2 == len(second.owned))
            return (await asyncio.to_thread(scene.described)).protocol

    lacking, all_list = (("range",), ("sticky", "range")), (("sticky", "range"), ("sticky", "range"))
    assert asyncio.run(strategy_in_use(Scene(kafka), *lacking)) == "range"
    assert asyncio.run(strategy_in_use(Scene(kafka), *all_list)) == "sticky"
    scene = Scene(kafka)
    assert scene.lint(*(aiokafka(*names) for names in lacking))["first-choice-loses"] == "warning"
    assert "first-choice-loses" not in scene.lint(*(aiokafka(*names) for names in all_list))


def test_vote(kafka: Kafka) -> None:
    scene = Scene(kafka, partitions=3)
    lists = (("roundrobin", "range"), ("range", "roundrobin"), ("roundrobin", "range"))
    consumers = [scene.librdkafka(librdkafka(*names)) for names in lists]

    def settled() -> bool:
        for consumer in consumers:
            consumer.poll(0)
        return all(len(consumer.assignment()) == 1 for consumer in consumers)

    poll_until(consumers[0], settled)
    assert scene.described().protocol == "roundrobin"
    for consumer in consumers:
        leave(consumer)

    found = scene.lint(*(librdkafka(*names) for names in lists))
    assert found["vote"] == "info"
    assert found["first-choice-loses"] == "warning"


def test_never_settles(kafka: Kafka) -> None:
    async def generations(*lists: tuple[str, ...], settles: bool = True) -> int:
        """The generations in two seconds without a join or a leave, or at least three."""
        scene = Scene(kafka)
        async with scene.aiokafka(aiokafka(*lists[0])) as first:
            await first.until(lambda: first.owned)
            joining = scene.aiokafka(aiokafka(*lists[1]))
            start = asyncio.create_task(joining.__aenter__())
            await first.until(lambda: first.revoked)
            if settles:
                await first.until(lambda: len(first.owned) == 2 == len(joining.owned))
            before = first.generation
            if settles:
                await asyncio.sleep(2)
            else:
                await first.until(lambda: first.generation > before + 2)
            passed = first.generation - before
            start.cancel()
            await asyncio.wait([start])
            await joining.consumer.stop()
            return passed

    differing = (("stock:range", "stock:sticky"), ("stock:sticky", "stock:range"))
    alike = (("stock:sticky", "stock:range"), ("stock:sticky", "stock:roundrobin", "stock:range"))
    mixed = (("range", "stock:sticky"), ("sticky", "stock:range"))
    assert asyncio.run(generations(*differing, settles=False)) > 2
    assert asyncio.run(generations(*mixed, settles=False)) > 2
    assert asyncio.run(generations(*alike)) == 0
    scene = Scene(kafka)
    for unsettled in (differing, mixed):
        assert scene.lint(*(aiokafka(*names) for names in unsettled))["never-settles"] == "error"
    assert "never-settles" not in scene.lint(*(aiokafka(*names) for names in alike))


def test_mixed_rebalance_protocols(kafka: Kafka) -> None:
    scene = Scene(kafka)
    with pytest.raises(KafkaException, match="must have the same protocol type"):
        scene.librdkafka(librdkafka("cooperative-sticky", "range"))
    assert scene.lint(librdkafka("cooperative-sticky", "range"))["mixed-rebalance-protocols"] == "error"
    leave(scene.librdkafka(librdkafka("roundrobin", "range")))
    assert "mixed-rebalance-protocols" not in scene.lint(librdkafka("roundrobin", "range"))

    def made(cooperative: Any) -> None:
        KafkaConsumer(
            bootstrap_servers=kafka.bootstrap,
            group_id=scene.group,
            partition_assignment_strategy=[cooperative, RangePartitionAssignor],
        ).close(autocommit=False)

    with pytest.raises(KafkaConfigurationError, match="support a common RebalanceProtocol"):
        made(StockCooperativeSticky)
    mixed = scene.lint(kafka_python("stock:cooperative-sticky", "stock:range"))
    assert mixed["mixed-rebalance-protocols"] == "error"
    made(CooperativeStickyAssignor())
    assert "mixed-rebalance-protocols" not in scene.lint(kafka_python("cooperative-sticky", "stock:range"))


def test_strategy_not_in_client(kafka: Kafka) -> None:
    scene = Scene(kafka)
    with pytest.raises(KafkaException, match="Unsupported"):
        scene.librdkafka(librdkafka("sticky"))
    assert scene.lint(librdkafka("sticky"))["strategy-not-in-client"] == "error"
    assert "strategy-not-in-client" not in scene.lint(librdkafka("cooperative-sticky"))


def test_join_per_strategy(kafka: Kafka) -> None:
    async def generations(*strategies: str) -> int:
        scene = Scene(kafka)
        async with scene.aiokafka(aiokafka(*strategies)) as member:
            await member.until(lambda: member.owned)
            return member.generation

    stock = ("stock:sticky", "stock:range", "stock:roundrobin")
    assert asyncio.run(generations("stock:sticky")) == 1
    assert asyncio.run(generations(*stock)) == 3
    assert asyncio.run(generations("sticky", "range", "roundrobin")) == 3
    scene = Scene(kafka)
    assert "join-per-strategy" not in scene.lint(aiokafka("stock:sticky"))
    assert scene.lint(aiokafka("sticky", "range", "roundrobin"))["join-per-strategy"] == "info"
    assert scene.lint(aiokafka(*stock))["join-per-strategy"] == "warning"


async def lint_of_pairs(scene: Scene) -> list[str | None]:
    """The findings of lint for two stock consumers, and for the two cooperative ones that replace them."""
    found = []

    async def lint() -> None:
        found.append((await asyncio.to_thread(scene.lint, live=True)).get("eager-consumer"))

    stock = aiokafka("cooperative-sticky")
    async with scene.aiokafka(stock) as first:
        await first.until(lambda: first.owned)
        async with scene.aiokafka(stock) as second:
            await second.until(lambda: len(second.owned) == 2 == len(first.owned))
        await first.until(lambda: len(first.owned) == 4)
        await lint()

    ours = [
        CooperativeAIOKafkaConsumer(
            scene.topic,
            bootstrap_servers=scene.kafka.bootstrap,
            group_id=scene.group,
            heartbeat_interval_ms=200,
            session_timeout_ms=30_000,
        )
        for _ in range(2)
    ]
    try:
        for consumer in ours:
            await consumer.start()
        await asyncio.wait_for(share(*ours), HANG_S)
        await ours[0].stop()
        while len(ours[1].assignment()) < 4:
            await asyncio.sleep(0.05)
        await lint()
    finally:
        for consumer in ours:
            await consumer.stop()
    return found


async def share(*consumers: CooperativeAIOKafkaConsumer) -> None:
    while [len(consumer.assignment()) for consumer in consumers] != [2, 2]:
        await asyncio.sleep(0.05)


def test_eager_consumer(kafka: Kafka) -> None:
    async def eager() -> list[set[int]]:
        scene = Scene(kafka)
        async with scene.aiokafka(aiokafka("cooperative-sticky")) as first:
            await first.until(lambda: first.owned)
            async with scene.aiokafka(aiokafka("cooperative-sticky")) as second:
                await second.until(lambda: len(second.owned) == 2 == len(first.owned))
            return first.revoked

    assert asyncio.run(eager())[0] == {0, 1, 2, 3}

    scene, revoked = Scene(kafka), []
    first = scene.librdkafka(librdkafka("cooperative-sticky"))
    first.subscribe([scene.topic], on_revoke=lambda _, gone: revoked.append({tp.partition for tp in gone}))
    poll_until(first, first.assignment)
    second = scene.librdkafka(librdkafka("cooperative-sticky"))
    poll_until(second, lambda: first.poll(0) or second.assignment())
    assert [len(gone) for gone in revoked] == [2]
    leave(second)
    leave(first)

    assert scene.lint(aiokafka("cooperative-sticky"))["eager-consumer"] == "info"
    assert asyncio.run(lint_of_pairs(Scene(kafka))) == ["info", None]
    assert "eager-consumer" not in scene.lint(librdkafka("cooperative-sticky"))
