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

from compat_tests.support.hang_limit import HANG_S, wait_for
from kafka_assignors_replay.history.consumer_offsets import RecordReader

_FIND_COORDINATOR, _JOIN_GROUP, _HEARTBEAT = (10, 1), (11, 5), (12, 3)
_LEAVE_GROUP, _SYNC_GROUP, _OFFSET_COMMIT = (13, 3), (14, 3), (8, 3)

COORDINATOR_ERRORS = (14, 15, 16)
"""The coordinator loads the group, is not available yet, or has moved."""

_ILLEGAL_GENERATION, _UNKNOWN_MEMBER, REBALANCE_IN_PROGRESS = 22, 25, 27
_MEMBER_ID_REQUIRED = 79
_REJOIN = (_ILLEGAL_GENERATION, _UNKNOWN_MEMBER, REBALANCE_IN_PROGRESS)

_HEARTBEAT_INTERVAL_S = 0.2
_COORDINATOR_PAUSE_S = 0.1


def int16(value: int) -> bytes:
    return struct.pack(">h", value)


def int32(value: int) -> bytes:
    return struct.pack(">i", value)


def string(value: str) -> bytes:
    return int16(len(value.encode())) + value.encode()


def _bytes(value: bytes) -> bytes:
    return int32(len(value)) + value


_NULL = int16(-1)


class RawMemberError(RuntimeError):
    """The broker refused a request; `code` is Kafka's error code."""

    def __init__(self, request: str, code: int) -> None:
        super().__init__(f"{request} was refused with error {code}")
        self.code = code


class RawConnection:
    """A socket on which each request is answered before the next one is sent."""

    def __init__(self, host: str, port: int, client_id: str) -> None:
        self._socket = socket.create_connection((host, port), HANG_S)
        self._answers = self._socket.makefile("rb")
        self._client_id = client_id

    def close(self) -> None:
        self._answers.close()
        self._socket.close()

    def shut_down(self) -> None:
        """Close the connection from another thread, even while a request waits."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def ask(self, api: tuple[int, int], body: bytes) -> RecordReader:
        """The response after its correlation id; there is only one request at a time."""
        key, version = api
        self._socket.sendall(_bytes(int16(key) + int16(version) + int32(0) + string(self._client_id) + body))
        size = int.from_bytes(self._answers.read(4), "big")
        response = self._answers.read(size)
        if not size or len(response) < size:
            raise ConnectionError("the broker closed the connection")
        return RecordReader(response[4:], f"response of API {key}")

    def ask_for_code(self, api: tuple[int, int], body: bytes) -> tuple[int, RecordReader]:
        """The error code of a response that begins with its throttle time, and what follows."""
        response = self.ask(api, body)
        response.int32("throttle_time_ms")
        return response.int16("error_code"), response


def _connect(bootstrap: str, client_id: str) -> RawConnection:
    host, port = bootstrap.split(",")[0].rsplit(":", 1)
    return RawConnection(host, int(port), client_id)


def commit_offset(bootstrap: str, group: str, topic: str, offset: int) -> None:
    """Commit for partition 0 without a member: OffsetCommit v3, with which a broker accepts an empty id."""
    partition = int32(0) + struct.pack(">q", offset) + string("")
    topics = int32(1) + string(topic) + int32(1) + partition
    body = string(group) + int32(-1) + string("") + struct.pack(">q", -1) + topics

    def is_committed() -> bool:
        connection.ask(_FIND_COORDINATOR, string("any") + b"\0")  # it creates the offsets topic
        response = connection.ask(_OFFSET_COMMIT, body)
        # The code of the only partition comes last.
        response.raw("all before", response.remaining - 2)
        if (code := response.int16("error_code")) and code not in COORDINATOR_ERRORS:
            raise RawMemberError("OffsetCommit", code)
        return not code

    with contextlib.closing(_connect(bootstrap, "committer")) as connection:
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
        self._bootstrap = bootstrap
        self._group = group
        self._metadata = metadata
        self._client_id = client_id
        self._protocol = protocol
        self._session_timeout_ms = session_timeout_ms
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._assignment = assignment
        self._member_id = ""
        self._stop = threading.Event()
        self.generations: list[int] = []
        """The generations in which the member was assigned something, or nothing."""
        self.error: Exception | None = None

    def __enter__(self) -> RawMember:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(HANG_S)

    def wait_until_assigned(self) -> None:
        """Wait for an assignment; raises the member's error, or TimeoutError."""
        wait_for(f"an assignment of {self._client_id}", lambda: self.generations or self.error)
        if self.error is not None and not self.generations:
            raise self.error

    def _run(self) -> None:
        deadline = time.monotonic() + HANG_S
        while not self._stop.is_set():
            try:
                with contextlib.closing(self._coordinator()) as connection:
                    while not self._stop.is_set():
                        if self._join(connection):
                            self._stay(connection)
                    self._leave(connection)
            except (OSError, RawMemberError) as error:
                # A new cluster may name a broker as coordinator before it is ready.
                if getattr(error, "code", None) not in COORDINATOR_ERRORS or time.monotonic() > deadline:
                    self.error = error
                    return
                self._stop.wait(_COORDINATOR_PAUSE_S)

    def _coordinator(self) -> RawConnection:
        def found() -> RawConnection | None:
            with contextlib.closing(_connect(self._bootstrap, self._client_id)) as connection:
                code, response = connection.ask_for_code(_FIND_COORDINATOR, string(self._group) + b"\0")
            response.nullable_string("error_message")
            response.int32("node_id")
            host, port = response.string("host"), response.int32("port")
            if code and code not in COORDINATOR_ERRORS:
                raise RawMemberError("FindCoordinator", code)
            return None if code else RawConnection(host, port, self._client_id)

        return wait_for("a coordinator", found)

    def _join(self, connection: RawConnection) -> bool:
        """Join once; whether there is an assignment."""
        code, response = connection.ask_for_code(
            _JOIN_GROUP,
            string(self._group)
            + int32(self._session_timeout_ms)
            + int32(self._rebalance_timeout_ms)
            + string(self._member_id)
            + _NULL
            + string("consumer")
            + int32(1)
            + string(self._protocol)
            + _bytes(self._metadata),
        )
        generation, _ = response.int32("generation_id"), response.string("protocol_name")
        leader, member_id = response.string("leader"), response.string("member_id")
        if code in (_MEMBER_ID_REQUIRED, _UNKNOWN_MEMBER):
            self._member_id = member_id if code == _MEMBER_ID_REQUIRED else ""
            return False
        if code:
            raise RawMemberError("JoinGroup", code)
        self._member_id = member_id
        sent = int32(0)
        if self._assignment is not None and leader == member_id:
            sent = int32(1) + string(member_id) + _bytes(self._assignment)
        code, _ = connection.ask_for_code(_SYNC_GROUP, self._of_generation(generation) + sent)
        if code and code not in _REJOIN:
            raise RawMemberError("SyncGroup", code)
        if not code:
            self.generations.append(generation)
        return not code

    def _stay(self, connection: RawConnection) -> None:
        """Send heartbeats until the group rebalances or the test ends."""
        while not self._stop.wait(_HEARTBEAT_INTERVAL_S):
            code = self._heartbeat(connection)
            if code in _REJOIN:
                return
            if code:
                raise RawMemberError("Heartbeat", code)

    def _heartbeat(self, connection: RawConnection) -> int:
        code, _ = connection.ask_for_code(_HEARTBEAT, self._of_generation(self.generations[-1]))
        return code

    def _leave(self, connection: RawConnection) -> None:
        connection.ask(_LEAVE_GROUP, string(self._group) + int32(1) + string(self._member_id) + _NULL)

    def _of_generation(self, generation: int) -> bytes:
        return string(self._group) + int32(generation) + string(self._member_id) + _NULL
