"""A standby member that takes over from a killed active member, on a real broker.

Every client runs the same scenarios: a test module subclasses them and names its member programs.
"""

from __future__ import annotations

from typing import ClassVar

import pytest

from compat_tests.scenarios.eager import SHORT_SESSION_MS
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors_strategies import Standby

__all__ = ["StandbyScenarios"]

ACTIVE, PASSIVE = Standby(), Standby(standby=True)
HERE = "compat_tests.scenarios.standby"


class StandbyScenarios:
    program: ClassVar[str]
    cooperative_program: ClassVar[str]

    @pytest.mark.parametrize("cooperative", [False, True], ids=["eager", "cooperative"])
    def test_a_standby_member_takes_over_from_a_killed_member_and_gives_back(
        self, kafka: Kafka, cooperative: bool
    ) -> None:
        program = self.cooperative_program if cooperative else self.program
        with GroupOfMembers(kafka, program, {"orders": 4, "payments": 2}) as group:
            group.start("active", [f"{HERE}:ACTIVE"], session_timeout_ms=SHORT_SESSION_MS)
            for name in ("standby-1", "standby-2"):
                group.start(name, [f"{HERE}:PASSIVE"])
            before = group.settle()
            assert [before.count(name) for name in ("active", "standby-1", "standby-2")] == [6, 0, 0]

            group.kill("active")
            taken_over = group.settle("standby-1", "standby-2", after=before)
            loads = {name: taken_over.count(name) for name in ("standby-1", "standby-2")}
            assert sorted(loads.values()) == [0, 6]
            group.produce(10)
            group.wait_until_consumed(10)
            (stand_in,) = (name for name, load in loads.items() if load)
            consumed = group.members[stand_in].reports("consumed")
            assert sum(len(report["offsets"]) for report in consumed) == 60

            group.start_again("active")
            back = group.settle(after=taken_over)
            assert [back.count(name) for name in ("active", "standby-1", "standby-2")] == [6, 0, 0]
            group.produce(10)
            group.wait_until_consumed(20)
            warnings = [one["message"] for one in group.members[stand_in].reports("logged")]
            assert not any("other rules" in message for message in warnings)
