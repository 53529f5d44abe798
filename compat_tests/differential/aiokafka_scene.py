"""One consumer of aiokafka in one scenario: its requests, its listener calls, and what it leaves behind."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import itertools
import time
import warnings
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from functools import partial
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.structs import OffsetAndMetadata

from compat_tests.differential.calls import UNSENDABLE_SEEK
from compat_tests.differential.holder import Holder, committed, expel
from compat_tests.differential.language import PARTITIONS, RECORDS, Call, Part, Scenario
from compat_tests.differential.scene import HANG_S, HOLDERS_LEAVE_S, Play, Stage
from compat_tests.scripted.users import AioListener

__all__ = ["Scene", "enter", "scene_loop"]

_SCENE: contextvars.ContextVar[Scene | None] = contextvars.ContextVar("scene", default=None)


def scene_loop() -> asyncio.AbstractEventLoop:
    """An event loop that records which scene, directly or indirectly, started a task or a connection."""
    loop = asyncio.new_event_loop()
    connect = loop.create_connection

    def task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        made = asyncio.Task(coroutine, loop=loop, **options)
        if (scene := _SCENE.get()) is not None:
            scene.tasks.add(made)
        return made

    async def create_connection(*arguments: Any, **options: Any) -> Any:
        transport, protocol = await connect(*arguments, **options)
        if (scene := _SCENE.get()) is not None:
            scene.transports.add(transport)
        return transport, protocol

    loop.set_task_factory(task)
    loop.create_connection = create_connection  # type: ignore[method-assign]
    return loop


class Wire:
    """Counts the requests of a consumer, and holds them if the scene requires it."""

    def __init__(self, consumer: AIOKafkaConsumer) -> None:
        self.sent: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self._held: dict[str, asyncio.Event] = {}
        self._send = consumer._client.send
        consumer._client.send = self._count

    async def _count(self, node_id: Any, request: Any, **options: Any) -> Any:
        name = type(request).__name__.partition("Request")[0]
        self.sent[name] += 1
        if name in self._held:
            await self._held[name].wait()
        try:
            return await self._send(node_id, request, **options)
        finally:
            self.answered[name] += 1

    def hold(self, name: str) -> asyncio.Event:
        """Hold requests of this API until the event is set."""
        return self._held.setdefault(name, asyncio.Event())

    def has_sent_since(self, name: str, earlier: int) -> bool:
        """Whether more than `earlier` requests of this API were sent."""
        return self.sent[name] > earlier

    def is_waiting(self, name: str) -> bool:
        return self.sent[name] > self.answered[name]


class Scene(Play):
    """A consumer, from its construction to the check of the resources that it left."""

    ending = ("stop", "__aexit__")
    partition = TopicPartition
    offset = OffsetAndMetadata

    def __init__(self, stage: Stage, kind: type[AIOKafkaConsumer], scenario: Scenario, number: int) -> None:
        protocol = "roundrobin" if kind is AIOKafkaConsumer else "cooperative-sticky"
        super().__init__(stage, kind, scenario, number, protocol=protocol)
        self.tasks: weakref.WeakSet[asyncio.Task[Any]] = weakref.WeakSet()
        self.transports: weakref.WeakSet[Any] = weakref.WeakSet()
        self.listener = AioListener(self._told)
        self.in_revoked: Callable[[set[TopicPartition]], Awaitable[None]] | None = None
        self.stopping: asyncio.Future[Any] | None = None

    async def _told(self, what: str, partitions: Any, name: str = "") -> None:
        """Record a call of the listener, and run the state's action in its first revocation."""
        self.told.append(f"{name}{what} {self.names.text(partitions)}")
        if what == "revoked" and self.in_revoked is not None and partitions:
            action, self.in_revoked = self.in_revoked, None
            await action(partitions)

    # ---- what states are made of

    def construct(self, *topics: str, **settings: Any) -> None:
        self.consumer = self._made(*topics, **settings)
        self.wire = Wire(self.consumer)

    def _made(self, *topics: str, **settings: Any) -> Any:
        return self.kind(
            *topics,
            **{
                "bootstrap_servers": self.stage.kafka.bootstrap,
                "group_id": self.group,
                "client_id": "member",
                "auto_offset_reset": "earliest",
                "enable_auto_commit": False,
                "heartbeat_interval_ms": 100,
                # A call that waits during a rebalance must not exceed the session or the JoinGroup timeout.
                "session_timeout_ms": 120_000,
                "rebalance_timeout_ms": 1_800_000,
                "request_timeout_ms": 1_800_000,
                "max_poll_interval_ms": 600_000,
                "metadata_max_age_ms": 1_000,
                "retry_backoff_ms": 20,
                **settings,
            },
        )

    @contextlib.asynccontextmanager
    async def first_member(self, role: str) -> AsyncIterator[None]:
        """Another consumer of this kind owns the whole topic, which has too few partitions for two."""
        # The stock assignor assigns in the order of the member names: "first", then the consumer.
        first = self._made(self.stage.topics[role], client_id="first")
        await self.within(first.start())
        try:
            yield
        finally:
            await self.within(first.stop())

    async def constructed(self, call: Call) -> str:
        """The outcome of a construction."""

        async def make() -> AIOKafkaConsumer:
            return self.kind(
                **{"bootstrap_servers": self.stage.kafka.bootstrap, "group_id": self.group, **call.options}
            )

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            return await self.outcome(make(), only_type=True)

    async def own(self, *topics: str, **settings: Any) -> None:
        """Own all of `orders`, and read all records."""
        self.construct(**settings)
        self.consumer.subscribe(list(topics) or [self.orders], listener=self.listener)
        await self.consumer.start()
        await self.read_all()

    async def read_all(self) -> None:
        wanted = dict.fromkeys(map(self._partition, map(Part, range(PARTITIONS))), RECORDS)
        await self.until(lambda: self.consumer.assignment() >= wanted.keys())
        read: Counter[TopicPartition] = Counter()
        while read != Counter(wanted):
            for tp, records in (await self.within(self.consumer.getmany(timeout_ms=1000))).items():
                read[tp] += len(records)
                assert read[tp] <= RECORDS, read

    def _partition(self, part: Part) -> TopicPartition:
        return self.resolve(part)

    @contextlib.asynccontextmanager
    async def held_by(self, *holders: Holder) -> AsyncIterator[None]:
        """These members join one after the other, and leave together at the end of the block."""
        loop = asyncio.get_running_loop()
        for holder in holders:
            holder.__enter__()
        try:
            yield
        finally:
            leaving = [loop.run_in_executor(None, holder.__exit__, None, None, None) for holder in holders]
            await asyncio.wait(leaving, timeout=max(HOLDERS_LEAVE_S, self.stage.patience_s))
            for holder in holders:
                holder.abandon()
            await asyncio.gather(*leaving)

    async def expel(self) -> None:
        """Remove the consumer from its group."""
        who = self.stage.kafka.bootstrap, self.group, self.consumer._coordinator.member_id
        await asyncio.get_running_loop().run_in_executor(None, expel, *who)

    async def settled_beside(self, holder: Holder) -> None:
        """Wait until the consumer and the holder share a generation, and each partition has a position."""
        await asyncio.get_running_loop().run_in_executor(None, holder.wait_until_assigned)
        await self.until(
            lambda: (
                self.consumer._coordinator.generation == holder.assignments[-1].generation
                and self.told[-1].startswith("assigned")
                and self.consumer.assignment()
                and all(self.position(tp) is not None for tp in self.consumer.assignment())
            )
        )

    def hold_lookups_until_join(self) -> Callable[[int], Awaitable[None]]:
        """Make every lookup of committed offsets follow a JoinGroup, because their order is otherwise random.

        Returns a function that waits until `count` JoinGroup requests were sent.
        """
        sent, lookups = self.wire.sent["JoinGroup"], self.wire.hold("OffsetFetch")

        async def join(count: int) -> None:
            await self.until(lambda: self.wire.sent["JoinGroup"] >= sent + count)
            lookups.set()

        return join

    async def until(self, what: Callable[[], object], hang_s: float = HANG_S) -> None:
        deadline = time.monotonic() + hang_s
        while not what():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.scenario}: {self.kind.__name__} did not get there")
            await asyncio.sleep(0.01)

    async def within(self, what: Awaitable[Any]) -> Any:
        return await asyncio.wait_for(what, HANG_S)

    # ---- calls

    def given(self, name: str) -> Any:
        if name == "another listener":
            return AioListener(partial(self._told, name="another: "))
        return super().given(name)

    async def perform(self) -> None:
        """Make the calls, and observe each."""
        seen = self.begin()
        for call in self.scenario.calls:
            told, fetches = len(self.told), self.wire.sent["Fetch"]
            seen = self.note(call, await self._result(call), told, seen)
            if call == UNSENDABLE_SEEK:
                # The effect shows in the next fetch from there, which waits for a fetch in flight.
                with contextlib.suppress(TimeoutError):
                    await self.until(
                        partial(self.wire.has_sent_since, "Fetch", fetches), self.stage.patience_s
                    )

    async def _result(self, call: Call) -> str:
        arguments = [self.resolve(argument) for argument in call.arguments]
        options = {name: self.resolve(value) for name, value in call.options.items()}

        async def make() -> Any:
            returned = getattr(self.consumer, call.method)(*arguments, **options)
            return await returned if isinstance(returned, Awaitable) else returned

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            return await self.outcome(make(), only_type=call.only_type, ends=call.method in self.ending)

    async def outcome(
        self,
        what: Awaitable[Any],
        *,
        only_type: bool = False,
        ends: bool = False,
        patience_s: float | None = None,
    ) -> str:
        """The result or the error of a call, or that it waits.

        A waiting call is cancelled, unless it `ends` the consumer.
        """
        task = asyncio.ensure_future(what)
        done, _ = await asyncio.wait([task], timeout=patience_s or self.stage.patience_s)
        if not done and ends:
            self.stopping = task
            return "waits"
        if not done:
            task.cancel()
            await asyncio.wait([task])
            return "waits"
        return self._said(task, only_type=only_type)

    def _said(self, task: asyncio.Future[Any], *, only_type: bool = False) -> str:
        if task.cancelled():
            return "raises CancelledError"
        if (error := task.exception()) is not None:
            return f"raises {type(error).__name__}"
        return self.text_of(task.result(), only_type=only_type)

    def position(self, tp: TopicPartition) -> int | None:
        found = self.consumer._subscription.subscription.assignment.state_value(tp)._position
        return None if found is None else int(found)

    # ---- the end

    async def deliver(self) -> str:
        """Whether the consumer delivers records, once no partition is paused."""

        async def any_record() -> None:
            for doubling in itertools.count():
                assigned = self.consumer.assignment()
                self.consumer.resume(*assigned)
                for tp in assigned:
                    self.consumer.seek(tp, 0)
                if await self.consumer.getmany(timeout_ms=100 * 2**doubling):
                    return

        self.observed.setdefault(self.scenario.end, {})
        # The group may have to rejoin several times first.
        said = await self.outcome(any_record(), patience_s=3 * self.stage.patience_s)
        return said.replace("returns None", "delivers")

    async def close(self) -> None:
        told = len(self.told)
        if self.stopping is None:
            self.observe("close", await self.outcome(self.consumer.stop(), patience_s=HANG_S))
        else:
            await asyncio.wait([self.stopping], timeout=HANG_S)
            self.observe("close", self._said(self.stopping) if self.stopping.done() else "waits")
        if self.scenario.calls[-1].method in self.ending:
            self.observe("listener at close", self.told_since(told))

    async def look_around(self) -> None:
        """Observe the resources that are left, after a time in which they may end."""
        deadline = time.monotonic() + self.stage.patience_s
        while (left := self._left()) and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        self.observe("left", left or "nothing")

    async def clean_up(self) -> None:
        """End the tasks and connections that are left."""
        left = [task for task in self.tasks if not task.done() and task is not asyncio.current_task()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        for transport in self.transports:
            transport.abort()

    def _left(self) -> str:
        mine = asyncio.current_task()
        tasks = sorted(_name(task) for task in self.tasks if not task.done() and task is not mine)
        open_sockets = sum(not transport.is_closing() for transport in self.transports)
        return ", ".join([*_counted(tasks), *([f"{open_sockets} sockets"] if open_sockets else [])])

    async def look_up_committed(self) -> None:
        """Observe the group's committed offsets, as read by another client."""
        found = await asyncio.to_thread(committed, self.stage.kafka, self.group)
        self.observe("committed", self.by_partition(found))


def enter(scene: Scene) -> None:
    """Everything that this task starts from here on belongs to the scene."""
    _SCENE.set(scene)


def _name(task: asyncio.Task[Any]) -> str:
    return str(getattr(task.get_coro(), "__qualname__", task.get_coro()))


def _counted(names: Iterable[str]) -> list[str]:
    return [f"{count} {name}" for name, count in sorted(Counter(names).items())]
