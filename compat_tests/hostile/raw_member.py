"""A group member without a client library: it joins with exactly the given bytes.

    with RawMember(kafka.bootstrap, "group", metadata=b"\\x00\\x03\\x7f…", client_id="mallory") as mallory:
        mallory.wait_until_assigned()

No client library sends such requests, so this module encodes them itself: FindCoordinator v1, JoinGroup v5,
SyncGroup v3, Heartbeat v3 and LeaveGroup v3, according to the schemas in
`clients/src/main/resources/common/message` of Apache Kafka.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from dataclasses import dataclass

from compat_tests.support.hang_limit import HANG_S, wait_for

_FIND_COORDINATOR, _JOIN_GROUP, _HEARTBEAT = (10, 1), (11, 5), (12, 3)
_LEAVE_GROUP, _SYNC_GROUP = (13, 3), (14, 3)

_COORDINATOR_ERRORS = (14, 15, 16)
"""The coordinator loads the group, is not available yet, or has moved."""

_ILLEGAL_GENERATION, _UNKNOWN_MEMBER, _REBALANCE_IN_PROGRESS = 22, 25, 27
_MEMBER_ID_REQUIRED = 79

_HEARTBEAT_INTERVAL_S = 0.2
_COORDINATOR_PAUSE_S = 0.1
_JOIN_ATTEMPTS = 50


def int16(value: int) -> bytes:
    return struct.pack(">h", value)


def int32(value: int) -> bytes:
    return struct.pack(">i", value)


def string(value: bytes) -> bytes:
    return int16(len(value)) + value


_NULL = int16(-1)


def _text(value: str) -> bytes:
    return string(value.encode())


def _bytes(value: bytes) -> bytes:
    return int32(len(value)) + value


class RawMemberError(RuntimeError):
    """The broker refused a request; `code` is Kafka's error code."""

    def __init__(self, request: str, code: int) -> None:
        super().__init__(f"{request} was refused with error {code}")
        self.code = code


class _Response:
    """The rest of a response, read from the front."""

    def __init__(self, payload: bytes) -> None:
        self._left = memoryview(payload)

    def int16(self) -> int:
        (value,) = struct.unpack(">h", self._take(2))
        return int(value)

    def int32(self) -> int:
        (value,) = struct.unpack(">i", self._take(4))
        return int(value)

    def int64(self) -> int:
        (value,) = struct.unpack(">q", self._take(8))
        return int(value)

    def text(self) -> str | None:
        length = self.int16()
        return None if length < 0 else bytes(self._take(length)).decode()

    def bytes_(self) -> bytes:
        return bytes(self._take(self.int32()))

    def _take(self, length: int) -> memoryview:
        taken, self._left = self._left[:length], self._left[length:]
        return taken


class RawConnection:
    """A socket on which each request is answered before the next one is sent."""

    def __init__(self, host: str, port: int, client_id: str) -> None:
        self._socket = socket.create_connection((host, port), HANG_S)
        self._client_id = client_id

    def close(self) -> None:
        self._socket.close()

    def shut_down(self) -> None:
        """Close the connection from another thread, even while a request waits."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def ask(self, api: tuple[int, int], body: bytes) -> _Response:
        key, version = api
        request = int16(key) + int16(version) + int32(0) + _text(self._client_id) + body
        self._socket.sendall(_bytes(request))
        (length,) = struct.unpack(">i", self._read(4))
        response = _Response(self._read(length))
        response.int32()  # The correlation id; there is only one request at a time.
        return response

    def _read(self, length: int) -> bytes:
        read = bytearray()
        while len(read) < length:
            some = self._socket.recv(length - len(read))
            if not some:
                raise ConnectionError("the broker closed the connection")
            read += some
        return bytes(read)


@dataclass(frozen=True, slots=True)
class RawAssignment:
    generation: int
    leader: str
    member_id: str
    assignment: bytes


def commit_offset(bootstrap: str, group: str, topic: str, offset: int) -> None:
    """Commit for partition 0 without a member: OffsetCommit v3, with which a broker accepts an empty id."""
    host, port = bootstrap.split(",")[0].rsplit(":", 1)
    partition = int32(0) + struct.pack(">q", offset) + string(b"")
    topics = int32(1) + _text(topic) + int32(1) + partition
    body = _text(group) + int32(-1) + string(b"") + struct.pack(">q", -1) + topics

    def is_committed() -> bool:
        connection.ask(_FIND_COORDINATOR, _text("any") + b"\0")  # it creates the offsets topic
        response = connection.ask((8, 3), body)
        response.int32(), response.int32(), response.text(), response.int32(), response.int32()
        if (code := response.int16()) and code not in _COORDINATOR_ERRORS:
            raise RawMemberError("OffsetCommit", code)
        return not code

    with contextlib.closing(RawConnection(host, int(port), "committer")) as connection:
        wait_for("the commit", is_committed)


class RawMember:
    """A member from entering the context to leaving it; it rejoins when the group rebalances.

    As leader it gives itself the bytes `assignment`, and the others nothing.

    Its thread ends when the broker refuses a request and a rejoin does not help; `error` then has the reason.
    """

    def __init__(
        self,
        bootstrap: str,
        group: str,
        *,
        metadata: bytes,
        client_id: str,
        protocol: str = "sticky",
        session_timeout_ms: int = 30_000,
        rebalance_timeout_ms: int = 30_000,
        assignment: bytes | None = None,
    ) -> None:
        host, port = bootstrap.split(",")[0].rsplit(":", 1)
        self._bootstrap = (host, int(port))
        self._group = group
        self._metadata = metadata
        self._client_id = client_id
        self._protocol = protocol
        self._session_timeout_ms = session_timeout_ms
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._assignment = assignment
        self._member_id = ""
        self._stop = threading.Event()
        self._changed = threading.Condition()
        self._assignments: list[RawAssignment] = []
        self.error: Exception | None = None

    def __enter__(self) -> RawMember:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(HANG_S)

    @property
    def assignments(self) -> list[RawAssignment]:
        """The assignments of the member, generation by generation."""
        with self._changed:
            return list(self._assignments)

    def wait_until_assigned(self, timeout_s: float = HANG_S) -> RawAssignment:
        """Wait for an assignment, and return the last one; raises the member's error, or TimeoutError."""
        with self._changed:
            self._changed.wait_for(lambda: self._assignments or self.error, timeout_s)
            if self._assignments:
                return self._assignments[-1]
        raise self.error or TimeoutError(f"{self._client_id} was not assigned anything in {timeout_s:.0f} s")

    def _run(self) -> None:
        deadline = time.monotonic() + HANG_S
        while True:
            try:
                self._live()
                return
            except (OSError, RawMemberError) as error:
                # A new cluster may name a broker as coordinator before it is ready.
                again = isinstance(error, RawMemberError) and error.code in _COORDINATOR_ERRORS
                if not again or self._stop.wait(_COORDINATOR_PAUSE_S) or time.monotonic() > deadline:
                    with self._changed:
                        self.error = error
                        self._changed.notify_all()
                    return

    def _live(self) -> None:
        connection = self._coordinator()
        with contextlib.closing(connection):
            for _ in range(_JOIN_ATTEMPTS):
                if self._stop.is_set() or not self._join(connection):
                    break
                self._stay(connection)
            self._leave(connection)

    def _coordinator(self) -> RawConnection:
        def found() -> RawConnection | None:
            with contextlib.closing(RawConnection(*self._bootstrap, self._client_id)) as connection:
                response = connection.ask(_FIND_COORDINATOR, _text(self._group) + b"\0")
            response.int32()
            code, _, _ = response.int16(), response.text(), response.int32()
            host, port = response.text(), response.int32()
            if code and code not in _COORDINATOR_ERRORS:
                raise RawMemberError("FindCoordinator", code)
            return None if code else RawConnection(host or "", port, self._client_id)

        return wait_for("a coordinator", found)

    def _join(self, connection: RawConnection) -> bool:
        """Join until there is an assignment; False if the test ends before."""
        for _ in range(_JOIN_ATTEMPTS):
            if self._stop.is_set():
                return False
            response = connection.ask(
                _JOIN_GROUP,
                _text(self._group)
                + int32(self._session_timeout_ms)
                + int32(self._rebalance_timeout_ms)
                + _text(self._member_id)
                + _NULL
                + _text("consumer")
                + int32(1)
                + _text(self._protocol)
                + _bytes(self._metadata),
            )
            response.int32()
            code, generation, _ = response.int16(), response.int32(), response.text()
            leader, member_id = response.text() or "", response.text() or ""
            if code == _MEMBER_ID_REQUIRED:
                self._member_id = member_id
                continue
            if code == _UNKNOWN_MEMBER:
                self._member_id = ""
                continue
            if code:
                raise RawMemberError("JoinGroup", code)
            self._member_id = member_id
            sent = int32(0)
            if self._assignment is not None and leader == member_id:
                sent = int32(1) + _text(member_id) + _bytes(self._assignment)
            synced = connection.ask(_SYNC_GROUP, self._of_generation(generation) + sent)
            synced.int32()
            code, assignment = synced.int16(), synced.bytes_()
            if code == 0:
                with self._changed:
                    self._assignments.append(RawAssignment(generation, leader, member_id, assignment))
                    self._changed.notify_all()
                return True
            if code not in (_REBALANCE_IN_PROGRESS, _ILLEGAL_GENERATION, _UNKNOWN_MEMBER):
                raise RawMemberError("SyncGroup", code)
        raise RawMemberError("SyncGroup", _REBALANCE_IN_PROGRESS)

    def _stay(self, connection: RawConnection) -> None:
        """Send heartbeats until the group rebalances or the test ends."""
        generation = self._assignments[-1].generation
        while not self._stop.wait(_HEARTBEAT_INTERVAL_S):
            response = connection.ask(_HEARTBEAT, self._of_generation(generation))
            response.int32()
            code = response.int16()
            if code in (_REBALANCE_IN_PROGRESS, _ILLEGAL_GENERATION, _UNKNOWN_MEMBER):
                return
            if code:
                raise RawMemberError("Heartbeat", code)

    def _leave(self, connection: RawConnection) -> None:
        connection.ask(_LEAVE_GROUP, _text(self._group) + int32(1) + _text(self._member_id) + _NULL)

    def _of_generation(self, generation: int) -> bytes:
        return _text(self._group) + int32(generation) + _text(self._member_id) + _NULL
