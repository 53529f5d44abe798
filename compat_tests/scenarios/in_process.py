"""Cooperative consumers in the test's process, of either client: listener, commits, positions, weights."""

from __future__ import annotations

import contextlib
import inspect
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

import pytest

from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from compat_tests.support.told_listener import ToldListener
from kafka_assignors_strategies import Weighted


class InProcess(ABC):
    """What a client provides: its consumer, whose calls wait for their results, and its names.

    Attributes:
        program: the module of a member in a process of its own.
        plugin, sources: the modules of our assignors and of the sources of weights.
        topic_partition, listener_class: the client's TopicPartition, and a listener that records its calls.
        kafka_error: the client's KafkaError.
        stock_assignors: what the client's own consumer takes as an assignor.
        consumer_class: our consumer.
        of_client: the arguments of the client's own consumer.
        of_some_releases: the arguments that only some releases of the client have.
    """

    program: str
    plugin: ModuleType
    sources: ModuleType
    topic_partition: Callable[[str, int], Any]
    listener_class: Callable[..., Any]
    kafka_error: type[Exception]
    stock_assignors: Sequence[Any]
    consumer_class: type[Any]
    of_client: frozenset[str]
    of_some_releases: frozenset[str] = frozenset()

    @abstractmethod
    def construct(self, **settings: Any) -> None:
        """Make a consumer of the topic `orders`, and nothing else."""

    @abstractmethod
    def consuming(self, group: GroupOfMembers, listener: Any = None, **settings: Any) -> Any:
        """A context manager with a consumer of the group's topics, from their beginning, without autocommit.

        It has the methods of the client's consumer, and in addition `poll(timeout_ms)` and `close()`. A
        listener has it as `consumer`.
        """

    def of(self, group: GroupOfMembers, *numbers: int) -> set[Any]:
        return {type(self).topic_partition(group.topic("orders"), number) for number in numbers}

    def listener(self, **actions: Callable[[set[Any]], Any]) -> Any:
        return type(self).listener_class(**actions)


class RecordingListener(ToldListener):
    """Records the calls of a listener in order, and runs the test's action for each."""

    consumer: Any = None

    def __init__(self, **actions: Callable[[set[Any]], Any]) -> None:
        self.calls: list[tuple[str, set[Any]]] = []
        self._actions = actions

    def _told(self, what: str, partitions: set[Any]) -> Any:
        self.calls.append((what, partitions))
        return self._actions.get(what, lambda _: None)(partitions)

    def told(self, what: str) -> list[set[Any]]:
        return [partitions for call, partitions in self.calls if call == what and partitions]


OUR_OWN = {"max_warming", "observer", "warm_timeout_ms"}
"""The arguments that the cooperative consumers add to those of their clients."""


def polling_until(condition: Callable[[], Any], *consumers: Any) -> None:
    deadline = time.monotonic() + HANG_S
    while not condition():
        assert time.monotonic() < deadline
        for consumer in consumers:
            consumer.poll(timeout_ms=20)
        if not consumers:
            time.sleep(0.02)


def share(group: GroupOfMembers, *consumers: Any) -> None:
    """Poll until each consumer has a fair share and its listener has been called."""
    fair = sum(group.topics.values()) // len(consumers)

    def is_settled(consumer: Any) -> bool:
        member = consumer._coordinator._member
        return member.call is None and member.phase.name == "IDLE" and len(consumer.assignment()) == fair

    polling_until(lambda: all(map(is_settled, consumers)), *consumers)


def joining(consumer: Any) -> bool:
    return bool(consumer._coordinator._member.phase.name == "JOINING")


def read_first(consumer: Any, partitions: int) -> dict[int, int]:
    """The first offset that is read of each of so many partitions."""
    first: dict[int, int] = {}
    while len(first) < partitions:
        for tp, records in consumer.poll(timeout_ms=100).items():
            first.setdefault(tp.partition, records[0].offset)
    return first


def read_by_partition(consumer: Any, records: int) -> dict[Any, int]:
    """The number of records of each partition, once so many have been read."""
    read: dict[Any, int] = {}
    while sum(read.values()) < records:
        for tp, found in consumer.poll(timeout_ms=100).items():
            read[tp] = read.get(tp, 0) + len(found)
    return read


class ConsumerScenarios(InProcess):
    def test_every_argument_of_the_client_is_declared_and_no_other(self) -> None:
        parameters = inspect.signature(self.consumer_class).parameters.values()
        own = {each.name for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY}
        settings: Any = self.plugin
        passed_on = set(settings.ConsumerSettings.__annotations__)
        assert own & passed_on == set()  # Type checkers refuse such a constructor.
        declared = own | passed_on
        assert self.of_client - declared == set()
        assert OUR_OWN <= declared - self.of_client <= OUR_OWN | self.of_some_releases

    def test_what_is_no_assignor_of_ours_is_refused(self) -> None:
        for given in (*self.stock_assignors, "range", "roundrobin", object):
            with pytest.raises(TypeError, match=f"is not an assignor of {self.plugin.__name__}"):
                self.construct(group_id="g", partition_assignment_strategy=[given])

    @pytest.mark.parametrize("settings", [{"group_id": None}, {"group_id": "g", "client_rack": 1}])
    def test_a_group_and_a_rack_that_are_no_names_are_refused_at_construction(
        self, settings: dict[str, Any]
    ) -> None:
        with pytest.raises(TypeError, match=f"{[*settings][-1]} must be"):
            self.construct(**settings)

    def test_a_position_that_the_listener_sets_is_where_consumption_begins(self, kafka: Kafka) -> None:
        def seek(assigned: set[Any]) -> None:
            for tp in assigned:
                listener.consumer.seek(tp, 7)

        listener = self.listener(assigned=seek)
        with GroupOfMembers(kafka, self.program, {"orders": 4}) as group:
            group.produce(10)
            with self.consuming(group, listener) as consumer:
                assert read_first(consumer, 4) == dict.fromkeys(range(4), 7)

    @pytest.mark.parametrize("what", ["revoked", "lost", "assigned"])
    def test_a_call_for_records_raises_the_error_of_a_listener_and_the_consumer_goes_on(
        self, kafka: Kafka, what: str
    ) -> None:
        refused: list[set[Any]] = []

        def refuse_once(partitions: set[Any]) -> None:
            # Not in the first assignment: aiokafka's `start` would raise the error.
            if partitions and not refused and (what, len(partitions)) != ("assigned", 4):
                refused.append(partitions)
                raise ValueError("I will not")

        listener = self.listener(**{what: refuse_once})
        settings: dict[str, Any] = {"max_poll_interval_ms": 1000} if what == "lost" else {}
        says = rf"on_partitions_{what} of .* failed: .*I will not"
        with (
            GroupOfMembers(kafka, self.program, {"orders": 4}) as group,
            self.consuming(group, listener, **settings) as first,
        ):

            def meet_another() -> None:
                share(group, first)
                with self.consuming(group) as second:
                    if what == "lost":  # The first consumer is not polled.
                        polling_until(lambda: len(second.assignment()) == 4, second)
                    else:
                        share(group, second, first)
                polling_until(lambda: False, first)

            with pytest.raises(self.kafka_error, match=says) as raised:
                meet_another()
            assert isinstance(raised.value.__cause__, ValueError)
            group.produce(10)
            read_first(first, 4)

    def test_a_subscribed_topic_that_is_created_later_is_consumed(self, kafka: Kafka) -> None:
        """With the client's default metadata age of five minutes, which is longer than `HANG_S`."""
        with GroupOfMembers(kafka, self.program, {"orders": 2}) as group, self.consuming(group) as consumer:
            consumer.subscribe([group.topic("orders"), f"late-{group.run}"])
            polling_until(lambda: len(consumer.assignment()) == 2, consumer)
            group.create_topic("late", 1)
            polling_until(lambda: len(consumer.assignment()) == 3, consumer)


class WeightScenarios(InProcess):
    """Leaders that request weights."""

    @contextlib.contextmanager
    def weighing(
        self, group: GroupOfMembers, weights: Any, count: int = 2, **settings: Any
    ) -> Iterator[list[Any]]:
        """So many consumers with this source of weights."""
        ours: Any = self.plugin
        with contextlib.ExitStack() as stack:
            strategies = [ours.assignor(Weighted(), weights=weights, weights_timeout_s=HANG_S)]
            settings = {"session_timeout_ms": 45_000, "partition_assignment_strategy": strategies, **settings}
            yield [stack.enter_context(self.consuming(group, **settings)) for _ in range(count)]

    def test_members_share_the_lag_and_not_the_number(self, kafka: Kafka) -> None:
        with GroupOfMembers(kafka, self.program, {"orders": 6}) as group:
            topic = group.topic("orders")
            kafka.commit(group.id, {(topic, partition): 0 for partition in range(6)})
            kafka.produce({(topic, 2): 500, (topic, 4): 20})
            weights = self.sources.LagWeights(group.id, base=10, bootstrap_servers=kafka.bootstrap)
            with self.weighing(group, weights) as consumers:
                until_shares([{2}, {0, 1, 3, 4, 5}], consumers)

    def test_the_group_does_not_wait_for_brokers_that_do_not_answer(
        self, kafka: Kafka, caplog: pytest.LogCaptureFixture
    ) -> None:
        with (
            GroupOfMembers(kafka, self.program, {"orders": 4}) as group,
            socket.create_server(("127.0.0.1", 0), backlog=64) as silent,  # It accepts, but does not answer.
        ):
            address = f"127.0.0.1:{silent.getsockname()[1]}"
            weights = self.sources.LagWeights(group.id, bootstrap_servers=address)
            # The assignor allows HANG_S, but the session limits the wait to three seconds.
            with self.weighing(group, weights, 1, session_timeout_ms=9000) as consumers:
                until_shares([{0, 1, 2, 3}], consumers)
        # There may be a second rebalance for another reason; a source is asked again only after its answer.
        warnings = [m for m in caplog.messages if "no weights from" in m]
        assert "it did not answer within 3 s; all weights count as unknown" in warnings[0]
        assert all("all weights count as unknown" in warning for warning in warnings)
        assert "weighted: no weight of the 4 partitions is known: each counts as 1" in caplog.messages


def until_shares(expected: list[set[int]], consumers: list[Any]) -> None:
    """Poll until the consumers own these partitions, in any order."""

    def shares() -> list[list[int]]:
        return sorted(sorted(tp.partition for tp in consumer.assignment()) for consumer in consumers)

    polling_until(lambda: shares() == sorted(map(sorted, expected)), *consumers)
