"""The scenes of kafka-python's consumers, which block.

The thread of the scene is in the user's role. Each call runs on a further thread, so that the scene goes on
if the call does not return.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

from kafka import KafkaConsumer
from kafka.future import Future
from kafka.structs import OffsetAndMetadata, TopicPartition

from compat_tests.differential.language import Call
from compat_tests.differential.scene import Scene
from compat_tests.scripted.users import KafkaPythonListener

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


class KafkaPythonScene(Scene):
    ending = ("close", "__exit__")
    stock_protocol = "range"
    partition = TopicPartition
    listener_class = KafkaPythonListener
    own_settings: ClassVar[Mapping[str, Any]] = {
        "session_timeout_ms": 30_000,
        "fetch_max_wait_ms": 100,
    }

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        if self.scenario.state == "owning by pattern":
            self.unobserved.add("subscription")  # A metadata refresh empties it for a moment.

    @staticmethod
    def offset(offset: Any, metadata: Any) -> OffsetAndMetadata:
        return OffsetAndMetadata(offset, metadata, -1)

    # ---- what states are made of

    @property
    def membership(self) -> tuple[str, int]:
        known = self.consumer._coordinator._generation
        return known.member_id, known.generation_id

    def tell(self, what: str, partitions: Any, name: str = "") -> None:
        if not self.must_call(what, partitions, name):
            return
        try:
            seen = self.begin()
            # On the thread of the listener, which cannot wait for the scene.
            for call in self.scenario.calls:
                told = len(self.told)
                said = self._said(partial(self.make, call), only_type=call.only_type)
                seen = self.note(call, said, told, seen)
        finally:
            self.has_called_in_listener = True

    def construct(self, *topics: str, **settings: Any) -> None:
        # The limit of an iteration; like that of other calls, it is longer when a scenario is repeated.
        limit = {"consumer_timeout_ms": int(self.stage.patience_s * 200)}
        self.consumer = self.kind(*topics, **self.settings(**limit | settings))
        self.wire = Wire(self.consumer)

    async def constructed(self, call: Call) -> str:
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
            return await self.outcome(make, only_type=True)
        finally:
            if (net := getattr(made, "_net", None)) is not None:
                net.stop()

    async def start(self) -> None:
        """Its construction has started it."""

    async def read(self) -> Mapping[TopicPartition, list[Any]]:
        return self.consumer.poll(timeout_ms=2 * _LONG_POLL_MS)

    async def read_all(self) -> None:
        # Otherwise the stock consumer may join twice, and hang for good ("No standstill" in the docs).
        self.consumer.partitions_for_topic(self.orders)
        await super().read_all()

    async def polling_until(self, what: Callable[[], object]) -> None:
        await self.until(lambda: what() or not self._poll())

    def _poll(self) -> bool:
        """Poll once, and ignore errors; always returns true."""
        try:
            self.consumer.poll(timeout_ms=_LONG_POLL_MS if self.is_stock else _POLL_MS)
        except Exception:
            time.sleep(_POLL_MS / 1000)
        return True

    # ---- calls

    def given(self, name: str) -> Any:
        match name:
            case "a while":
                return int(self.stage.patience_s * 500)
            case "callback":
                return lambda offsets, outcome: self.told.append(f"committed: {_commit_said(outcome)}")
        return super().given(name)

    def make(self, call: Call) -> Any:
        looks_up = call.method == "commit_async" and self.consumer._coordinator.coordinator_unknown()
        returned = super().make(call)
        return self._awaited(returned, looks_up=looks_up) if isinstance(returned, Future) else returned

    def _awaited(self, future: Any, *, looks_up: bool) -> str:
        """The outcome of a commit. If it looks the coordinator up, its future only covers the lookup."""

        def has_ended() -> bool:
            completed = self.consumer._coordinator.completed_offset_commits
            return bool(future.is_done and (future.exception or completed or not looks_up))

        deadline = time.monotonic() + self.stage.patience_s
        while not has_ended() and time.monotonic() < deadline:
            time.sleep(0.005)
        return _commit_said(future.exception or future.value) if future.is_done else "a future that waits"

    def _said(self, what: Callable[[], Any], *, only_type: bool) -> str:
        try:
            return self.text_of(what(), only_type=only_type)
        except Exception as error:
            return f"raises {type(error).__name__}"

    def begun(self, what: Callable[[], Any], *, only_type: bool) -> asyncio.Future[str]:
        """A call that waits for ever goes on in its thread."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[str] = loop.create_future()

        def make() -> None:
            said = self._said(what, only_type=only_type)
            with contextlib.suppress(RuntimeError):  # The scene is over.
                loop.call_soon_threadsafe(ended.set_result, said)

        threading.Thread(target=make, daemon=True).start()
        return ended

    async def give_up(self, call: asyncio.Future[str]) -> None:
        """It goes on in its thread."""

    def position(self, tp: TopicPartition) -> int | None:
        found = self.consumer._subscription.assignment[tp].position
        return None if found is None else int(found.offset)

    # ---- the end

    async def observe_delivery(self, *, after_join: bool = False) -> None:
        """Observe `then`, except where the stock consumer may or may not deliver records.

        After a subscription to a topic without records it may still deliver some of the earlier topic. After
        polls that ended during a join it may hang for good; ours is compared with the expected result.
        """
        calls = self.scenario.calls
        if not after_join:
            if not any(str(call) == "subscribe(['elsewhere'])" for call in calls):
                self.observe("then", await self.deliver())
        elif not any(call.method in _UNSUBSCRIBING or _changes_topics(call) for call in calls):
            self.observe("then", "delivers" if self.is_stock else await self.deliver())

    async def deliver(self) -> str:
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

        said = await self.outcome(any_record)
        return {"returns True": "delivers", "returns False": "waits"}.get(said, said)

    async def close(self) -> None:
        self._sockets = self._open_sockets()
        await super().close()

    @property
    def close_s(self) -> float:
        return self.stage.patience_s

    def _open_sockets(self) -> list[Any]:
        connections = list(self.consumer._manager._conns.values())
        return [each.transport._sock for each in connections if each.transport is not None]

    def left(self) -> str:
        thread = self.consumer._net._io_thread
        # The client still lists a connection that was not closed.
        sockets = {id(sock): sock for sock in [*self._sockets, *self._open_sockets()] if sock is not None}
        is_open = sum(sock.fileno() >= 0 for sock in sockets.values())
        said = ["the I/O thread"] if thread is not None and thread.is_alive() else []
        return ", ".join([*said, *([f"{is_open} sockets"] if is_open else [])])

    async def clean_up(self) -> None:
        """Close the client's connections that are left."""
        with contextlib.suppress(Exception):
            self.consumer._client.close()


def _commit_said(outcome: Any) -> str:
    return type(outcome).__name__ if isinstance(outcome, Exception) else "done"


def _changes_topics(call: Call) -> bool:
    return len(str(call)) < 60 and (
        "'elsewhere'" in str(call) or "[None]" in str(call) or call.method == "seek"
    )
