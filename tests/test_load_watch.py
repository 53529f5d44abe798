"""When an assignor with a trigger is refused; tests with real clients cover its leader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kafka_assignors.assignor import Assignor, require_cooperative, require_eager
from kafka_assignors.load_trigger import LoadTrigger
from kafka_assignors.strategies import CooperativeSticky, Range, Weighted


def weights(topics: Mapping[str, int]) -> Any:
    return {}


def acting(**trigger: Any) -> Assignor:
    return Assignor(Weighted(), weights=weights, rebalance=LoadTrigger(**trigger))


def require(*assignors: Assignor) -> None:
    require_cooperative(assignors, "the_package", "StockConsumer", "g")


@pytest.mark.parametrize("trigger", [True, 30, LoadTrigger], ids=["True", "30", "the class"])
def test_what_is_no_trigger_is_refused(trigger: Any) -> None:
    with pytest.raises(TypeError, match=r"rebalance must be a LoadTrigger or None, not .*: pass LoadTrigger"):
        Assignor(Weighted(), weights=weights, rebalance=trigger)


def test_a_trigger_without_weights_is_refused() -> None:
    with pytest.raises(ValueError, match="rebalance needs weights"):
        Assignor(Weighted(), rebalance=LoadTrigger())


def test_a_stock_consumer_is_refused_with_the_class_that_can() -> None:
    with pytest.raises(ValueError, match=r"rebalance=.*: use OurConsumer, or leave rebalance out"):
        require_eager([acting(eager=True)], "OurConsumer")


def test_a_consumer_that_its_list_makes_eager_acts_only_if_the_trigger_says_so() -> None:
    require(acting())
    require(acting(), Assignor(CooperativeSticky()))
    with pytest.raises(
        ValueError, match=r"eager protocol because of 'range'.*or pass LoadTrigger\(eager=True\)"
    ):
        require(acting(), Assignor(Range()))
    require(acting(eager=True), Assignor(Range()))


def test_an_assignor_for_another_client_is_refused_with_the_one_to_pass() -> None:
    kind: Any = type("CooperativeStickyAssignor", (Assignor,), {"__module__": "kafka_assignors_other"})
    with pytest.raises(TypeError, match=r"pass CooperativeStickyAssignor\(\) of kafka_assignors_ours, which"):
        require_cooperative([kind(CooperativeSticky())], "kafka_assignors_ours", "StockConsumer", "g")


def test_without_a_trigger_nothing_is_refused() -> None:
    require_eager([Assignor(Weighted(), weights=weights)], "OurConsumer")
    require(Assignor(Weighted(), weights=weights), Assignor(Range()))
