"""No commit is written after a later one of the partition, or when its caller waits no longer."""

from __future__ import annotations

import asyncio
from typing import Any

import aiokafka
import kafka
import pytest

from compat_tests.scripted.broker import Answer, Closed, Code, Held, Late, Torn
from compat_tests.scripted.model import Group
from compat_tests.scripted.users import TOPIC, User, each_client
from compat_tests.support.hang_limit import HANG_S

LOADING, NOT_COORDINATOR, REBALANCE_IN_PROGRESS = 14, 16, 27
SOON_S = 0.5
"""The timeout of a commit that is to time out."""


class Committing:
    """A user that commits offsets of partition 0, and goes on before they are answered.

    It reuses its dict of offsets for something else meanwhile.
    """

    def __init__(self, user: User, group: Group) -> None:
        self.user, self.group = user, group
        self.callbacks: list[int] = []
        """The offsets whose callbacks were called, in this order (kafka-python)."""
        self._is_aiokafka = user.partition is aiokafka.TopicPartition

    @property
    def written(self) -> list[int]:
        """The offsets of all OffsetCommit requests that the broker has received, in their order."""
        return [
            partition.committed_offset
            for request in self.group.sent("OffsetCommit")
            for topic in request.body.topics
            for partition in topic.partitions
            if partition.partition_index == 0
        ]

    async def begin(self, offset: int) -> asyncio.Future[Any]:
        """Begin a commit, without waiting for it."""
        tp = self.user.partition(TOPIC, 0)
        offsets: dict[Any, Any] = {tp: offset}
        if self._is_aiokafka:
            committing = asyncio.ensure_future(self.user.client.consumer.commit(offsets))
            await asyncio.sleep(0)
            offsets.clear()
            return committing
        ended: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def end(offsets: Any, outcome: Any) -> None:
            self.callbacks.append(offsets[tp].offset)
            error = outcome if isinstance(outcome, Exception) else None
            set_it = ended.set_result if error is None else ended.set_exception
            self.user.loop.call_soon_threadsafe(set_it, error)

        def commit() -> None:
            offsets[tp] = kafka.OffsetAndMetadata(offset, "", -1)
            self.user.client.consumer.commit_async(offsets, end)
            offsets.clear()

        await self.user.client._run(commit)  # type: ignore[attr-defined]
        return ended

    async def commit_too_long(self, offset: int) -> None:
        """A commit that is cancelled (aiokafka), or whose timeout passes (kafka-python)."""
        tp = self.user.partition(TOPIC, 0)
        if self._is_aiokafka:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(self.user.client.consumer.commit({tp: offset}), SOON_S)
            return
        offsets = {tp: kafka.OffsetAndMetadata(offset, "", -1)}
        with pytest.raises(kafka.errors.KafkaTimeoutError):
            await self.user.client._run(  # type: ignore[attr-defined]
                lambda: self.user.client.consumer.commit(offsets, timeout_ms=SOON_S * 1000)
            )

    async def received(self, count: int) -> None:
        """Wait until the broker has received this many OffsetCommit requests."""
        await self.group.until(lambda: len(self.group.sent("OffsetCommit")) >= count)

    async def must_be_in_order(self) -> None:
        """Check all that was written, when the consumer is closed."""
        await self.user.close()
        assert self.written == sorted(self.written)
        assert self.group.committed[TOPIC, 0] == max(self.written)


@pytest.mark.parametrize(
    "first",
    [Code(REBALANCE_IN_PROGRESS), Code(LOADING), Code(NOT_COORDINATOR), Closed(), Torn()],
    ids=["rebalance", "loading", "moved", "closed", "torn"],
)
@each_client(retry_backoff_ms=300)
async def test_a_commit_that_has_to_be_sent_again_never_follows_a_later_one(
    user: User, group: Group, first: Answer
) -> None:
    committing, released = Committing(user, group), asyncio.Event()
    synced = len(group.sent("SyncGroup"))
    group.answer("OffsetCommit", first)
    group.answer("FindCoordinator", Held(released))
    begun = [await committing.begin(10)]
    await committing.received(1)
    if first == Code(REBALANCE_IN_PROGRESS):
        # The member has joined again; the backoff of the first commit may still go on.
        await group.until(lambda: any(one.answered for one in group.sent("SyncGroup")[synced:]))
    begun += [await committing.begin(offset) for offset in range(11, 21)]
    released.set()
    await asyncio.gather(*begun)
    assert committing.callbacks == sorted(committing.callbacks)
    assert group.committed[TOPIC, 0] == 20
    await committing.must_be_in_order()


@each_client(retry_backoff_ms=300)
async def test_the_next_request_waits_for_the_response_and_has_the_newest_offset(
    user: User, group: Group
) -> None:
    committing, released = Committing(user, group), asyncio.Event()
    group.answer("OffsetCommit", Held(released))
    begun = [await committing.begin(offset) for offset in (10, 20, 30)]
    beats = len(group.sent("Fetch"))
    await committing.received(1)
    await group.until(lambda: len(group.sent("Fetch")) > beats + 3)
    assert committing.written == [10]
    assert not any(one.done() for one in begun)
    released.set()
    await asyncio.gather(*begun)
    assert committing.written == [10, 30]
    assert committing.callbacks in ([], [10, 20, 30])
    await committing.must_be_in_order()


@pytest.mark.parametrize("first", [Closed(), Late(0)], ids=["closed", "answered"])
@each_client("aiokafka")
async def test_a_commit_on_a_connection_that_has_no_socket_any_more_ends_as_any_other(
    user: User, group: Group, first: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with TLS, whose connection counts as open for a moment after its socket is gone."""
    await group.until(lambda: group.sent("Heartbeat"))
    connection = user.client.consumer._coordinator._open_connection()
    monkeypatch.setattr(connection._writer, "get_extra_info", lambda _: None)
    group.answer("OffsetCommit", first)
    committing = Committing(user, group)
    await (await committing.begin(10))
    assert committing.written == ([10, 10] if first == Closed() else [10])
    await committing.must_be_in_order()


@pytest.mark.parametrize(
    "then", [Code(NOT_COORDINATOR), Code(REBALANCE_IN_PROGRESS)], ids=["moved", "rebalance"]
)
@each_client(retry_backoff_ms=300)
async def test_a_commit_whose_caller_waits_no_longer_is_not_written_afterwards(
    user: User, group: Group, then: Answer
) -> None:
    committing, released = Committing(user, group), asyncio.Event()
    group.answer("OffsetCommit", then)
    held = "FindCoordinator" if then == Code(NOT_COORDINATOR) else "JoinGroup"
    group.answer(held, Held(released))
    await committing.commit_too_long(10)
    assert committing.written == [10]
    released.set()
    await asyncio.wait_for(await committing.begin(20), HANG_S)
    assert committing.written == [10, 20]
    await committing.must_be_in_order()
