"""A proxy between clients and brokers that swallows, holds back, slows down or resets the bytes it forwards.

    with FaultProxy() as proxy, KafkaCluster(brokers=3, proxy=proxy) as kafka:
        consumer = KafkaConsumer(bootstrap_servers=proxy.bootstrap, client_id="a")
        with proxy.fault(Fault(Effect.SWALLOW, clients=frozenset({"a"}), coordinator_only=True)):
            ...

Each broker advertises a port of the proxy on a separate listener (see `KafkaCluster`). Clients therefore
reach every broker through the proxy, and brokers reach each other directly.

The proxy reads the header of each request. The client id tells whose connection it is, and the API key tells
whether the connection leads to the group's coordinator. A fault takes effect with the next bytes.

The proxy runs an event loop on its own thread. It forwards whole requests, and chunks of responses.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import math
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from compat_tests.support.hang_limit import HANG_S

_CHUNK_BYTES = 65536

_HEADER = struct.Struct(">hhih")
"""API key, API version, correlation id and the length of the client id."""

_GROUP_REQUESTS = frozenset({8, 9, 11, 12, 13, 14, 28})
"""OffsetCommit, OffsetFetch, JoinGroup, Heartbeat, LeaveGroup, SyncGroup and TxnOffsetCommit."""

_T = TypeVar("_T")


class Direction(enum.Flag):
    TO_BROKER = enum.auto()
    TO_CLIENT = enum.auto()
    BOTH = TO_BROKER | TO_CLIENT


class Effect(enum.Enum):
    """What happens to bytes.

    A connection that has lost bytes stays a black hole after the fault has ended, until the client closes it.
    The client does not learn that the broker closes such a connection. A new connection works.
    """

    SWALLOW = "swallow"
    """The bytes are lost, without a reset."""
    HOLD = "hold"
    """The bytes wait until the fault ends and are delivered then, as in a network that retransmits: not those
    of a sender that has reset its connection meanwhile."""
    SLOW = "slow"
    """The bytes are delayed by `latency_s` plus their number divided by `bytes_per_s`."""
    RESET = "reset"
    """The connection is reset (RST), also if it was open when the fault began."""


@dataclass(frozen=True, slots=True)
class Fault:
    """An effect, and the connections that it applies to."""

    effect: Effect
    direction: Direction = Direction.BOTH
    clients: frozenset[str] | None = None
    """Client ids; None for all clients."""
    broker: int | None = None
    """None for all brokers."""
    coordinator_only: bool = False
    """Only connections that have carried a request to a group coordinator."""
    latency_s: float = 0.0
    bytes_per_s: float = math.inf

    def concerns(self, connection: _Connection) -> bool:
        """Whether the fault applies to this connection."""
        return (
            (self.clients is None or connection.client in self.clients)
            and self.broker in (None, connection.broker)
            and (connection.is_to_coordinator or not self.coordinator_only)
        )


class _Connection:
    def __init__(
        self, broker: int, client_writer: asyncio.StreamWriter, broker_writer: asyncio.StreamWriter
    ) -> None:
        self.broker = broker
        self.client: str | None = None
        self.is_to_coordinator = False
        self.swallowed = Direction(0)
        """The directions in which bytes were lost."""
        self._writers = (client_writer, broker_writer)

    async def next_request(self, reader: asyncio.StreamReader) -> bytes:
        """The next request, after a look at its header; empty at the end of the stream."""
        try:
            size = await reader.readexactly(4)
            request = await reader.readexactly(int.from_bytes(size, "big"))
        except asyncio.IncompleteReadError:
            return b""
        api_key, _, _, length = _HEADER.unpack_from(request)
        self.client = request[_HEADER.size : _HEADER.size + max(0, length)].decode(errors="replace")
        self.is_to_coordinator |= api_key in _GROUP_REQUESTS
        return size + request

    def is_reset_by_sender(self, direction: Direction) -> bool:
        client, broker = self._writers
        return (client if direction is Direction.TO_BROKER else broker).transport.is_closing()

    def reset(self) -> None:
        for writer in self._writers:
            found = writer.get_extra_info("socket")
            with contextlib.suppress(OSError):
                found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()

    def close(self) -> None:
        for writer in self._writers:
            writer.close()


class FaultProxy:
    """The proxy. It runs from entering the context to leaving it; leaving it resets the connections."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-proxy", daemon=True)
        self._servers: dict[int, asyncio.Server] = {}
        self._ports: dict[int, int] = {}
        self._targets: dict[int, int] = {}
        self._faults: list[Fault] = []
        self._change = asyncio.Event()
        """Set, and replaced, when a fault has ended."""
        self._connections: set[_Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def __enter__(self) -> FaultProxy:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._shut_down())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(HANG_S)
        self._loop.close()

    @property
    def bootstrap(self) -> str:
        """`host:port` of the proxy for each broker, separated by commas."""
        return ",".join(f"127.0.0.1:{port}" for port in self._ports.values())

    def forward(self, broker: int, port: int) -> int:
        """Forward connections for this broker to this port on loopback; returns the port of the proxy.

        The port of the proxy stays the same when the broker gets another port later.
        """
        self._targets[broker] = port
        if broker not in self._ports:
            self._ports[broker] = self._run(self._listen(broker))
        return self._ports[broker]

    @contextlib.contextmanager
    def fault(self, fault: Fault) -> Iterator[None]:
        """Apply this fault while the block runs."""
        self._run(self._begin(fault))
        try:
            yield
        finally:
            self._run(self._end(fault))

    def connections(self, client: str | None = None, *, swallowed: bool = False) -> int:
        """The number of connections open on the client's side; of one client, or only black holes."""

        async def count() -> int:
            return sum(
                client in (None, one.client) and (bool(one.swallowed) or not swallowed)
                for one in self._connections
            )

        return self._run(count())

    def _run(self, call: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(call, self._loop).result(HANG_S)

    # ---- on the loop

    async def _listen(self, broker: int) -> int:
        async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            try:
                await self._serve(broker, reader, writer)
            except asyncio.CancelledError:
                pass  # The proxy shuts down; asyncio would log the error.
            finally:
                self._tasks.discard(task)

        server = await asyncio.start_server(accepted, "127.0.0.1", 0, limit=_CHUNK_BYTES)
        self._servers[broker] = server
        return int(server.sockets[0].getsockname()[1])

    async def _shut_down(self) -> None:
        for server in self._servers.values():
            server.close()
        for connection in self._connections:
            connection.reset()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _begin(self, fault: Fault) -> None:
        self._faults.append(fault)
        if fault.effect is Effect.RESET:
            for connection in self._connections:
                if fault.concerns(connection):
                    connection.reset()

    async def _end(self, fault: Fault) -> None:
        self._faults.remove(fault)
        self._change.set()
        self._change = asyncio.Event()

    async def _serve(self, broker: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            broker_reader, broker_writer = await asyncio.open_connection(
                "127.0.0.1", self._targets[broker], limit=_CHUNK_BYTES
            )
        except OSError:
            writer.transport.abort()  # The client sees a port without a listener.
            return
        connection = _Connection(broker, writer, broker_writer)
        self._connections.add(connection)
        pumps = [
            asyncio.create_task(self._pump(connection, *ends))
            for ends in (
                (Direction.TO_BROKER, partial(connection.next_request, reader), broker_writer),
                (Direction.TO_CLIENT, partial(broker_reader.read, _CHUNK_BYTES), writer),
            )
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            from_client, _ = pumps
            if connection.swallowed & Direction.TO_CLIENT:
                # The client must not learn that the broker has closed the connection.
                await asyncio.wait([from_client])
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            self._connections.discard(connection)
            connection.close()

    async def _pump(
        self,
        connection: _Connection,
        direction: Direction,
        read: Callable[[], Awaitable[bytes]],
        writer: asyncio.StreamWriter,
    ) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await read():
                if await self._passes(connection, direction, len(data)):
                    writer.write(data)
                    try:
                        await writer.drain()
                    except ConnectionError:
                        if not connection.swallowed & Direction.TO_CLIENT:
                            raise
            # The end of the stream must not overtake the bytes before it.
            await self._passes(connection, direction, 0)

    async def _passes(self, connection: _Connection, direction: Direction, size: int) -> bool:
        """Wait as long as the faults demand; returns whether the bytes go on."""
        while True:
            faults = [one for one in self._faults if direction in one.direction and one.concerns(connection)]
            effects = {one.effect for one in faults}
            if Effect.RESET in effects:
                connection.reset()
                raise ConnectionResetError
            if Effect.SWALLOW in effects or direction in connection.swallowed:
                connection.swallowed |= direction
                return False
            if Effect.HOLD not in effects:
                await asyncio.sleep(sum(one.latency_s + size / one.bytes_per_s for one in faults))
                return True
            await self._change.wait()
            if connection.is_reset_by_sender(direction):
                raise ConnectionResetError
