"""Rolling deployments and draining members, with real members of each client."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from compat_tests.scenarios.cooperative import CooperativeGroup, flat, owned
from compat_tests.scenarios.eager import by_size
from compat_tests.support.kafka_cluster import Kafka

__all__ = ["RolloutScenarios"]

RECORDS_AT_A_TIME, WRITE_EVERY_S = 5, 0.2


@contextmanager
def being_written(group: CooperativeGroup) -> Iterator[list[int]]:
    """Write records to all partitions until the block ends; the list has the numbers for each partition."""
    ending, written = threading.Event(), list[int]()

    def write() -> None:
        while not ending.wait(WRITE_EVERY_S):
            group.produce(RECORDS_AT_A_TIME)
            written.append(RECORDS_AT_A_TIME)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield written
    finally:
        ending.set()
        thread.join()


def partitions_told(group: CooperativeGroup, event: str, before: dict[str, int]) -> int:
    """The partitions in these reports of members that go on, without the first `before` reports of each."""
    count = 0
    for name, member in group.members.items():
        for report in member.reports()[before.get(name, 0) :]:
            if report["event"] == "stopped":
                break
            if report["event"] == event:
                count += len(flat(report["partitions"]))
    return count


class RolloutScenarios:
    program: ClassVar[str]

    def test_a_rolling_deployment_moves_each_partition_once_and_no_record_twice(self, kafka: Kafka) -> None:
        with CooperativeGroup(kafka, self.program, {"orders": 9}) as group:
            with being_written(group) as written:
                for number in range(3):
                    group.join(f"old-{number}", ["rollout:1"])
                settled = group.settle()
                assert by_size(settled) == [3, 3, 3]
                before = {name: len(member.reports()) for name, member in group.members.items()}
                for number in range(3):
                    group.join(f"new-{number}", ["rollout:2"])
                    joined = group.settle(after=settled)
                    group.stop(f"old-{number}")
                    settled = group.settle(after=joined)
                    assert max(by_size(joined) + by_size(settled)) == 3
            group.must_have_delivered_each_record_once(sum(written))
            group.must_not_have_lost_anything()
            assert partitions_told(group, "revoked", before) == 0
            assert partitions_told(group, "added", before) == 9

    def test_a_member_that_drains_hands_over_and_can_change_its_mind(self, kafka: Kafka) -> None:
        with CooperativeGroup(kafka, self.program, {"orders": 6}) as group:
            group.produce(20)
            for name in ("a", "b", "c"):
                group.join(name, ["rollout:1"])
            settled = group.settle()
            assert by_size(settled) == [2, 2, 2]

            group.tell("a", draining=True)
            drained = group.settle(after=settled)
            while drained.count("a"):
                drained = group.settle(after=drained)
            assert by_size(drained) == [0, 3, 3]
            assert owned(settled, "b") < owned(drained, "b")
            assert owned(settled, "c") < owned(drained, "c")

            group.tell("a", draining=False)
            back = group.settle(after=drained)
            while not back.count("a"):
                back = group.settle(after=back)
            assert by_size(back) == [2, 2, 2]
            group.produce(20)
            group.must_have_delivered_each_record_once(40)
            group.must_not_have_lost_anything()
