"""The settings of the cooperative consumer: those of the installed kafka-python, and what they bound."""

from __future__ import annotations

from typing import Any

import pytest
from kafka import KafkaConsumer
from kafka.errors import KafkaConfigurationError

from compat_tests.support.declared_settings import OUR_OWN, declared_settings
from kafka_assignors_kafka_python import ConsumerSettings, CooperativeKafkaConsumer


def test_every_argument_of_kafka_python_is_declared_and_no_other() -> None:
    declared = declared_settings(CooperativeKafkaConsumer, ConsumerSettings)
    of_kafka_python = set(KafkaConsumer.DEFAULT_CONFIG)
    assert of_kafka_python - declared == set()
    assert declared - of_kafka_python == OUR_OWN


def test_an_argument_of_a_later_kafka_python_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    later: Any = {"of_a_later_release": 1}
    with pytest.raises(KafkaConfigurationError, match="of_a_later_release"):
        CooperativeKafkaConsumer("orders", group_id="g", api_version=(3, 9), **later)
    monkeypatch.setitem(KafkaConsumer.DEFAULT_CONFIG, "of_a_later_release", 0)
    consumer = CooperativeKafkaConsumer("orders", group_id="g", api_version=(3, 9), **later)
    consumer.close(autocommit=False)
    assert consumer.config["of_a_later_release"] == 1


def test_a_poll_waits_for_at_most_half_of_the_poll_interval() -> None:
    """A wait until its end would exceed it, and the member would leave."""
    consumer = CooperativeKafkaConsumer(
        "orders",
        group_id="g",
        api_version=(3, 9),
        enable_auto_commit=False,
        heartbeat_interval_ms=3000,
        max_poll_interval_ms=4000,
    )
    wait_s = consumer._coordinator.time_to_next_poll()
    consumer.close(autocommit=False)
    assert wait_s == 2
