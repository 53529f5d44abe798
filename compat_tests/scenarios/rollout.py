"""Rolling deployments and draining members, with real members of each client."""

from __future__ import annotations

from typing import ClassVar

from compat_tests.scenarios.cooperative import CooperativeGroup, owned
from compat_tests.scenarios.eager import by_size
from compat_tests.support.kafka_cluster import Kafka
from compat_tests.support.rolling_deployment import deploy

__all__ = ["RolloutScenarios"]


class RolloutScenarios:
    program: ClassVar[str]

    def test_a_rolling_deployment_moves_each_partition_once_and_no_record_twice(self, kafka: Kafka) -> None:
        with CooperativeGroup(kafka, self.program, {"orders": 9}) as group:
            counted = deploy(group, 3, lambda release: f"rollout:{release}")
            group.must_not_have_lost_anything()
        assert (counted.revoked_from_live, counted.added, counted.greatest_load) == (0, 9, 3)
        assert (counted.doubled, counted.missing) == (0, 0)

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
