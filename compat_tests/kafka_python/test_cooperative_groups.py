"""Groups of CooperativeKafkaConsumers, alone and with members of librdkafka and Java, on a real broker."""

from __future__ import annotations

from compat_tests.scenarios.cooperative import CooperativeGroupScenarios


class TestCooperativeGroups(CooperativeGroupScenarios):
    program = "compat_tests.kafka_python.cooperative_member"
    eager_program = "compat_tests.kafka_python.member"
