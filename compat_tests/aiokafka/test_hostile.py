"""Groups with malicious members, led by our strategies in a stock or a cooperative consumer."""

from __future__ import annotations

import pytest

from compat_tests.hostile.scenarios import HostileClaimScenarios, HostileScenarios, StolenInstanceScenarios

pytestmark = pytest.mark.exhaustive


class TestHostileMembers(HostileClaimScenarios):
    program = "compat_tests.aiokafka.member"


class TestStolenInstanceIds(StolenInstanceScenarios):
    program = "compat_tests.aiokafka.member"


class TestHostileMembersOfCooperativeGroups(HostileScenarios):
    program = "compat_tests.aiokafka.cooperative_member"
    strategy = "cooperative-sticky"
    waits_for_claimants = True


class TestStolenInstanceIdsOfCooperativeMembers(StolenInstanceScenarios):
    program = "compat_tests.aiokafka.cooperative_member"
    strategy = "cooperative-sticky"
