"""The cooperative consumer declares exactly the arguments of the installed aiokafka."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer

from compat_tests.support.declared_settings import OUR_OWN, declared_settings
from kafka_assignors_aiokafka import ConsumerSettings, CooperativeAIOKafkaConsumer

OF_SOME_RELEASES = {"api_version", "client_rack"}
"""Only some releases have these: aiokafka 0.13 lacks `api_version`, and `client_rack` is new in 0.14."""


def test_every_argument_of_aiokafka_is_declared_and_no_other() -> None:
    declared = declared_settings(CooperativeAIOKafkaConsumer, ConsumerSettings)
    of_aiokafka = set(inspect.signature(AIOKafkaConsumer).parameters) - {"topics"}
    assert of_aiokafka - declared == set()
    assert OUR_OWN <= declared - of_aiokafka <= OF_SOME_RELEASES | OUR_OWN


def test_an_argument_of_a_later_aiokafka_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    later: Any = {"of_a_later_release": 1}
    with pytest.raises(TypeError, match="of_a_later_release"):
        CooperativeAIOKafkaConsumer("orders", group_id="g", **later)
    given: dict[str, Any] = {}
    monkeypatch.setattr(
        AIOKafkaConsumer, "__init__", lambda self, *topics, **settings: given.update(settings)
    )
    with pytest.raises(RuntimeError):  # aiokafka's own constructor has not run.
        CooperativeAIOKafkaConsumer("orders", group_id="g", **later)
    assert given["of_a_later_release"] == 1
