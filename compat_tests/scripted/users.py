"""Consumers of both clients with a user that polls them all the time, behind one asynchronous interface."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import aiokafka
import kafka
import pytest

from compat_tests.scripted.broker import ScriptedBroker
from compat_tests.scripted.model import Group
from compat_tests.support.hang_limit import HANG_S, hang_limit
from compat_tests.support.told_listener import ToldListener
from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer
from kafka_assignors_kafka_python import CooperativeKafkaConsumer

TOPIC = "orders"
_ENOUGH = 3
"""A consumer that raises the same error this often without delivering a record counts as fatally failed."""


def name_of(outcome: object) -> str:
    """The name of a call's outcome: "ok" or the type of the error."""
    return type(outcome).__name__ if isinstance(outcome, BaseException) else "ok"


def settings_of(broker: ScriptedBroker, group: Group, **settings: Any) -> dict[str, Any]:
    """The settings of a consumer of the group."""
    return {
        "bootstrap_servers": broker.bootstrap,
        "group_id": group.id,
        "client_id": group.id,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "heartbeat_interval_ms": 250,
        "session_timeout_ms": 45_000,  # Longer than a busy machine stalls.
        "retry_backoff_ms": 20,
        **settings,
    }


class User:
    """A consumer, and the user that polls it.

    Attributes:
        subscribes: the arguments of `subscribe`, without the listener.
        listener_of: makes the listener, of a function that it calls; a type of listener.
        raised: the errors raised by calls for records, in order.
        delivered: the number of delivered records.
        listened: the listener calls with partitions: "assigned", "revoked", "lost".
        told: the same calls with the numbers of their partitions.
        wrongly_told: the calls that the broker's view of the membership at that moment contradicts.
        held, held_after: the listener calls that wait to be `released`, before or after their commit.
        commits: the outcomes of the listener's commits, which it makes in the calls `commit_when`.
        polls: set while the user polls; a user that does not poll exceeds the poll interval.
    """

    def __init__(self, broker: ScriptedBroker, group: Group, client: str, **settings: Any) -> None:
        self.loop = asyncio.get_running_loop()
        self.broker, self.group = broker, group
        self.settings = settings_of(broker, group, **settings)
        self.subscribes: Mapping[str, Any] = {"topics": [TOPIC]}
        self.listener_of: Callable[[Any], Any] = AioListener if client == "aiokafka" else KafkaPythonListener
        self.raised: list[BaseException] = []
        self.delivered = 0
        self.listened: list[str] = []
        self.told: list[tuple[str, list[int]]] = []
        self.wrongly_told: list[str] = []
        self.commits: list[str] = []
        self.held: set[str] = set()
        self.commit_when: set[str] = set()
        self.held_after: set[str] = set()
        self.entered = asyncio.Event()
        self.released = asyncio.Event()
        self.polls = asyncio.Event()
        self.polls.set()
        self._rests = asyncio.Event()
        self.is_closed = False
        self.client: _AioClient | _KafkaPythonClient = CLIENTS[client](self)
        self._polling: asyncio.Task[None] | None = None
        self.partition = (aiokafka if client == "aiokafka" else kafka).TopicPartition

    async def start(self) -> None:
        """Start the consumer, and begin to poll."""
        await self.client.start()
        self._polling = asyncio.ensure_future(self._poll())

    async def _poll(self) -> None:
        while True:
            self._rests.set()
            await self.polls.wait()
            self._rests.clear()
            try:
                records = await self.client.poll()
            except Exception as error:
                if self.polls.is_set():
                    self.raised.append(error)
                await asyncio.sleep(0.02)
            else:
                self.delivered += sum(map(len, records.values()))
            self.group.changed()

    async def rest(self) -> None:
        """Poll no more; returns when no poll is under way."""
        self.polls.clear()
        await self._rests.wait()

    @property
    def is_fatal(self) -> bool:
        """Whether all calls raise the same error."""
        last = self.raised[-_ENOUGH:]
        return len(last) == _ENOUGH and len({type(one) for one in last}) == 1

    async def consumes(self, more: int = 1) -> bool:
        """Wait until this many more records were delivered; False if the consumer only raises."""
        enough = self.delivered + more
        await self.group.until(lambda: self.delivered >= enough or self.is_fatal)
        return self.delivered >= enough

    async def call(self, method: str, *arguments: Any) -> str:
        """Call a method of the consumer; returns "ok" or the type of the error."""
        try:
            return name_of(await self.client.call(method, *arguments))
        except Exception as error:
            return name_of(error)

    async def close(self) -> None:
        """Close the consumer, once; errors of a pending poll are ignored."""
        if self.is_closed:
            return
        self.is_closed = True
        self.polls.clear()
        await self.client.close()
        if self._polling is not None:
            self._polling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._polling

    async def hear(self, what: str, partitions: Iterable[Any]) -> None:
        """Note a call of the listener, and judge it by what the broker knows."""
        self.listened.append(what)
        self.told.append((what, sorted(one.partition for one in partitions)))
        if (what == "revoked") != bool(self.group.member_id) and what != "assigned":
            self.wrongly_told.append(f"{what}, as {self.group.member_id or 'no member'}")
        self.group.changed()
        if what in self.held:
            self.entered.set()
            await self.released.wait()

    async def end_of(self, what: str) -> None:
        """The listener has committed, if it does so in this call."""
        if what in self.held_after:
            self.entered.set()
            await self.released.wait()


class TellingListener(ToldListener):
    """Calls `told` with what it is told, and the partitions; for aiokafka it is a coroutine function."""

    def __init__(self, told: Callable[[str, Any], Any]) -> None:
        self._told = told


class AioListener(TellingListener, aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]  # no types
    pass


class KafkaPythonListener(TellingListener, kafka.ConsumerRebalanceListener):  # type: ignore[misc]  # no types
    pass


class _AioClient:
    def __init__(self, user: User) -> None:
        self._user = user

    @functools.cached_property
    def consumer(self) -> Any:
        return CooperativeAIOKafkaConsumer(**self._user.settings)

    async def constructed(self) -> Any:
        return self.consumer

    async def start(self) -> None:
        await self.consumer.start()
        self._subscribe()

    def _subscribe(self) -> None:
        self.consumer.subscribe(**self._user.subscribes, listener=self._user.listener_of(self._told))

    async def poll(self) -> Mapping[Any, Any]:
        found: Mapping[Any, Any] = await self.consumer.getmany(timeout_ms=100)
        return found

    async def call(self, method: str, *arguments: Any) -> Any:
        if method == "subscribe":
            return self._subscribe()
        called = getattr(self.consumer, method)(*arguments)
        return await called if asyncio.iscoroutine(called) else called

    async def _told(self, what: str, partitions: Any) -> None:
        user = self._user
        if not partitions:
            return
        await user.hear(what, partitions)
        if what in user.commit_when:
            user.commits.append(await user.call("commit", dict.fromkeys(partitions, 5)))
        await user.end_of(what)

    async def close(self) -> None:
        await self.consumer.stop()

    def leftovers(self) -> str:
        coordinator = self.consumer._coordinator
        tasks = [task for task in coordinator._actions_under_way if not task.done()]
        return f"tasks: {tasks}" if tasks else ""


class _KafkaPythonClient:
    def __init__(self, user: User) -> None:
        self._user = user
        self._thread = ThreadPoolExecutor(1)
        self.consumer: Any = None
        self._io_thread: threading.Thread | None = None

    def _run(self, function: Callable[..., Any], *arguments: Any) -> Coroutine[Any, Any, Any]:
        async def run() -> Any:
            return await self._user.loop.run_in_executor(self._thread, function, *arguments)

        return run()

    def _commit(self, partitions: Iterable[Any], offset: int = 5) -> None:
        offsets = {tp: kafka.OffsetAndMetadata(offset, "", -1) for tp in partitions}
        self.consumer.commit(offsets)

    def _told(self, what: str, partitions: Any) -> None:
        user = self._user
        if not partitions:
            return
        self._wait_for(user.hear(what, partitions))
        if what in user.commit_when:
            try:
                self._commit(partitions)
                user.commits.append("ok")
            except Exception as error:
                user.commits.append(name_of(error))
        self._wait_for(user.end_of(what))

    def _wait_for(self, what: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(what, self._user.loop).result(HANG_S)

    def _subscribe(self) -> None:
        self.consumer.subscribe(**self._user.subscribes, listener=self._user.listener_of(self._told))

    async def constructed(self) -> Any:
        self.consumer = await self._run(lambda: CooperativeKafkaConsumer(**self._user.settings))
        self._io_thread = self.consumer._coordinator._net._io_thread
        return self.consumer

    async def start(self) -> None:
        await self.constructed()
        await self._run(self._subscribe)

    async def poll(self) -> Mapping[Any, Any]:
        found: Mapping[Any, Any] = await self._run(lambda: self.consumer.poll(timeout_ms=100))
        return found

    async def call(self, method: str, *arguments: Any) -> Any:
        if method == "subscribe":
            return await self._run(self._subscribe)
        if method == "commit":
            return await self._run(self._commit, *arguments)
        return await self._run(getattr(self.consumer, method), *arguments)

    async def close(self) -> None:
        await self._run(self.consumer.close)
        self._thread.shutdown(wait=False)

    def leftovers(self) -> str:
        thread = self._io_thread
        return f"thread: {thread.name}" if thread is not None and thread.is_alive() else ""


CLIENTS: Mapping[str, type[_AioClient | _KafkaPythonClient]] = {
    "aiokafka": _AioClient,
    "kafka-python": _KafkaPythonClient,
}


@contextlib.asynccontextmanager
async def consuming(
    client: str, *, of_group: Mapping[str, Any] | None = None, consumes: int = 4, **settings: Any
) -> AsyncIterator[tuple[User, Group]]:
    """A user who has consumed records, in a group on a broker of its own, which must not fail.

    With `consumes=0`, the consumer is not started.
    """
    async with ScriptedBroker() as broker:
        group = broker.group("group", **{"topics": {TOPIC: 4}, **(of_group or {})})
        user = User(broker, group, client, **settings)
        async with hang_limit():
            try:
                if consumes:
                    await user.start()
                    assert await user.consumes(consumes)
                yield user, group
            finally:
                await user.close()
        assert broker.unexpected == []


def each_client(
    *clients: str, of_group: Mapping[str, Any] | None = None, consumes: int = 4, **settings: Any
) -> Callable[[Callable[..., Awaitable[None]]], Callable[..., None]]:
    """Make a scene with a user who is `consuming` a test of these clients, or of both.

    The scene gets `user` and `group`, and what else it names: `client`, fixtures, and parameters.
    """

    def made(scene: Callable[..., Awaitable[None]]) -> Callable[..., None]:
        names = inspect.signature(scene).parameters

        @pytest.mark.parametrize("client", clients or CLIENTS)
        @functools.wraps(scene)
        def test(client: str, **given: Any) -> None:
            if "client" in names:
                given["client"] = client

            async def run() -> None:
                async with consuming(client, of_group=of_group, consumes=consumes, **settings) as played:
                    await scene(*played, **given)

            asyncio.run(run())

        others = [each for name, each in names.items() if name not in ("user", "group", "client")]
        own = inspect.Parameter("client", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        test.__signature__ = inspect.Signature([own, *others])  # type: ignore[attr-defined]
        return test

    return made
