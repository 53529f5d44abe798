"""A Kafka broker on a real socket that responds as its groups define; see the package for how to script it.

The schemas are kafka-python's. A connection belongs to the group whose id is its `client_id`. As in Kafka,
the requests of one connection are answered one by one.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol import consumer, metadata

from compat_tests.scripted.model import Group
from compat_tests.support.hang_limit import HANG_S

VERSIONS: Mapping[str, tuple[int, int]] = {
    "Fetch": (4, 6),
    "ListOffsets": (1, 3),
    "Metadata": (0, 5),
    "OffsetCommit": (2, 7),
    "OffsetFetch": (1, 7),
    "FindCoordinator": (0, 2),
    "JoinGroup": (0, 5),
    "Heartbeat": (0, 3),
    "LeaveGroup": (0, 3),
    "SyncGroup": (0, 3),
    "ApiVersions": (0, 4),
    "OffsetForLeaderEpoch": (0, 2),
}
"""Kafka 2.5, without fetch sessions: the first versions with everything that the consumers need."""

_SCHEMAS = {**vars(consumer), **vars(metadata)}
_REQUESTS = {_SCHEMAS[f"{name}Request"].API_KEY: (name, _SCHEMAS[f"{name}Request"]) for name in VERSIONS}
_RESPONSES = {name: _SCHEMAS[f"{name}Response"] for name in VERSIONS}


@dataclass(frozen=True, slots=True)
class Answer:
    """Replaces the usual response."""


@dataclass(frozen=True, slots=True)
class Code(Answer):
    """An error. The request has no effect.

    An OffsetFetch response can also have its error in the partitions (`in_partitions`).
    """

    error_code: int
    in_partitions: bool = False


@dataclass(frozen=True, slots=True)
class Late(Answer):
    """The usual response, but later."""

    after_s: float


@dataclass(frozen=True, slots=True)
class Held(Answer):
    """The response at the time when the event is set: the usual one, or `then` if it is given."""

    released: asyncio.Event
    then: Answer | None = None


@dataclass(frozen=True, slots=True)
class Never(Answer):
    """No further response on this connection. The request has no effect."""


@dataclass(frozen=True, slots=True)
class Torn(Answer):
    """The request takes effect, but the connection ends after half of the response."""


@dataclass(frozen=True, slots=True)
class Twice(Answer):
    """The usual response, sent twice."""


@dataclass(frozen=True, slots=True)
class Closed(Answer):
    """The connection ends. The request has no effect."""


@dataclass(slots=True)
class Request:
    """A received request.

    Attributes:
        scripted: the answer that replaced the usual response.
        error_code: the error in the response; None if there was no complete response.
        answered: whether the broker has finished with the request.
    """

    api: str
    version: int
    body: Any
    connection: int
    at: float
    scripted: Answer | None = None
    error_code: int | None = None
    answered: bool = False


@dataclass(slots=True)
class _Connection:
    number: int
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    client_id: str = ""


@dataclass
class ScriptedBroker:
    """One broker, node 0, which coordinates all of its groups."""

    versions: Mapping[str, tuple[int, int]] = field(default_factory=lambda: dict(VERSIONS))
    groups: dict[str, Group] = field(default_factory=dict)
    unexpected: list[str] = field(default_factory=list)
    """Failures of this broker itself; a test fails if there are any."""

    async def __aenter__(self) -> ScriptedBroker:
        self._loop = asyncio.get_running_loop()
        self._connections: dict[int, _Connection] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepted = 0
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, backlog=1024)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def group(self, group_id: str, topics: Mapping[str, int], **settings: Any) -> Group:
        """Add a group, and the topics, with their partitions, that its consumer sees."""
        self.groups[group_id] = Group(group_id, dict(topics), self._loop, **settings)
        return self.groups[group_id]

    def connections(self, client_id: str) -> int:
        """The number of open connections of this client."""
        return sum(connection.client_id == client_id for connection in self._connections.values())

    def is_open(self, connection: int) -> bool:
        """Whether the connection with this number is open."""
        return connection in self._connections

    # ---- connections

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._accepted += 1
        connection = _Connection(self._accepted, reader, writer)
        self._connections[connection.number] = connection
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._serve(connection)
        except (asyncio.CancelledError, ConnectionError, asyncio.IncompleteReadError):
            pass
        except Exception as error:
            self.unexpected.append(f"{connection.client_id}: {error!r}")
            raise
        finally:
            self._tasks.discard(task)
            del self._connections[connection.number]
            if (group := self.groups.get(connection.client_id)) is not None:
                group.changed()
            writer.close()

    async def _serve(self, connection: _Connection) -> None:
        requests: asyncio.Queue[bytes | None] = asyncio.Queue()

        async def read() -> None:
            # Reading goes on while a response is held, so that the end of a connection is seen at once.
            try:
                while True:
                    (length,) = struct.unpack(">i", await connection.reader.readexactly(4))
                    requests.put_nowait(await connection.reader.readexactly(length))
            except (ConnectionError, asyncio.IncompleteReadError):
                requests.put_nowait(None)
                answering.cancel()

        async def answer() -> None:
            while (data := await requests.get()) is not None:
                if not await self._answer(connection, data):
                    return

        answering = asyncio.ensure_future(answer())
        reading = asyncio.ensure_future(read())
        try:
            await answering
        finally:
            answering.cancel()
            reading.cancel()

    async def _answer(self, connection: _Connection, data: bytes) -> bool:
        """Answer one request; returns whether the connection goes on."""
        api_key, version = struct.unpack_from(">hh", data)
        name, schema = _REQUESTS[api_key]
        body = schema.decode(data, version=version, header=True)
        connection.client_id = body.header.client_id or ""
        correlation_id = body.header.correlation_id
        group = self.groups.get(connection.client_id)
        if group is None:
            raise LookupError(f"there is no group {connection.client_id!r} for a client of this id")
        request = Request(name, version, body, connection.number, self._loop.time())
        scripted = request.scripted = group.scripted(request)
        group.record(request)
        try:
            if isinstance(scripted, Late):
                await asyncio.sleep(scripted.after_s)
            if isinstance(scripted, Held):
                await scripted.released.wait()
                scripted = scripted.then
            if isinstance(scripted, Closed):
                return False
            if isinstance(scripted, Never):
                request.answered = True
                group.changed()
                await asyncio.Event().wait()
            values: Mapping[str, Any]
            if name == "ApiVersions":
                values = self._api_versions()
            elif isinstance(scripted, Code):
                values = group.refused(request, scripted.error_code, scripted.in_partitions)
            else:
                values = await group.answered(request, self.port)
            if not isinstance(scripted, Torn):
                request.error_code = _error_code(values)
            encoded = _encoded(_RESPONSES[name](**values), version, correlation_id)
            if isinstance(scripted, Torn):
                encoded = encoded[: len(encoded) // 2]
            connection.writer.write(encoded * 2 if isinstance(scripted, Twice) else encoded)
            await connection.writer.drain()
            return not isinstance(scripted, Torn)
        finally:
            request.answered = True
            group.changed()

    def _api_versions(self) -> dict[str, Any]:
        one = metadata.ApiVersionsResponse.ApiVersion
        keys = {name: key for key, (name, _) in _REQUESTS.items()}
        supported = [
            one(api_key=keys[name], min_version=least, max_version=most)
            for name, (least, most) in self.versions.items()
        ]
        return {"api_keys": supported}


def _error_code(values: Mapping[str, Any]) -> int:
    if code := values.get("error_code", 0):
        return int(code)
    partitions = (one for topic in values.get("topics", ()) for one in getattr(topic, "partitions", ()))
    return next((int(one.error_code) for one in partitions if one.error_code), 0)


def _encoded(response: Any, version: int, correlation_id: int) -> bytes:
    response.API_VERSION = version
    response.with_header(correlation_id=correlation_id)
    return bytes(response.encode(header=True, framed=True))


@contextlib.contextmanager
def broker_in_thread(make: Callable[[], ScriptedBroker] = ScriptedBroker) -> Iterator[ScriptedBroker]:
    """A broker whose loop runs on its own thread, for consumers that block."""
    loop, broker = asyncio.new_event_loop(), make()

    def run() -> None:
        loop.run_forever()
        loop.close()

    thread = threading.Thread(target=run, name="scripted-broker", daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(broker.__aenter__(), loop).result(HANG_S)
        yield broker
    finally:
        asyncio.run_coroutine_threadsafe(broker.__aexit__(), loop).result(HANG_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(HANG_S)
