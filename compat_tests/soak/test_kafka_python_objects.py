"""Repeated actions of kafka-python consumers add no objects, threads or descriptors."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.admin import KafkaAdminClient, MemberToRemove
from kafka.errors import FencedInstanceIdError, GroupAuthorizationFailedError, KafkaError

from compat_tests.soak.conftest import BESIDES, FULL, QUIET, Broker
from compat_tests.soak.repetition import ROUNDS, added_by_each_round, sample
from compat_tests.support.hang_limit import HANG_S
from kafka_assignors.rebalance.events import HeartbeatAnswered
from kafka_assignors_kafka_python import CooperativeKafkaConsumer, StickyAssignor, assignor
from kafka_assignors_strategies import Standby

CONSUMERS = (CooperativeKafkaConsumer, KafkaConsumer)
STAYING = [
    pytest.param(CooperativeKafkaConsumer, False, id="cooperative"),
    pytest.param(KafkaConsumer, True, id="eager-static"),
    pytest.param(CooperativeKafkaConsumer, True, id="cooperative-static", marks=pytest.mark.exhaustive),
    pytest.param(KafkaConsumer, False, id="eager", marks=pytest.mark.exhaustive),
]
"""The class of a member that stays while another one joins and leaves, and whether it is a static member."""
TURN_MS = 10


class Nothing(ConsumerRebalanceListener):
    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        pass

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        pass


class Raising(Nothing):
    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        raise ValueError("the application's own mistake")


def make(
    broker: Broker, group: str, *topics: str, made: Any = CooperativeKafkaConsumer, **settings: Any
) -> Any:
    """A consumer with short intervals; a stock one gets an assignor of ours."""
    return made(
        *topics,
        **{
            "bootstrap_servers": broker.bootstrap,
            "group_id": group,
            "partition_assignment_strategy": [StickyAssignor()] if made is KafkaConsumer else None,
            "auto_offset_reset": "earliest",
            "heartbeat_interval_ms": TURN_MS,
            "session_timeout_ms": 30_000,
            "retry_backoff_ms": TURN_MS,
            "fetch_max_wait_ms": TURN_MS,
            "auto_commit_interval_ms": 2 * TURN_MS,
            **settings,
        },
    )


@contextlib.contextmanager
def consuming(broker: Broker, group: str, *topics: str, owns: int, **settings: Any) -> Iterator[Any]:
    """A consumer that owns `owns` partitions."""
    consumer = make(broker, group, *topics, **settings)
    try:
        poll_until(consumer, lambda: len(consumer.assignment()) == owns and (owns or is_member(consumer)))
        yield consumer
    finally:
        consumer.close()


def is_member(consumer: Any) -> bool:
    return consumer._coordinator._generation.generation_id > 0


def poll_until(consumer: Any, condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + HANG_S
    while not condition():
        assert time.monotonic() < deadline
        consumer.poll(timeout_ms=TURN_MS)


def grown(repeat: Callable[[], object], times: int) -> dict[str, int]:
    """The objects that each of `ROUNDS` rounds of `times` repetitions adds."""
    samples = []
    for _ in range(ROUNDS):
        for _ in range(times):
            repeat()
        samples.append(sample())
    return added_by_each_round(samples, times)


class Heartbeats:
    """Counts the heartbeat responses of a cooperative consumer."""

    def __init__(self, consumer: CooperativeKafkaConsumer) -> None:
        self.answered = 0
        self._handle = consumer._coordinator.handle
        consumer._coordinator.handle = self._count  # type: ignore[method-assign]

    def _count(self, event: Any) -> None:
        self._handle(event)
        self.answered += isinstance(event, HeartbeatAnswered)

    def turn(self, consumer: CooperativeKafkaConsumer) -> None:
        """Poll, at least once, until another heartbeat is answered."""
        before = self.answered
        consumer.poll(timeout_ms=TURN_MS)
        poll_until(consumer, lambda: self.answered > before)


class TestQuietMembers:
    @contextlib.contextmanager
    def member(self, broker: Broker, situation: str, made: Any) -> Iterator[Any]:
        group = broker.new_group()
        active = standby = None
        if situation == "standby":
            active, standby = ([assignor(Standby(standby=each))] for each in (False, True))
        settings = {"made": made}
        with contextlib.ExitStack() as stack:
            if situation in ("idle", "paused"):
                topic, owns = (QUIET, 1) if situation == "idle" else (FULL, 2)
                consumer = stack.enter_context(consuming(broker, group, topic, owns=owns, **settings))
                if situation == "paused":
                    consumer.pause(*consumer.assignment())
                    consumer.seek_to_beginning()
            else:
                # The assignor is sticky, so the first member keeps the only partition.
                first = make(broker, group, QUIET, **with_strategy(settings, active))
                second = make(broker, group, QUIET, **with_strategy(settings, standby))
                stack.callback(first.close)
                stack.callback(second.close)
                poll_until(first, lambda: len(first.assignment()) == 1)

                def both_polled() -> bool:
                    first.poll(timeout_ms=TURN_MS)
                    return is_member(second) and len(first.assignment()) == 1

                poll_until(second, both_polled)
                consumer = second
            yield consumer

    @pytest.mark.parametrize("situation", ["idle", "without-partitions", "paused", "standby"])
    def test_turns_and_heartbeats_of_a_cooperative_one_add_nothing(
        self, broker: Broker, situation: str
    ) -> None:
        with self.member(broker, situation, CooperativeKafkaConsumer) as consumer:
            heartbeats = Heartbeats(consumer)
            owned = len(consumer.assignment())
            assert grown(lambda: heartbeats.turn(consumer), times=25) == {}
            assert len(consumer.assignment()) == owned

    @pytest.mark.parametrize("situation", ["idle", "without-partitions"])
    def test_turns_with_an_assignor_of_ours_add_nothing(self, broker: Broker, situation: str) -> None:
        with self.member(broker, situation, KafkaConsumer) as consumer:
            assert grown(lambda: consumer.poll(timeout_ms=TURN_MS), times=25) == {}


def with_strategy(settings: dict[str, Any], strategy: Any) -> dict[str, Any]:
    return settings if strategy is None else {**settings, "partition_assignment_strategy": strategy}


class TestBusyMembers:
    def test_records_and_automatic_commits_add_nothing(self, broker: Broker) -> None:
        with consuming(broker, broker.new_group(), FULL, owns=2) as consumer:
            consumer.seek_to_end()
            for tp in consumer.assignment():
                consumer.position(tp)

            def read() -> None:
                broker.produce()
                records = 0
                while records < 2:
                    records += sum(map(len, consumer.poll(timeout_ms=TURN_MS).values()))

            assert grown(read, times=10) == {}

    def test_commits_in_flight_add_nothing(self, broker: Broker) -> None:
        with consuming(broker, broker.new_group(), FULL, owns=2) as consumer:
            answers: list[object] = []

            def commit() -> None:
                answers.clear()
                for offset in range(10):
                    for tp in consumer.assignment():
                        offsets = {tp: OffsetAndMetadata(offset, "", -1)}
                        consumer.commit_async(offsets, callback=lambda *answer: answers.append(answer[1]))
                consumer.commit({tp: OffsetAndMetadata(10, "", -1) for tp in consumer.assignment()})
                poll_until(consumer, lambda: len(answers) == 20)

            assert grown(commit, times=10) == {}

    def test_seeks_pauses_and_lookups_add_nothing(self, broker: Broker) -> None:
        with consuming(broker, broker.new_group(), FULL, owns=2) as consumer:
            owned = list(consumer.assignment())

            def churn() -> None:
                consumer.pause(*owned)
                consumer.poll(timeout_ms=TURN_MS)
                consumer.seek(owned[0], 3)
                consumer.resume(*owned)
                consumer.poll(timeout_ms=TURN_MS)
                consumer.seek_to_beginning(owned[1])
                assert consumer.position(owned[1]) is not None
                consumer.committed(owned[0])
                consumer.end_offsets(owned)

            assert grown(churn, times=10) == {}


class TestRebalances:
    @pytest.mark.parametrize(("made", "static"), STAYING)
    def test_a_member_that_joins_and_leaves_adds_nothing(
        self, broker: Broker, made: Any, static: bool
    ) -> None:
        group = broker.new_group()

        def visit() -> None:
            visitor = make(broker, group, FULL, made=made)
            poll_until(visitor, lambda: len(visitor.assignment()) == 1)
            visitor.close()

        with (
            ThreadPoolExecutor(1) as thread,
            consuming(
                broker, group, FULL, owns=2, made=made, group_instance_id="one" if static else None
            ) as consumer,
        ):

            def rebalance() -> None:
                visiting = thread.submit(visit)
                poll_until(consumer, visiting.done)
                visiting.result()
                poll_until(consumer, lambda: len(consumer.assignment()) == 2)

            assert grown(rebalance, times=4) == {}

    def test_changed_subscriptions_add_nothing(self, broker: Broker) -> None:
        with consuming(broker, broker.new_group(), FULL, owns=2) as consumer:

            def change() -> None:
                consumer.subscribe([FULL, BESIDES], listener=Nothing())
                poll_until(consumer, lambda: len(consumer.assignment()) == 3)
                consumer.subscribe([FULL], listener=Nothing())
                poll_until(consumer, lambda: len(consumer.assignment()) == 2)
                consumer.unsubscribe()
                consumer.subscribe(pattern=f"^{BESIDES}$")
                poll_until(consumer, lambda: len(consumer.assignment()) == 1)
                consumer.unsubscribe()

            assert grown(change, times=4) == {}

    def test_a_listener_that_raises_adds_nothing(self, broker: Broker) -> None:
        with consuming(broker, broker.new_group(), FULL, owns=2) as consumer:
            consumer.subscribe([FULL], listener=Raising())

            def rejoin() -> None:
                consumer.enforce_rebalance()
                with pytest.raises(KafkaError):
                    poll_until(consumer, lambda: False)

            assert grown(rejoin, times=6) == {}

    def test_a_member_that_the_group_removes_adds_nothing(self, broker: Broker) -> None:
        group = broker.new_group()
        admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
        with contextlib.closing(admin), consuming(broker, group, FULL, owns=2) as consumer:

            def remove() -> None:
                generation = consumer._coordinator._generation
                admin.remove_group_members(group, [MemberToRemove(member_id=generation.member_id)])
                poll_until(
                    consumer,
                    lambda: (
                        len(consumer.assignment()) == 2
                        and consumer._coordinator._generation.member_id != generation.member_id
                    ),
                )

            assert grown(remove, times=4) == {}


class TestErrors:
    @pytest.mark.parametrize("polls", [True, False], ids=["polled", "not-polled"])
    def test_refused_heartbeats_add_nothing(self, broker: Broker, polls: bool) -> None:
        group = broker.new_group()
        with consuming(broker, group, FULL, owns=2, enable_auto_commit=False) as consumer:
            heartbeats = Heartbeats(consumer)

            def refused() -> None:
                before = heartbeats.answered
                while heartbeats.answered == before:
                    with contextlib.suppress(GroupAuthorizationFailedError):
                        consumer.poll(timeout_ms=TURN_MS) if polls else time.sleep(TURN_MS / 1000)

            broker.refuse(group)
            try:
                with pytest.raises(GroupAuthorizationFailedError):
                    poll_until(consumer, lambda: False)
                assert grown(refused, times=20) == {}
            finally:
                broker.accept(group)

    def test_connections_that_are_reset_add_nothing(self, broker: Broker) -> None:
        client = "to-be-reset"
        settings = {"bootstrap_servers": broker.proxy.bootstrap, "client_id": client}
        with consuming(broker, broker.new_group(), FULL, owns=2, **settings) as consumer:
            heartbeats = Heartbeats(consumer)

            def reset() -> None:
                broker.reset_connections(client)
                heartbeats.turn(consumer)
                heartbeats.turn(consumer)

            assert grown(reset, times=2) == {}

    def test_a_fatal_error_adds_nothing_when_it_is_raised_again(self, broker: Broker) -> None:
        group = broker.new_group()
        with (
            consuming(broker, group, FULL, owns=2, group_instance_id="one") as fenced,
            consuming(broker, group, FULL, owns=2, group_instance_id="one"),
        ):

            def poll() -> None:
                with pytest.raises(FencedInstanceIdError):
                    poll_until(fenced, lambda: False)

            assert grown(poll, times=25) == {}


class TestLives:
    @pytest.mark.parametrize("made", CONSUMERS)
    def test_consumers_that_were_closed_leave_nothing(self, broker: Broker, made: Any) -> None:
        group = broker.new_group()

        def live() -> None:
            with consuming(broker, group, FULL, owns=2, made=made):
                pass

        assert grown(live, times=3) == {}

    def test_consumers_that_never_joined_leave_nothing(self, broker: Broker) -> None:
        assert grown(lambda: make(broker, broker.new_group()).close(), times=3) == {}
