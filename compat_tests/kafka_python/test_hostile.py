"""Groups with malicious members, led by our strategies in both consumers, on a real broker."""

from __future__ import annotations

from compat_tests.hostile.scenarios import HostileClaimScenarios, HostileScenarios, StolenInstanceScenarios
from compat_tests.kafka_python.member import KNOWS_RACKS, KNOWS_STATIC_MEMBERS


class TestHostileMembers(HostileClaimScenarios):
    program = "compat_tests.kafka_python.member"


if KNOWS_RACKS:  # 3.0 and later

    class TestHostileMembersOfCooperativeGroups(HostileScenarios):
        program = "compat_tests.kafka_python.cooperative_member"
        strategy = "cooperative-sticky"
        waits_for_claimants = True


if KNOWS_STATIC_MEMBERS:  # 2.3 and later

    class TestStolenInstanceIds(StolenInstanceScenarios):
        program = "compat_tests.kafka_python.member"
