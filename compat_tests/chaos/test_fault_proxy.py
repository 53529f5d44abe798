"""The bytes that pass through the proxy, on sockets that speak only request headers of Kafka."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import struct
import threading
import time
from collections.abc import Iterator

import pytest

from compat_tests.support.fault_proxy import Effect, Fault, FaultProxy
from compat_tests.support.hang_limit import HANG_S, wait_for

METADATA, HEARTBEAT = 3, 12


def request(api_key: int, client: str, body: bytes = b"a body") -> bytes:
    name = client.encode()
    content = struct.pack(">hhih", api_key, 0, 1, len(name)) + name + body
    return struct.pack(">i", len(content)) + content


class Echo(socketserver.ThreadingTCPServer):
    """Returns the bytes that it receives, and keeps them."""

    daemon_threads = True
    received = b""


class Connection(socketserver.BaseRequestHandler):
    server: Echo

    def handle(self) -> None:
        with contextlib.suppress(OSError):
            while data := self.request.recv(4096):
                self.server.received += data
                self.request.sendall(data)


@pytest.fixture
def echo() -> Iterator[Echo]:
    with Echo(("127.0.0.1", 0), Connection) as server:
        threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def proxy(echo: Echo) -> Iterator[FaultProxy]:
    with FaultProxy() as running:
        running.forward(1, echo.server_address[1])
        yield running


def connect(proxy: FaultProxy) -> socket.socket:
    host, port = proxy.bootstrap.split(":")
    return socket.create_connection((host, int(port)), HANG_S)


def answers(connection: socket.socket, sent: bytes) -> bool:
    """Whether the request is echoed."""
    connection.sendall(sent)
    return received(connection, len(sent)) == sent


def received(connection: socket.socket, size: int) -> bytes:
    """The next bytes; fewer if the connection ends before."""
    with connection.makefile("rb", buffering=0) as reader:
        found = b""
        while more := reader.read(size - len(found)):
            found += more
    return found


def is_silent(connection: socket.socket, timeout_s: float = 0.3) -> bool:
    """Whether neither bytes nor the end of the connection arrive."""
    connection.settimeout(timeout_s)
    try:
        connection.recv(1)
    except TimeoutError:
        return True
    finally:
        connection.settimeout(HANG_S)
    return False


def test_a_black_hole_swallows_without_a_reset_and_never_comes_back_to_life(
    proxy: FaultProxy, echo: Echo
) -> None:
    with connect(proxy) as connection:
        assert answers(connection, request(METADATA, "a"))
        before = echo.received
        with proxy.fault(Fault(Effect.SWALLOW)):
            connection.sendall(request(METADATA, "a"))
            assert is_silent(connection)
        connection.sendall(request(METADATA, "a"))
        assert is_silent(connection)
        assert echo.received == before
        assert proxy.connections(swallowed=True) == 1
        with connect(proxy) as another:
            assert answers(another, request(METADATA, "a"))
    wait_for("the end of the black hole", lambda: proxy.connections(swallowed=True) == 0)


def test_proxy_delivers_held_bytes_when_the_fault_ends(proxy: FaultProxy, echo: Echo) -> None:
    with connect(proxy) as connection:
        sent = request(METADATA, "a")
        with proxy.fault(Fault(Effect.HOLD)):
            connection.sendall(sent)
            assert is_silent(connection)
            assert echo.received == b""
        assert received(connection, len(sent)) == sent


def test_held_bytes_of_a_connection_that_was_reset_are_dropped(proxy: FaultProxy, echo: Echo) -> None:
    """A system drops what it has not sent when a program resets the connection, and retransmits no more."""
    with connect(proxy) as connection, connect(proxy) as other:
        assert answers(connection, request(METADATA, "a"))
        before = echo.received
        with proxy.fault(Fault(Effect.HOLD, clients=frozenset({"a"}))):
            connection.sendall(request(METADATA, "a"))
            assert is_silent(connection)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
            assert answers(other, request(METADATA, "b"))
        wait_for("the end of the connection", lambda: proxy.connections("a") == 0)
        assert echo.received == before + request(METADATA, "b")


def test_slow_bytes_come_late_and_all_of_them(proxy: FaultProxy) -> None:
    sent = request(METADATA, "a", bytes(2000))
    with connect(proxy) as connection, proxy.fault(Fault(Effect.SLOW, latency_s=0.1, bytes_per_s=20_000)):
        begin = time.monotonic()
        assert answers(connection, sent)
        assert time.monotonic() - begin > 2 * (0.1 + len(sent) / 20_000)


def test_a_reset_ends_open_connections_and_new_ones(proxy: FaultProxy) -> None:
    with connect(proxy) as connection:
        assert answers(connection, request(METADATA, "a"))
        with proxy.fault(Fault(Effect.RESET)):
            with pytest.raises(ConnectionResetError):
                connection.recv(1)
            with connect(proxy) as another:
                another.sendall(request(METADATA, "a"))
                with pytest.raises(ConnectionResetError):
                    another.recv(1)
        with connect(proxy) as another:
            assert answers(another, request(METADATA, "a"))


def test_a_fault_concerns_the_client_the_broker_and_the_kind_of_connection_that_it_names(
    proxy: FaultProxy,
) -> None:
    with connect(proxy) as heartbeats, connect(proxy) as fetches, connect(proxy) as other:
        assert answers(heartbeats, request(HEARTBEAT, "a"))
        assert answers(fetches, request(METADATA, "a"))
        assert answers(other, request(HEARTBEAT, "b"))
        with proxy.fault(Fault(Effect.SWALLOW, clients=frozenset({"a"}), broker=2)):
            assert answers(heartbeats, request(HEARTBEAT, "a"))
        with proxy.fault(Fault(Effect.SWALLOW, clients=frozenset({"a"}), broker=1, coordinator_only=True)):
            assert answers(fetches, request(METADATA, "a"))
            assert answers(other, request(HEARTBEAT, "b"))
            heartbeats.sendall(request(HEARTBEAT, "a"))
            assert is_silent(heartbeats)
