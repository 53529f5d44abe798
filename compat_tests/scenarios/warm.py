"""Groups whose members warm partitions before they get them, on a real broker.

Every client runs the same scenarios: a test module subclasses them and names its member program.
"""

from __future__ import annotations

import threading

from compat_tests.scenarios.cooperative import WARM_S, CooperativeScenarios, Partitions, owned, shares
from compat_tests.scenarios.eager import SHORT_SESSION_MS
from compat_tests.support.group_of_members import BEFORE_WARM_HANDOFF
from compat_tests.support.kafka_cluster import Kafka


class WarmScenarios(CooperativeScenarios):
    def test_a_partition_moves_when_its_next_owner_is_ready_also_when_its_owner_drains(
        self, kafka: Kafka
    ) -> None:
        with self.group(kafka, orders=6, payments=6) as group:
            group.produce(20)
            for name in ("a", "b"):
                group.join(name, warm_s=WARM_S)
            two = group.settle()
            group.join("c", warm_s=WARM_S)
            group.wait_for("c to warm", lambda: group.reported("c", "warming"))
            assert group.reported("c", "added") == set()
            group.wait_for("equal shares", lambda: shares(group, "a", "b", "c") == [4, 4, 4])
            three = group.settle(after=two)
            assert group.reported("c", "warmed") == owned(three, "c") == group.reported("c", "added")
            assert len(group.members["c"].reports("warming")) == 4

            group.tell("a", drain=True)
            (drained,) = group.wait_for("a to drain", lambda: group.members["a"].reports("drained"))
            assert drained["all"] is True
            group.wait_for("equal shares", lambda: shares(group, "b", "c") == [6, 6])
            assert group.reported("b", "warmed") | group.reported("c", "warmed") >= owned(three, "a")
            group.produce(20)
            group.stop("a")
            group.settle(after=three)
            group.must_have_delivered_each_record_once(40)
            group.must_not_have_lost_anything()

    def test_what_a_killed_member_owned_moves_at_once_also_in_the_middle_of_a_warm_up(
        self, kafka: Kafka
    ) -> None:
        with self.group(kafka, orders=6) as group:
            group.join("a", warm_s=WARM_S, session_timeout_ms=SHORT_SESSION_MS)
            before = group.settle()
            group.join("b", warm_s=60.0, session_timeout_ms=SHORT_SESSION_MS)
            warming: Partitions = group.wait_for("b to warm", lambda: group.reported("b", "warming"))
            group.kill("a")
            group.join("c")  # It needs no warm-up, and gets its share while b still warms.
            group.wait_for("c to have some", lambda: group.reported("c", "added"))
            assert warming <= owned(before, "a")

    def test_an_earlier_release_leads_a_group_and_shares_it(self, kafka: Kafka) -> None:
        earlier = f"{BEFORE_WARM_HANDOFF}{self.program}"
        with self.group(kafka, orders=6) as group:
            group.produce(20)
            group.join("earlier", program=earlier)
            group.wait_for("the earlier release to own it all", lambda: shares(group, "earlier") == [6])
            group.join("a", warm_s=WARM_S)  # The earlier release leads: what moves is cold.
            group.wait_for("equal shares", lambda: shares(group, "earlier", "a") == [3, 3])
            assert group.reported("a", "warming") == set()

            group.stop("earlier")
            group.wait_for("a to own it all", lambda: shares(group, "a") == [6])
            group.join("b", warm_s=WARM_S)  # Now `a` leads.
            group.wait_for("equal shares", lambda: shares(group, "a", "b") == [3, 3])
            assert group.reported("b", "warmed") == group.reported("b", "added")

            group.join("another", program=earlier)
            group.wait_for("equal shares", lambda: shares(group, "a", "b", "another") == [2, 2, 2])
            group.stop("another")
            group.wait_for("equal shares", lambda: shares(group, "a", "b") == [3, 3])
            group.produce(20)
            group.must_have_delivered_each_record_once(40)
            group.must_not_have_lost_anything()

    def test_a_member_that_stops_in_the_middle_of_a_warm_up_leaves_at_once(self, kafka: Kafka) -> None:
        with self.group(kafka, orders=6) as group:
            group.join("a", warm_s=WARM_S)
            before = group.settle()
            group.join("b", warm_s=3600.0)
            group.wait_for("b to warm", lambda: group.reported("b", "warming"))
            stopping = threading.Thread(target=group.stop, args=("b",))
            stopping.start()
            group.wait_for("b to have stopped", lambda: not group.members["b"].running)
            stopping.join()
            assert owned(group.settle(after=before), "a") == owned(before, "a")
            assert group.reported("a", "revoked") == set()
