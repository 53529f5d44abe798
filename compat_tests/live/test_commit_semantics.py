"""When records are delivered twice or lost: the statements of docs/commits.md.

There are twenty records and two partitions. A record is lost if no consumer will get it again although no
application has finished with it; it is delivered twice if two polls return it.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from typing import Any

import pytest

from compat_tests.live.remote_consumer import RemoteConsumer, RemoteError, RemoteGroup
from compat_tests.support.kafka_cluster import Kafka

CLIENTS = ("aiokafka", "kafka_python")
NEVER_MS = 600_000
"""An auto-commit interval that is longer than any test."""
LATE_MS = 8000
"""A member without a poll, or without a heartbeat, for this long is removed from the group."""


def join(group: RemoteGroup, first: RemoteConsumer, assignor: str) -> Mapping[int, int]:
    """`first` gets 20 records; then a second member joins, and the two get 2 more.

    Returns the number of records for each number of deliveries.
    """
    group.produce(10)
    group.take_all(first)
    second = group.start(assignor=assignor)
    group.share(first, second)
    group.produce(1)
    group.take_all(first, second)
    return group.times_delivered()


@pytest.mark.parametrize("client", CLIENTS)
class TestAnotherMemberJoins:
    @pytest.mark.parametrize("assignor", ["ours", "stock"])
    def test_auto_commit_commits_before_the_partitions_go(
        self, kafka: Kafka, client: str, assignor: str
    ) -> None:
        with RemoteGroup(kafka, client) as group:
            first = group.start(assignor=assignor, enable_auto_commit=True, auto_commit_interval_ms=NEVER_MS)
            assert join(group, first, assignor) == {1: 22}

    @pytest.mark.parametrize("assignor", ["ours", "stock"])
    def test_uncommitted_records_are_delivered_again_after_a_rebalance(
        self, kafka: Kafka, client: str, assignor: str
    ) -> None:
        with RemoteGroup(kafka, client) as group:
            times = join(group, group.start(assignor=assignor), assignor)
        # In a partition that stays, kafka-python 3 goes on; aiokafka restarts at the committed offset.
        assert times == ({2: 20, 1: 2} if client == "aiokafka" else {2: 10, 1: 12})

    def test_a_commit_after_the_batch_leaves_nothing_to_deliver_again(
        self, kafka: Kafka, client: str
    ) -> None:
        with RemoteGroup(kafka, client) as group:
            first = group.start()
            group.produce(10)
            group.take_all(first)
            first.commit()
            second = group.start()
            group.share(first, second)
            group.produce(1)
            group.take_all(first, second)
            assert group.times_delivered() == {1: 22}


class TestACommitInTheListener:
    def test_of_aiokafka_is_in_time(self, kafka: Kafka) -> None:
        with RemoteGroup(kafka, "aiokafka") as group:
            assert join(group, group.start(listener="commit"), "ours") == {1: 22}

    @pytest.mark.parametrize("assignor", ["ours", "stock"])
    def test_of_kafka_python_3_raises_in_an_ordinary_listener_and_the_group_stands_still(
        self, kafka: Kafka, assignor: str
    ) -> None:
        with RemoteGroup(kafka, "kafka_python") as group:
            first = group.start(assignor=assignor, listener="commit")
            group.produce(10)
            group.take_all(first)
            second = group.start(assignor=assignor)
            group.poll(first, second, until=lambda: len(first.errors) >= 3, what="three errors")
            assert set(first.errors) == {"KafkaError: KafkaError: User rebalance callback throws an error"}
            assert second.assigned == frozenset()

    def test_of_kafka_python_3_raises_under_its_cooperative_assignor_too_and_comes_too_late(
        self, kafka: Kafka
    ) -> None:
        with RemoteGroup(kafka, "kafka_python") as group:
            first = group.start(assignor="stock-cooperative", listener="commit")
            assert join(group, first, "stock-cooperative")[2] == 10
            assert first.errors == ["KafkaError: KafkaError: User rebalance callback throws an error"]

    def test_of_kafka_python_3_is_in_time_if_an_async_listener_awaits_it(self, kafka: Kafka) -> None:
        with RemoteGroup(kafka, "kafka_python") as group:
            assert join(group, group.start(listener="await-commit"), "ours") == {1: 22}


class TestABatchIsInHand:
    @pytest.mark.parametrize("commits", ["auto-commit", "commit() in the listener"])
    def test_aiokafka_commits_it_unfinished_when_a_member_joins(self, kafka: Kafka, commits: str) -> None:
        with RemoteGroup(kafka, "aiokafka") as group:
            if commits == "auto-commit":
                busy = group.start(enable_auto_commit=True, auto_commit_interval_ms=NEVER_MS)
            else:
                busy = group.start(listener="commit")
            group.produce(10)
            group.take_all(busy)
            second = group.start()
            group.poll(second, until=lambda: bool(second.assigned), what="the second member")
            # If the first member crashes at this point, no member gets the records of its unfinished batch.
            assert group.committed() == {0: 10, 1: 10}

    def test_kafka_python_lets_no_member_in_before_the_next_poll(self, kafka: Kafka) -> None:
        with RemoteGroup(kafka, "kafka_python") as group:
            busy = group.start(enable_auto_commit=True, auto_commit_interval_ms=300)
            group.produce(10)
            group.take_all(busy)
            second = group.start()
            for _ in range(6):
                second.send("poll")
                second.received_poll()
            assert (second.assigned, group.committed()) == (frozenset(), {})
            group.share(busy, second)
            assert group.committed() == {0: 10, 1: 10}


@pytest.mark.parametrize("client", CLIENTS)
class TestAProcessIsKilled:
    def killed_with_a_batch_in_hand(
        self, group: RemoteGroup, *, commits: bool = False, **settings: Any
    ) -> Mapping[int, int]:
        """`commits`: wait until the client has committed the batch automatically."""
        # A static member, so that its replacement need not wait for the end of the session.
        first = group.start(group_instance_id="pod-0", **settings)
        group.produce(10)
        group.take_all(first)
        time.sleep(1)
        if commits:
            group.wait_until_committed(10)
        group.kill(first)
        replaced = group.start(group_instance_id="pod-0", **settings)
        group.poll(replaced, until=lambda: len(replaced.assigned) == 2, what="the replacement")
        group.produce(1)
        group.poll(
            replaced, until=lambda: {(0, 10), (1, 10)} <= set(replaced.delivered), what="the last records"
        )
        return group.times_delivered()

    def test_without_auto_commit_the_batch_is_delivered_again(self, kafka: Kafka, client: str) -> None:
        with RemoteGroup(kafka, client) as group:
            assert self.killed_with_a_batch_in_hand(group) == {2: 20, 1: 2}

    def test_with_auto_commit_the_batch_is_lost_by_aiokafka_alone(self, kafka: Kafka, client: str) -> None:
        with RemoteGroup(kafka, client) as group:
            times = self.killed_with_a_batch_in_hand(
                group, commits=client == "aiokafka", enable_auto_commit=True, auto_commit_interval_ms=300
            )
        # aiokafka's timer commits what getmany has returned; kafka-python commits only in the next poll.
        assert times == ({1: 22} if client == "aiokafka" else {2: 20, 1: 2})


@pytest.mark.parametrize("client", CLIENTS)
class TestAStaticMemberRestarts:
    @pytest.mark.parametrize("auto_commit", [True, False])
    def test_records_that_a_stopped_member_did_not_commit_are_delivered_again(
        self, kafka: Kafka, client: str, auto_commit: bool
    ) -> None:
        settings: dict[str, Any] = {"enable_auto_commit": auto_commit, "auto_commit_interval_ms": NEVER_MS}
        with RemoteGroup(kafka, client) as group:
            first = group.start(group_instance_id="pod-0", **settings)
            group.produce(10)
            group.take_all(first)
            first.do("stop")
            group.kill(first)
            again = group.start(group_instance_id="pod-0", **settings)
            group.produce(1)
            group.poll(
                again, until=lambda: {(0, 10), (1, 10)} <= set(again.delivered), what="the last records"
            )
            assert group.times_delivered() == ({1: 22} if auto_commit else {2: 20, 1: 2})


@pytest.mark.parametrize("client", CLIENTS)
class TestAMemberIsLate:
    def taken_over(self, group: RemoteGroup) -> None:
        """Another member gets all partitions, and commits."""
        heir = group.start()
        group.poll(heir, until=lambda: len(heir.assigned) == 2, what="the partitions to be taken over")
        group.produce(1)
        group.poll(heir, until=lambda: len(heir.delivered) == 22, what="all records")
        heir.commit()
        assert group.committed() == {0: 11, 1: 11}

    def test_exceeded_poll_interval_delivers_records_twice_and_fails_the_late_commit(
        self, kafka: Kafka, client: str
    ) -> None:
        with RemoteGroup(kafka, client) as group:
            late = group.start(max_poll_interval_ms=LATE_MS)
            group.produce(10)
            group.take_all(late)
            group.wait_until_empty()  # The late member's own client leaves the group.
            self.taken_over(group)
            assert group.times_delivered() == {2: 20, 1: 2}

            # A transaction commits for any member, unless it sends an outdated member id and generation.
            with_generation = client == "kafka_python"
            if with_generation:
                with pytest.raises(RemoteError):
                    late.do("commit_in_transaction", offsets={0: 9}, as_of="poll")
                assert group.committed() == {0: 11, 1: 11}
            late.do("commit_in_transaction", offsets={0: 10}, as_of="now")
            assert group.committed() == {0: 10, 1: 11}

            with pytest.raises(RemoteError, match="CommitFailedError"):
                late.commit()
            assert group.committed() == {0: 10, 1: 11}

    def test_lost_session_delivers_records_twice_and_fails_the_late_commit(
        self, kafka: Kafka, client: str
    ) -> None:
        with RemoteGroup(kafka, client) as group:
            late = group.start(session_timeout_ms=LATE_MS)
            group.produce(10)
            group.take_all(late)
            late.process.send_signal(signal.SIGSTOP)
            self.taken_over(group)
            late.process.send_signal(signal.SIGCONT)
            assert group.times_delivered() == {2: 20, 1: 2}
            with pytest.raises(RemoteError, match="CommitFailedError"):
                late.commit()
            assert group.committed() == {0: 11, 1: 11}


@pytest.mark.parametrize("client", CLIENTS)
class TestNothingIsCommittedYet:
    @pytest.mark.parametrize("reset", ["latest", "earliest"])
    def test_the_latest_offset_skips_records_written_while_the_group_was_empty(
        self, kafka: Kafka, client: str, reset: str
    ) -> None:
        with RemoteGroup(kafka, client) as group:
            first = group.start(auto_offset_reset=reset)
            group.share(first)
            first.do("stop")
            group.produce(10)
            second = group.start(auto_offset_reset=reset)
            group.share(second)
            # Records that are written before the position is looked up are also before the latest offset.
            second.positions()
            group.produce(1)
            group.poll(
                second, until=lambda: {(0, 10), (1, 10)} <= set(second.delivered), what="the last records"
            )
            assert group.times_delivered() == ({0: 20, 1: 2} if reset == "latest" else {1: 22})
