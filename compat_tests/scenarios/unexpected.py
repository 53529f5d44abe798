"""An unexpected error in each part of a cooperative consumer of either client, and a computer that sleeps."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient  # type: ignore[attr-defined]

from compat_tests.scenarios.in_process import InProcess, polling_until, share
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors.rebalance import lease, session
from kafka_assignors.strategies import CooperativeSticky
from kafka_assignors.strategy import MemberContext


class InjectedError(Exception):
    """An error that Kafka does not know."""


class Once:
    """Replaces a function; the first call raises."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.has_raised = False

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        if not self.has_raised:
            self.has_raised = True
            raise InjectedError("injected")
        return self.function(*arguments, **options)

    def __get__(self, owner: Any, kind: Any) -> Callable[..., Any]:
        return lambda *arguments, **options: self(owner, *arguments, **options)


class Announcing(CooperativeSticky):
    """A strategy that sends member data to the leader."""

    name = "announcing"

    def member_data(self, member: MemberContext) -> bytes:
        return b"something"


def members_of(kafka: Kafka, group_id: str) -> int:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    return len(admin.describe_consumer_groups([group_id])[group_id].result(HANG_S).members)


class Reader:
    """Polls, and records the number of records and the errors."""

    def __init__(self, consumer: Any, error: type[Exception]) -> None:
        self._consumer, self._error = consumer, error
        self.read = 0
        self.told: list[str] = []

    def until(self, condition: Callable[[], Any]) -> None:
        deadline = time.monotonic() + HANG_S
        while not condition():
            assert time.monotonic() < deadline
            try:
                self.read += sum(map(len, self._consumer.poll(timeout_ms=50).values()))
            except self._error as error:
                self.told.append(str(error))


class UnexpectedScenarios(InProcess):
    """`requesting`, `watching`, `stock`: the classes of our coordinator, and the client's own below it."""

    requesting: Any
    watching: Any
    stock: Any

    @abstractmethod
    def refresh_metadata(self, consumer: Any) -> None:
        """Request the metadata of the cluster."""

    @abstractmethod
    def hold_requests(self, consumer: Any) -> Callable[[], object]:
        """Hold the requests of the coordinator until the returned function is called."""

    @abstractmethod
    def must_deliver_nothing(self, consumer: Any) -> None:
        """Check that calls for records deliver none of those in the buffer."""

    @abstractmethod
    def open_connections(self, consumer: Any) -> int: ...

    @pytest.mark.parametrize(
        "fault", ["member_data", "join", "lead", "sync", "assigned", "heartbeat", "metadata"]
    )
    def test_an_unexpected_error_is_told_and_the_consumer_goes_on_and_leaves(
        self, kafka: Kafka, monkeypatch: pytest.MonkeyPatch, fault: str
    ) -> None:
        owner, name = {
            "member_data": (Announcing, "member_data"),
            "join": (self.requesting, "join_group"),
            "lead": (self.watching, "remember_topics"),
            "sync": (self.requesting, "sync_group"),
            "assigned": (session, "read_assignment"),
            "heartbeat": (self.requesting, "send_heartbeat"),
            "metadata": (self.stock, "_handle_metadata_update"),
        }[fault]
        self.goes_on_after(kafka, monkeypatch, owner, name)

    def goes_on_after(
        self, kafka: Kafka, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, **settings: Any
    ) -> None:
        """The first call of this function raises; the user is told, and the consumer goes on, and leaves."""
        listener, ours = self.listener(), self.plugin
        strategies = [ours.assignor(Announcing())]
        settings |= {"session_timeout_ms": 45_000, "partition_assignment_strategy": strategies}
        with GroupOfMembers(kafka, self.program, {"orders": 2}) as group:
            group.produce(10)
            with self.consuming(group, listener, **settings) as consumer:
                reader = Reader(consumer, self.kafka_error)
                reader.until(lambda: reader.read)
                once = Once(getattr(owner, name))
                monkeypatch.setattr(owner, name, once)
                consumer.enforce_rebalance()
                if name == "_handle_metadata_update":
                    self.refresh_metadata(consumer)
                reader.until(lambda: once.has_raised)
                reader.until(lambda: reader.told)
                assigned = len(listener.calls)
                consumer.enforce_rebalance()
                reader.until(lambda: len(listener.calls) > assigned)
                before = reader.read
                group.produce(10)
                reader.until(lambda: reader.read > before)
            assert listener.calls[-1] == ("revoked", self.of(group, 0, 1))
            assert members_of(kafka, group.id) == 0
        assert all("injected" in error for error in reader.told)

    def test_a_machine_that_fails_is_told_and_the_consumer_still_tells_its_listener_and_leaves(
        self, kafka: Kafka
    ) -> None:
        def fail(event: Any) -> None:
            raise InjectedError("injected")

        listener = self.listener()
        with GroupOfMembers(kafka, self.program, {"orders": 2}) as group:
            with self.consuming(group, listener) as consumer:
                polling_until(lambda: listener.told("assigned"), consumer)
                consumer._coordinator.handle = fail
                reader = Reader(consumer, self.kafka_error)
                reader.until(lambda: reader.told)
            assert "injected" in reader.told[0]
            assert listener.calls[-1] == ("lost", self.of(group, 0, 1))
            assert members_of(kafka, group.id) == 0

    def test_a_leave_request_that_cannot_be_made_keeps_the_consumer_from_nothing_else(
        self, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        listener, once = self.listener(), Once(self.requesting.leave_group)
        with GroupOfMembers(kafka, self.program, {"orders": 2}) as group:
            with self.consuming(group, listener) as consumer:
                share(group, consumer)
                monkeypatch.setattr(self.requesting, "leave_group", once)
            assert once.has_raised
            assert listener.calls[-1] == ("revoked", self.of(group, 0, 1))
            assert self.open_connections(consumer) == 0

    def test_after_the_computer_has_slept_nothing_is_delivered_until_the_coordinator_has_answered(
        self, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        awake = lease.clock
        with GroupOfMembers(kafka, self.program, {"orders": 1}) as group:
            group.produce(100)
            with self.consuming(group, max_poll_records=1, session_timeout_ms=30_000) as consumer:
                reader = Reader(consumer, self.kafka_error)
                reader.until(lambda: reader.read)  # More records are in the buffer.
                answer = self.hold_requests(consumer)
                monkeypatch.setattr(lease, "clock", lambda: awake() + 90)
                generation = consumer._coordinator._member.membership.generation
                self.must_deliver_nothing(consumer)
                answer()
                before = reader.read
                reader.until(lambda: reader.read > before)
                # The consumer has joined again.
                assert consumer._coordinator._member.membership.generation > generation
