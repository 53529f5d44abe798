"""A proxy in front of one broker that counts the requests of clients, by client id.

The broker must advertise the proxy's port, or clients bypass the proxy as soon as they have the metadata:

    with counted_kafka() as (kafka, counter):
        ...
        counter.requests("leader", METADATA)
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType

from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka, KafkaCluster, free_ports

__all__ = ["METADATA", "CountedRequest", "RequestCounter", "counted_kafka"]

METADATA = 3
"""The api key of Metadata requests."""


@dataclass(frozen=True, slots=True)
class CountedRequest:
    """`at` is the time of the monotonic clock in seconds; `size` is the request's size in bytes."""

    at: float
    size: int


class RequestCounter:
    """Listens on a loopback port from entering the context to leaving it."""

    def __init__(self, host: str, port: int) -> None:
        """Forward requests to the broker on this port, which may start later."""
        self._broker = (host, port)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._lock = threading.Lock()
        self._seen: dict[tuple[str, int], list[CountedRequest]] = collections.defaultdict(list)

    def __enter__(self) -> RequestCounter:
        self._thread.start()
        starting = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._serve, "127.0.0.1", 0), self._loop
        )
        self._server = starting.result(HANG_S)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(HANG_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(HANG_S)
        self._loop.close()

    def requests(self, client_id: str, api_key: int) -> list[CountedRequest]:
        """The requests of this kind that this client has sent so far, in order."""
        with self._lock:
            return list(self._seen[client_id, api_key])

    async def _end(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            from_broker, to_broker = await asyncio.open_connection(*self._broker)
        except OSError:
            writer.close()
            return
        with contextlib.closing(writer), contextlib.closing(to_broker):
            back = asyncio.create_task(_copy(from_broker, writer))
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                while True:
                    length = await reader.readexactly(4)
                    request = await reader.readexactly(*struct.unpack(">i", length))
                    self._count(request)
                    to_broker.write(length + request)
                    await to_broker.drain()
            back.cancel()

    def _count(self, request: bytes) -> None:
        # Api key, api version, correlation id, and then the client id as a nullable string.
        api_key, _, _, length = struct.unpack_from(">hhih", request)
        client_id = request[10 : 10 + max(length, 0)].decode(errors="replace")
        with self._lock:
            self._seen[client_id, api_key].append(CountedRequest(time.monotonic(), len(request)))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while some := await reader.read(1 << 16):
            writer.write(some)
            await writer.drain()
    writer.close()


@contextlib.contextmanager
def counted_kafka(**settings: object) -> Iterator[tuple[Kafka, RequestCounter]]:
    """A broker with these settings, and a counter of all its clients' requests."""
    ports = free_ports(2)
    with RequestCounter("127.0.0.1", ports[0]) as counter:
        address = f"127.0.0.1:{counter.port}"
        advertised = {"advertised.listeners": f"PLAINTEXT://{address}"}
        with KafkaCluster(settings={**advertised, **settings}, ports=lambda _: ports):
            yield Kafka(address), counter
