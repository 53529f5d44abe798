"""A group of applications of a framework: members join and restart in turn, and one is killed."""

from __future__ import annotations

from typing import ClassVar

from compat_tests.scenarios.eager import SHORT_SESSION_MS, by_size
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.kafka_cluster import Kafka

STRATEGIES = ("cooperative-sticky",)

RECORDS = 10
"""Records written to each partition before each step."""


class FrameworkScenarios:
    program: ClassVar[str]

    def test_members_join_restart_and_take_over_from_one_that_is_killed(self, kafka: Kafka) -> None:
        with GroupOfMembers(kafka, self.program, {"orders": 6}) as group:
            written = 0

            def write() -> None:
                nonlocal written
                written += RECORDS
                group.produce(RECORDS)

            write()
            group.start("a", STRATEGIES)
            settled = group.settle()
            write()
            group.start("b", STRATEGIES)
            settled = group.settle(after=settled)
            assert by_size(settled) == [3, 3]
            group.wait_until_consumed(written)
            for name in ("a", "b"):
                write()
                group.stop(name)
                # The new process has another name, so that deliveries to both processes are counted.
                sessions = {"session_timeout_ms": SHORT_SESSION_MS} if name == "b" else {}
                group.start(f"{name}2", STRATEGIES, **sessions)
                settled = group.settle(after=settled)
                assert by_size(settled) == [3, 3]
                group.wait_until_consumed(written)
            twice = [record for record, times in group.consumed().items() if times > 1]
            assert not twice

            group.kill("b2")
            write()
            settled = group.settle("a2", after=settled)
            assert by_size(settled) == [6]
            group.wait_until_consumed(written)
            self.check(group)

    def check(self, group: GroupOfMembers) -> None:
        """Further checks of a framework's members."""
