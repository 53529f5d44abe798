"""The cooperative consumer declares exactly the arguments of the installed kafka-python."""

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
