"""One consumer of kafka-python in one scenario: its requests, its listener calls, and what it leaves behind.

A scene runs on its own thread, in the user's role. Each call runs on a further thread, so that the scene goes
on if the call does not return.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from kafka import KafkaConsumer
from kafka.future import Future
from kafka.structs import OffsetAndMetadata, TopicPartition

from compat_tests.differential.holder import Holder, committed, expel
from compat_tests.differential.language import PARTITIONS, RECORDS, Call, Part, Scenario
from compat_tests.differential.scene import HANG_S, HOLDERS_LEAVE_S, Play, Stage
from compat_tests.scripted.users import KafkaPythonListener

__all__ = ["Scene"]

_POLL_MS, _LONG_POLL_MS = 50, 1_500
"""The stock consumer may hang for good when a poll ends during a join, so its polls are long."""

_UNSUBSCRIBING = ("assign", "unsubscribe", "close", "__exit__")


class Wire:
    """Counts the requests of a consumer, and holds them if the scene requires it."""

    def __init__(self, consumer: KafkaConsumer) -> None:
        self.sent: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self._held: dict[str, list[Callable[[], None]]] = {}
        self._manager = consumer._manager
        self._send = self._manager.send
        self._manager.send = self._count

    def _count(self, request: Any, *arguments: Any, **options: Any) -> Any:
        name = type(request).__name__.partition("Request")[0]
        self.sent[name] += 1
        if name not in self._held:
            return self._send(request, *arguments, **options).add_both(lambda _: self.answered.update([name]))
        answer = Future()

        def send() -> None:
            sending = self._send(request, *arguments, **options)
            sending.add_callback(answer.success)
            sending.add_errback(answer.failure)

        self._held[name].append(send)
        return answer.add_both(lambda _: self.answered.update([name]))

    def hold(self, name: str) -> None:
        """Hold requests of this API."""
        self._held[name] = []

    def let_go(self, name: str) -> None:
        """Send the held requests."""
        for send in self._held.pop(name):
            self._manager.call_soon(send)


class Scene(Play):
    """A consumer, from its construction to the check of the resources that it left."""

    ending = ("close", "__exit__")
    partition = TopicPartition

    def __init__(self, stage: Stage, kind: type[KafkaConsumer], scenario: Scenario, number: int) -> None:
        protocol = "range" if kind is KafkaConsumer else "cooperative-sticky"
        super().__init__(stage, kind, scenario, number, protocol=protocol)
        self.listener = KafkaPythonListener(self._told)
        self.in_revoked: Callable[[set[TopicPartition]], None] | None = None
        self.closing: tuple[threading.Thread, list[str]] | None = None

    @staticmethod
    def offset(offset: Any, metadata: Any) -> OffsetAndMetadata:
        return OffsetAndMetadata(offset, metadata, -1)

    def _told(self, what: str, partitions: Any, name: str = "") -> None:
        """Record a call of the listener, and run the state's action in its first revocation."""
        self.told.append(f"{name}{what} {self.names.text(set(partitions))}")
        if what == "revoked" and self.in_revoked is not None and partitions:
            action, self.in_revoked = self.in_revoked, None
            action(partitions)

    # ---- what states are made of

    def settings(self, **settings: Any) -> dict[str, Any]:
        return {
            "bootstrap_servers": self.stage.kafka.bootstrap,
            "group_id": self.group,
            "client_id": "member",
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "heartbeat_interval_ms": 100,
            "session_timeout_ms": 30_000,
            "max_poll_interval_ms": 600_000,
            "metadata_max_age_ms": 1_000,
            "retry_backoff_ms": 20,
            "fetch_max_wait_ms": 100,
            "consumer_timeout_ms": 200,
            **settings,
        }

    def construct(self, *topics: str, **settings: Any) -> None:
        self.consumer = self.kind(*topics, **self.settings(**settings))
        self.wire = Wire(self.consumer)

    def constructed(self, call: Call) -> str:
        """The outcome of a construction.

        A constructor of kafka-python that fails or waits leaves its I/O thread behind, which looks for a
        broker for 30 s and logs an error in the midst of a later test. So the thread is stopped here.
        """
        made = self.kind.__new__(self.kind)

        def make() -> object:
            made.__init__(**self.settings(**call.options))
            made.close(autocommit=False)
            return made

        try:
            return self.outcome(make, only_type=True)
        finally:
            if (net := getattr(made, "_net", None)) is not None:
                net.stop()

    def own(self, **settings: Any) -> None:
        """Own all of `orders`, and read all records."""
        self.construct(**settings)
        self.consumer.subscribe([self.orders], listener=self.listener)
        self.read_all()

    def read_all(self) -> None:
        wanted = {self.resolve(Part(number)): RECORDS for number in range(PARTITIONS)}
        read: Counter[TopicPartition] = Counter()
        # Otherwise the stock consumer may join twice, and hang for good ("No standstill" in the docs).
        self.consumer.partitions_for_topic(self.orders)

        def everything() -> bool:
            for tp, records in self.consumer.poll(timeout_ms=2 * _LONG_POLL_MS).items():
                read[tp] += len(records)
                assert read[tp] <= RECORDS, read
            return read == Counter(wanted)

        self.until(everything)

    @contextlib.contextmanager
    def held_by(self, *holders: Holder) -> Iterator[None]:
        """These members join one after the other, and leave together at the end of the block."""
        for holder in holders:
            holder.__enter__()
        try:
            yield
        finally:
            for holder in holders:
                holder.ask_to_end()
            leaving = [threading.Thread(target=holder.__exit__, args=(None,) * 3) for holder in holders]
            for thread in leaving:
                thread.start()
            deadline = time.monotonic() + max(HOLDERS_LEAVE_S, self.stage.patience_s)
            while any(thread.is_alive() for thread in leaving):
                self._poll()
                if time.monotonic() > deadline:
                    for holder in holders:
                        holder.abandon()

    def _poll(self) -> bool:
        """Poll once, and ignore errors; always returns true."""
        try:
            self.consumer.poll(timeout_ms=self._poll_ms)
        except Exception:
            time.sleep(_POLL_MS / 1000)
        return True

    def settled_beside(self, holder: Holder) -> None:
        """Poll until the consumer and the holder share a generation, and each partition has a position."""

        def settled() -> bool:
            self.consumer.poll(timeout_ms=self._poll_ms)
            assigned = self.consumer.assignment()
            return bool(
                holder.assignments
                and self.consumer._coordinator._generation.generation_id == holder.assignments[-1].generation
                and self.told[-1].startswith("assigned")
                and assigned
                and all(self.position(tp) is not None for tp in assigned)
            )

        self.until(settled)

    @property
    def _poll_ms(self) -> int:
        return _LONG_POLL_MS if self.is_stock else _POLL_MS

    def poll_until(self, what: Callable[[], object]) -> None:
        """Poll until the condition is true; it is checked before each poll."""
        self.until(lambda: what() or not self._poll())

    def expel(self) -> None:
        """Remove the consumer from its group."""
        expel(self.stage.kafka.bootstrap, self.group, self.consumer._coordinator._generation.member_id)

    def until(self, what: Callable[[], object]) -> None:
        deadline = time.monotonic() + HANG_S
        while not what():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.scenario}: {self.kind.__name__} did not get there")
            time.sleep(0.01)

    # ---- calls

    def given(self, name: str) -> Any:
        match name:
            case "another listener":
                return KafkaPythonListener(partial(self._told, name="another: "))
            case "a while":
                return int(self.stage.patience_s * 500)
            case "callback":
                return lambda offsets, outcome: self.told.append(f"committed: {self._said(outcome)}")
        return super().given(name)

    def perform(self, *, here: bool = False) -> None:
        """Make the calls, and observe each: `here`, or on a thread that may be left waiting."""
        seen = self.begin()
        for call in self.scenario.calls:
            told = len(self.told)
            seen = self.note(call, self._result(call, here=here), told, seen)

    def _result(self, call: Call, *, here: bool) -> str:
        arguments = [self.resolve(argument) for argument in call.arguments]
        options = {name: self.resolve(value) for name, value in call.options.items()}

        def make() -> Any:
            looks_up = call.method == "commit_async" and self.consumer._coordinator.coordinator_unknown()
            attribute = getattr(self.consumer, call.method)
            returned = attribute(*arguments, **options) if callable(attribute) else attribute
            return self._awaited(returned, looks_up=looks_up) if isinstance(returned, Future) else returned

        return self.outcome(make, only_type=call.only_type, here=here, ends=call.method in self.ending)

    def _awaited(self, future: Any, *, looks_up: bool) -> str:
        """The outcome of a commit. If it looks the coordinator up, its future only covers the lookup."""

        def has_ended() -> bool:
            completed = self.consumer._coordinator.completed_offset_commits
            return bool(future.is_done and (future.exception or completed or not looks_up))

        deadline = time.monotonic() + self.stage.patience_s
        while not has_ended() and time.monotonic() < deadline:
            time.sleep(0.005)
        return self._said(future.exception or future.value) if future.is_done else "a future that waits"

    def _said(self, outcome: Any) -> str:
        return type(outcome).__name__ if isinstance(outcome, Exception) else "done"

    def outcome(
        self, what: Callable[[], Any], *, only_type: bool = False, here: bool = False, ends: bool = False
    ) -> str:
        """The result or the error of a call, or that it waits; a waiting call goes on in its thread."""
        said: list[str] = []

        def make() -> None:
            try:
                said.append(self.text_of(what(), only_type=only_type))
            except Exception as error:
                said.append(f"raises {type(error).__name__}")

        if here:
            make()
            return said[0]
        thread = threading.Thread(target=make, daemon=True)
        thread.start()
        thread.join(self.stage.patience_s)
        if thread.is_alive() and ends:
            self.closing = thread, said
        return said[0] if said else "waits"

    def position(self, tp: TopicPartition) -> int | None:
        found = self.consumer._subscription.assignment[tp].position
        return None if found is None else int(found.offset)

    # ---- the end

    def observe_delivery(self) -> None:
        """Observe `then`, except after a subscription to a topic without records.

        After such a subscription, the stock consumer may or may not deliver records of the earlier topic.
        """
        if not any(str(call) == "subscribe(['elsewhere'])" for call in self.scenario.calls):
            self.observe("then", self.deliver())

    def observe_delivery_after_join(self) -> None:
        """Observe `then` after polls that ended during a join.

        The stock consumer may hang for good in this case, so ours is compared with the expected result.
        """
        if not any(call.method in _UNSUBSCRIBING or _changes_topics(call) for call in self.scenario.calls):
            self.observe("then", "delivers" if self.is_stock else self.deliver())

    def deliver(self) -> str:
        """Whether the consumer delivers records, once no partition is paused."""
        deadline = time.monotonic() + self.stage.patience_s

        def any_record() -> bool:
            for doubling in itertools.count():
                if time.monotonic() > deadline:
                    break
                assigned = self.consumer.assignment()
                self.consumer.resume(*assigned)
                for tp in assigned:
                    self.consumer.seek(tp, 0)
                if self.consumer.poll(timeout_ms=_POLL_MS * 2**doubling):
                    return True
            return False

        said = self.outcome(any_record)
        return {"returns True": "delivers", "returns False": "waits"}.get(said, said)

    def close(self) -> None:
        told = len(self.told)
        self._sockets = self._open_sockets()
        if self.closing is None:
            self.observe("close", self.outcome(self.consumer.close))
        else:
            thread, said = self.closing
            thread.join(HANG_S)
            self.observe("close", said[0] if said else "waits")
        if self.scenario.calls[-1].method in self.ending:
            self.observe("listener at close", self.told_since(told))

    def look_around(self) -> None:
        """Observe the resources that are left, after a time in which they may end."""
        deadline = time.monotonic() + self.stage.patience_s
        while (left := self._left()) and time.monotonic() < deadline:
            time.sleep(0.02)
        self.observe("left", left or "nothing")

    def _open_sockets(self) -> list[Any]:
        connections = list(self.consumer._manager._conns.values())
        return [each.transport._sock for each in connections if each.transport is not None]

    def _left(self) -> str:
        thread = self.consumer._net._io_thread
        # The client still lists a connection that was not closed.
        sockets = {id(sock): sock for sock in [*self._sockets, *self._open_sockets()] if sock is not None}
        is_open = sum(sock.fileno() >= 0 for sock in sockets.values())
        said = ["the I/O thread"] if thread is not None and thread.is_alive() else []
        return ", ".join([*said, *([f"{is_open} sockets"] if is_open else [])])

    def clean_up(self) -> None:
        """Close the client's connections that are left."""
        with contextlib.suppress(Exception):
            self.consumer._client.close()

    def look_up_committed(self) -> None:
        """Observe the group's committed offsets, as read by another client."""
        self.observe("committed", self.by_partition(committed(self.stage.kafka, self.group)))


def _changes_topics(call: Call) -> bool:
    return len(str(call)) < 60 and (
        "'elsewhere'" in str(call) or "[None]" in str(call) or call.method == "seek"
    )
