"""Groups with malicious members, led by our strategies in a stock consumer, on a real broker."""

from __future__ import annotations

from compat_tests.hostile.scenarios import HostileScenarios, StolenInstanceScenarios
from compat_tests.kafka_python.member import KNOWS_STATIC_MEMBERS


class TestHostileMembers(HostileScenarios):
    program = "compat_tests.kafka_python.member"


if KNOWS_STATIC_MEMBERS:  # 2.3 and later

    class TestStolenInstanceIds(StolenInstanceScenarios):
        program = "compat_tests.kafka_python.member"
