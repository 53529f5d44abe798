"""Repeated actions of a consumer of either client add no objects, tasks, threads or descriptors."""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import pytest

from compat_tests.differential.holder import expel
from compat_tests.scenarios.in_process import polling_until
from compat_tests.soak.conftest import BESIDES, FULL, QUIET, Broker
from compat_tests.soak.repetition import ROUNDS, added_by_each_round, sample
from compat_tests.support.fault_proxy import Effect, Fault
from kafka_assignors.rebalance.events import HeartbeatAnswered

TURN_MS = 10


class Heartbeats:
    """Counts the heartbeat responses of a cooperative consumer."""

    def __init__(self, coordinator: Any) -> None:
        self.answered = 0
        self._handle = coordinator.handle
        coordinator.handle = self._count

    def _count(self, event: Any) -> None:
        self._handle(event)
        self.answered += isinstance(event, HeartbeatAnswered)

    def turn(self, consumer: Any) -> None:
        """Poll, at least once, until another heartbeat is answered."""
        before = self.answered
        consumer.poll(timeout_ms=TURN_MS)
        polling_until(lambda: self.answered > before, consumer)


class ObjectScenarios(ABC):
    """What a client provides, and the repetitions.

    Attributes:
        plugin: our assignors.
        listener: the client's class of listeners.
        kafka_error, refused, fenced: the client's errors.
    """

    plugin: ModuleType
    listener: type[Any]
    kafka_error: type[Exception]
    refused: type[Exception]
    fenced: type[Exception]

    @abstractmethod
    def started(self, kind: str, *topics: str, **settings: Any) -> Any:
        """A started consumer, `cooperative` or `eager`; its calls wait for their results."""

    @abstractmethod
    def membership(self, consumer: Any) -> tuple[str, int]:
        """The member id and the generation."""

    @abstractmethod
    def commit_at_once(self, consumer: Any) -> None:
        """Ask for twenty commits, and then wait for all."""

    def rest(self) -> None:  # noqa: B027  # One client has nothing to do.
        """Called before the objects are counted."""

    def make(
        self, broker: Broker, group: str, *topics: str, kind: str = "cooperative", **settings: Any
    ) -> Any:
        """A consumer with short intervals; an eager one gets an assignor of ours."""
        ours: Any = self.plugin
        strategies = {"partition_assignment_strategy": [ours.StickyAssignor()]} if kind == "eager" else {}
        return self.started(
            kind,
            *topics,
            **{
                "bootstrap_servers": broker.bootstrap,
                "group_id": group,
                "auto_offset_reset": "earliest",
                "heartbeat_interval_ms": TURN_MS,
                "session_timeout_ms": 30_000,
                "retry_backoff_ms": TURN_MS,
                "fetch_max_wait_ms": TURN_MS,
                "auto_commit_interval_ms": 2 * TURN_MS,
                **strategies,
                **settings,
            },
        )

    @contextlib.contextmanager
    def consuming(
        self, broker: Broker, group: str, *topics: str, owns: int, **settings: Any
    ) -> Iterator[Any]:
        """A consumer that owns `owns` partitions."""
        consumer = self.make(broker, group, *topics, **settings)
        try:
            polling_until(
                lambda: len(consumer.assignment()) == owns and self.membership(consumer)[1] > 0, consumer
            )
            yield consumer
        finally:
            consumer.close()

    def grown(self, repeat: Callable[[], object], times: int) -> dict[str, int]:
        """The objects that each of `ROUNDS` rounds of `times` repetitions adds."""
        samples = []
        for _ in range(ROUNDS):
            for _ in range(times):
                repeat()
            self.rest()
            samples.append(sample())
        return added_by_each_round(samples, times)

    # ---- quiet members

    @contextlib.contextmanager
    def quiet(self, broker: Broker, owns: int) -> Iterator[Any]:
        """A member of a group that has one partition, which is its own, or another member's."""
        group = broker.new_group()
        with self.consuming(broker, group, QUIET, owns=1) as first:
            if owns:
                yield first
                return
            # The assignor is sticky, so the first member keeps the partition.
            with contextlib.closing(self.make(broker, group, QUIET)) as second:
                polling_until(lambda: self.membership(second)[1] > 0, first, second)
                yield second

    @pytest.mark.parametrize("owns", [1, 0], ids=["idle", "without partitions"])
    def test_turns_and_heartbeats_of_a_quiet_member_add_nothing(self, broker: Broker, owns: int) -> None:
        with self.quiet(broker, owns) as consumer:
            heartbeats = Heartbeats(consumer._coordinator)
            assert self.grown(lambda: heartbeats.turn(consumer), times=25) == {}
            assert len(consumer.assignment()) == owns

    # ---- busy members

    def test_records_and_automatic_commits_add_nothing(self, broker: Broker) -> None:
        with self.consuming(broker, broker.new_group(), FULL, owns=2) as consumer:
            consumer.seek_to_end()
            for tp in consumer.assignment():
                consumer.position(tp)

            def read() -> None:
                broker.produce()
                records = 0
                while records < 2:
                    records += sum(map(len, consumer.poll(timeout_ms=TURN_MS).values()))

            assert self.grown(read, times=10) == {}

    def test_commits_in_flight_add_nothing(self, broker: Broker) -> None:
        with self.consuming(broker, broker.new_group(), FULL, owns=2) as consumer:
            assert self.grown(lambda: self.commit_at_once(consumer), times=10) == {}

    # ---- rebalances

    @pytest.mark.parametrize(("kind", "static"), [("cooperative", False), ("eager", True)])
    def test_a_member_that_joins_and_leaves_adds_nothing(
        self, broker: Broker, kind: str, static: bool
    ) -> None:
        group = broker.new_group()

        def visit() -> None:
            with self.consuming(broker, group, FULL, owns=1, kind=kind):
                pass

        instance_id = "one" if static else None
        with (
            ThreadPoolExecutor(1) as thread,
            self.consuming(broker, group, FULL, owns=2, kind=kind, group_instance_id=instance_id) as consumer,
        ):

            def rebalance() -> None:
                visiting = thread.submit(visit)
                polling_until(visiting.done, consumer)
                visiting.result()
                polling_until(lambda: len(consumer.assignment()) == 2, consumer)

            assert self.grown(rebalance, times=4) == {}

    def test_changed_subscriptions_add_nothing(self, broker: Broker) -> None:
        with self.consuming(broker, broker.new_group(), FULL, owns=2) as consumer:

            def owns(count: int) -> None:
                polling_until(lambda: len(consumer.assignment()) == count, consumer)

            nothing = self.listener_that(lambda: None)

            def change() -> None:
                consumer.subscribe([FULL, BESIDES], listener=nothing())
                owns(3)
                consumer.subscribe([FULL], listener=nothing())
                owns(2)
                consumer.unsubscribe()
                consumer.subscribe(pattern=f"^{BESIDES}$")
                owns(1)
                consumer.unsubscribe()

            assert self.grown(change, times=4) == {}

    def listener_that(self, does: Callable[[], None]) -> type[Any]:
        """A class of listeners that do this when partitions are assigned."""

        class Listener(self.listener):  # type: ignore[misc,name-defined]
            def on_partitions_revoked(self, revoked: Any) -> None:
                pass

            def on_partitions_assigned(self, assigned: Any) -> None:
                does()

        return Listener

    def test_a_listener_that_raises_adds_nothing(self, broker: Broker) -> None:
        def fail() -> None:
            raise ValueError("the application's own mistake")

        with self.consuming(broker, broker.new_group(), FULL, owns=2) as consumer:
            consumer.subscribe([FULL], listener=self.listener_that(fail)())

            def rejoin() -> None:
                consumer.enforce_rebalance()
                with pytest.raises(self.kafka_error):
                    polling_until(lambda: False, consumer)

            assert self.grown(rejoin, times=6) == {}

    def test_a_member_that_the_group_removes_adds_nothing(self, broker: Broker) -> None:
        group = broker.new_group()
        with self.consuming(broker, group, FULL, owns=2) as consumer:

            def remove() -> None:
                member_id, _ = self.membership(consumer)
                expel(broker.bootstrap, group, member_id)
                polling_until(
                    lambda: (
                        len(consumer.assignment()) == 2
                        and self.membership(consumer)[0] not in ("", member_id)
                    ),
                    consumer,
                )

            assert self.grown(remove, times=4) == {}

    # ---- errors

    @pytest.mark.parametrize("polls", [True, False], ids=["polled", "not-polled"])
    def test_refused_heartbeats_add_nothing(self, broker: Broker, polls: bool) -> None:
        group = broker.new_group()
        with self.consuming(broker, group, FULL, owns=2, enable_auto_commit=False) as consumer:
            heartbeats = Heartbeats(consumer._coordinator)

            def refused() -> None:
                before = heartbeats.answered
                while heartbeats.answered == before:
                    with contextlib.suppress(self.refused):
                        consumer.poll(timeout_ms=TURN_MS) if polls else time.sleep(TURN_MS / 1000)

            broker.refuse(group)
            try:
                with pytest.raises(self.refused):
                    polling_until(lambda: False, consumer)
                assert self.grown(refused, times=20) == {}
            finally:
                broker.accept(group)

    def test_connections_that_are_reset_add_nothing(self, broker: Broker) -> None:
        client = "to-be-reset"
        settings = {"bootstrap_servers": broker.proxy.bootstrap, "client_id": client}
        with self.consuming(broker, broker.new_group(), FULL, owns=2, **settings) as consumer:
            heartbeats = Heartbeats(consumer._coordinator)

            def reset() -> None:
                assert broker.proxy.connections(client)
                with broker.proxy.fault(Fault(Effect.RESET, clients=frozenset({client}))):
                    pass
                heartbeats.turn(consumer)
                heartbeats.turn(consumer)

            assert self.grown(reset, times=2) == {}

    def test_a_fatal_error_adds_nothing_when_it_is_raised_again(self, broker: Broker) -> None:
        group = broker.new_group()
        one = {"group_instance_id": "one"}
        with (
            self.consuming(broker, group, FULL, owns=2, **one) as fenced,
            self.consuming(broker, group, FULL, owns=2, **one),
        ):

            def poll() -> None:
                with pytest.raises(self.fenced):
                    polling_until(lambda: False, fenced)

            assert self.grown(poll, times=25) == {}

    # ---- whole lives

    @pytest.mark.parametrize("kind", ["cooperative", "eager"])
    def test_consumers_that_were_closed_leave_nothing(self, broker: Broker, kind: str) -> None:
        group = broker.new_group()

        def live() -> None:
            with self.consuming(broker, group, FULL, owns=2, kind=kind):
                pass

        assert self.grown(live, times=3) == {}
