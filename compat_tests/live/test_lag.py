"""Groups whose leaders read the lag from the brokers, while members join and the lag changes."""

from __future__ import annotations

import pytest

from compat_tests.scenarios.cooperative import CooperativeGroup
from compat_tests.support.kafka_cluster import Kafka
from compat_tests.support.lagging_group import live_with_lag
from compat_tests.support.same_events import loads


@pytest.mark.parametrize("client", ["aiokafka", "kafka_python"])
def test_cooperative_members_share_the_lag_and_follow_it_when_they_rebalance(
    kafka: Kafka, client: str
) -> None:
    with CooperativeGroup(kafka, f"compat_tests.{client}.cooperative_member", {"orders": 5}) as group:
        found = live_with_lag(group, "weighted:0", [200, 100, 100, 100, 100], {1: 300}, crowded=False)
        group.must_not_have_lost_anything()
    _, three, changed = found
    # With the first record of each partition: 605 in total, then 201, 202, 202, then 401 for partition 1.
    assert [one.loads.makespan for one in found] == [605, 202, 401]
    assert loads(three.step) == [2, 2, 1]
    # The owner of partition 1 had one other partition.
    assert (changed.step.revoked, changed.step.added) == (1, 1)
