"""The scenes of aiokafka's consumers, which run in the event loop of their scene."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, ClassVar

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.structs import OffsetAndMetadata

from compat_tests.differential.calls import UNSENDABLE_SEEK
from compat_tests.differential.language import Call
from compat_tests.differential.scene import HANG_S, Scene
from compat_tests.scripted.users import AioListener


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

    def hold(self, name: str) -> None:
        """Hold requests of this API."""
        self._held[name] = asyncio.Event()

    def let_go(self, name: str) -> None:
        """Send the held requests, and all later ones."""
        self._held.pop(name).set()


class AiokafkaScene(Scene):
    ending = ("stop", "__aexit__")
    stock_protocol = "roundrobin"
    partition = TopicPartition
    offset = OffsetAndMetadata
    listener_class = AioListener
    # A call that waits during a rebalance must not exceed the session or the JoinGroup timeout.
    own_settings: ClassVar[Mapping[str, Any]] = {
        "session_timeout_ms": 120_000,
        "rebalance_timeout_ms": 1_800_000,
        "request_timeout_ms": 1_800_000,
    }

    # ---- what states are made of

    @property
    def membership(self) -> tuple[str, int]:
        return self.consumer._coordinator.member_id, self.consumer._coordinator.generation

    async def tell(self, what: str, partitions: Any, name: str = "") -> None:
        if self.must_call(what, partitions, name):
            performing = asyncio.ensure_future(self.perform())
            performing.add_done_callback(lambda _: setattr(self, "has_called_in_listener", True))
            await asyncio.shield(performing)

    def construct(self, *topics: str, **settings: Any) -> None:
        self._watch_connections()
        self.consumer = self.kind(*topics, **self.settings(**settings))
        self.wire = Wire(self.consumer)

    def _watch_connections(self) -> None:
        """List the connections that are opened in this loop."""
        self._transports: list[asyncio.Transport] = []
        loop = asyncio.get_running_loop()
        connect = loop.create_connection

        async def create_connection(*arguments: Any, **options: Any) -> Any:
            transport, protocol = await connect(*arguments, **options)
            self._transports.append(transport)
            return transport, protocol

        loop.create_connection = create_connection  # type: ignore[method-assign]

    async def constructed(self, call: Call) -> str:
        settings = {"bootstrap_servers": self.stage.kafka.bootstrap, "group_id": self.group, **call.options}
        return await self.outcome(lambda: self.kind(**settings), only_type=True)

    async def start(self) -> None:
        await asyncio.wait_for(self.consumer.start(), HANG_S)

    @contextlib.asynccontextmanager
    async def first_member(self, role: str) -> AsyncIterator[None]:
        """Another consumer of this kind owns the whole topic, which has too few partitions for two."""
        # The stock assignor assigns in the order of the member names: "first", then the consumer.
        first = self.kind(self.stage.topics[role], **self.settings(client_id="first"))
        await asyncio.wait_for(first.start(), HANG_S)
        try:
            yield
        finally:
            await asyncio.wait_for(first.stop(), HANG_S)

    async def read(self) -> Mapping[TopicPartition, list[Any]]:
        return await asyncio.wait_for(self.consumer.getmany(timeout_ms=1000), HANG_S)

    def rejoins(self) -> Callable[[int], Awaitable[None]]:
        """Every lookup of committed offsets follows a JoinGroup, because their order is otherwise random."""
        joins = self.joins()
        self.wire.hold("OffsetFetch")

        async def join(count: int) -> None:
            await joins(count)
            self.wire.let_go("OffsetFetch")

        return join

    async def has_left(self) -> None:
        await super().has_left()
        if self.is_stock:  # The stock consumer calls the listener at once; ours calls it in the next poll.
            await self.until(lambda: self.told[-1].startswith("revoked"))

    # ---- calls

    async def perform(self) -> None:
        fetches = self.wire.sent["Fetch"]
        await super().perform()
        if self.scenario.calls == (UNSENDABLE_SEEK,):
            # The effect shows in the next fetch from there, which waits for a fetch in flight.
            with contextlib.suppress(TimeoutError):
                await self.until(lambda: self.wire.sent["Fetch"] > fetches, self.stage.patience_s)

    def begun(self, what: Callable[[], Any], *, only_type: bool) -> asyncio.Future[str]:
        async def make() -> str:
            try:
                returned = what()
                returned = await returned if isinstance(returned, Awaitable) else returned
            except (Exception, asyncio.CancelledError) as error:
                return f"raises {type(error).__name__}"
            return self.text_of(returned, only_type=only_type)

        return asyncio.ensure_future(make())

    async def give_up(self, call: asyncio.Future[str]) -> None:
        call.cancel()
        await asyncio.wait([call])

    def position(self, tp: TopicPartition) -> int | None:
        found = self.consumer._subscription.subscription.assignment.state_value(tp)._position
        return None if found is None else int(found)

    # ---- the end

    async def deliver(self) -> str:
        async def any_record() -> None:
            for doubling in itertools.count():
                assigned = self.consumer.assignment()
                self.consumer.resume(*assigned)
                for tp in assigned:
                    self.consumer.seek(tp, 0)
                if await self.consumer.getmany(timeout_ms=100 * 2**doubling):
                    return

        # The group may have to rejoin several times first.
        said = await self.outcome(any_record, patience_s=3 * self.stage.patience_s)
        return said.replace("returns None", "delivers")

    def left(self) -> str:
        tasks = Counter(
            str(getattr(task.get_coro(), "__qualname__", task.get_coro())) for task in self._tasks()
        )
        said = [f"{count} {name}" for name, count in sorted(tasks.items())]
        is_open = sum(not transport.is_closing() for transport in self._transports)
        return ", ".join([*said, *([f"{is_open} sockets"] if is_open else [])])

    def _tasks(self) -> list[asyncio.Task[Any]]:
        return [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]

    async def clean_up(self) -> None:
        left = self._tasks()
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        for transport in self._transports:
            transport.abort()
