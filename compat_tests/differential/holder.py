"""Members that hold a group in the middle of a join, expel a member, or read the group's offsets."""

from __future__ import annotations

import contextlib

from compat_tests.hostile import raw_member
from compat_tests.support.hang_limit import wait_for
from compat_tests.support.kafka_cluster import Kafka

_OFFSET_FETCH = (9, 2)


class Holder(raw_member.RawMember):
    """A member that stays in its generation while the group rebalances, so that the rebalance waits for it.

    The group goes on when the holder leaves, at the end of the context.
    """

    def _stay(self, connection: raw_member.RawConnection) -> None:
        while not self._stop.wait(0.1):
            if self._heartbeat(connection) not in (0, raw_member.REBALANCE_IN_PROGRESS):
                return

    def _coordinator(self) -> raw_member.RawConnection:
        self._connection = super()._coordinator()
        return self._connection

    def abandon(self) -> None:
        """End the holder without leaving, if the group waits for a consumer that does not rejoin."""
        self._connection.shut_down()

    def ask_to_end(self) -> None:
        """Make the holder leave, without waiting."""
        self._stop.set()


class _Expeller(raw_member.RawMember):
    def expel(self, member_id: str) -> None:
        self._member_id = member_id
        with contextlib.closing(self._coordinator()) as connection:
            self._leave(connection)


def expel(bootstrap: str, group: str, member_id: str) -> None:
    """Remove a member from its group, as an administrator can. The next response tells the member."""
    _Expeller(bootstrap, group, metadata=b"", client_id="administrator").expel(member_id)


class _Reader(raw_member.RawMember):
    def read(self) -> bool:
        """Read the committed offsets; false if the coordinator is not ready."""
        self.offsets: dict[tuple[str, int], int] = {}
        with contextlib.closing(self._coordinator()) as connection:
            response = connection.ask(_OFFSET_FETCH, raw_member.string(self._group) + raw_member.int32(-1))
        for _ in response.items("topics", 1):
            topic = response.string("name")
            for _ in response.items("partitions", 1):
                partition, offset = response.int32("partition_index"), response.int64("committed_offset")
                response.nullable_string("metadata")
                response.int16("error_code")
                if offset >= 0:
                    self.offsets[topic, partition] = offset
        if (code := response.int16("error_code")) and code not in raw_member.COORDINATOR_ERRORS:
            raise raw_member.RawMemberError("OffsetFetch", code)
        return not code


def committed(kafka: Kafka, group: str) -> dict[tuple[str, int], int]:
    """The committed offsets of a group, by topic and partition.

    librdkafka's admin client, called by many threads, crashes if the coordinator is loading the group.
    """
    reader = _Reader(kafka.bootstrap, group, metadata=b"", client_id="reader")
    wait_for("the committed offsets", reader.read)
    return reader.offsets
