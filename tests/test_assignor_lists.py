"""What a list of assignors may hold, and what is said of anything else."""

from __future__ import annotations

import logging
from typing import Any, ClassVar

import pytest

from kafka_assignors.assignor import Assignor, require_cooperative
from kafka_assignors.group import Assignment, Group
from kafka_assignors.strategies import CooperativeSticky, Range, Strategy
from kafka_assignors.strategies.range_roundrobin import RoundRobin
from kafka_assignors.strategy import RebalanceProtocol

REMEDY = r"NoBatch is a strategy, and .*: pass \[assignor\(NoBatch\(\)\)\]"
PACKAGE = "kafka_assignors_ours"


class NoBatch(Strategy):
    name = "no-batch"

    def assign(self, group: Group) -> Assignment:
        return CooperativeSticky().assign(group)


class Ours(Assignor):
    log = logging.getLogger(PACKAGE)


class OfAnotherClient(Assignor):
    log = logging.getLogger("kafka_assignors_other")


class CooperativeAlone(NoBatch):
    protocols: ClassVar[Any] = (RebalanceProtocol.COOPERATIVE,)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ([NoBatch()], TypeError, REMEDY),
        ([NoBatch], TypeError, REMEDY),
        (Ours(Range()), TypeError, r"must be a list of assignors, not Ours\(Range"),
        (["StickyAssignor"], TypeError, "is not an assignor of kafka_assignors_ours: others do not know"),
        (
            [OfAnotherClient(Range())],
            TypeError,
            r"another client, of kafka_assignors_other: import the one of kafka_assignors_ours$",
        ),
        ([Ours], TypeError, "has a class of an assignor in it and needs an instance"),
        ([], ValueError, r"strategy is empty: pass \[CooperativeStickyAssignor\(\)\]"),
        ([Ours(CooperativeSticky())] * 2, ValueError, "2 assignors with the name 'cooperative-sticky'"),
        (
            [Ours(CooperativeAlone()), Ours(Range())],
            ValueError,
            "'no-batch' runs under the cooperative protocol alone and 'range' un",
        ),
    ],
)
def test_what_is_no_list_of_our_assignors_is_refused_with_the_remedy(
    given: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        require_cooperative(given, Ours, "g")


class TestForgottenAssignor:
    @pytest.mark.parametrize("given", [NoBatch(), NoBatch], ids=["instance", "class"])
    @pytest.mark.parametrize("attribute", ["metadata", "supported_protocols"])
    def test_what_a_stock_consumer_looks_up_names_it_too(self, given: Any, attribute: str) -> None:
        with pytest.raises(AttributeError, match=REMEDY):
            getattr(given, attribute)
        assert not hasattr(given, attribute)

    def test_a_stock_consumer_that_calls_it_is_told_too(self) -> None:
        strategy: Any = NoBatch()
        with pytest.raises(TypeError, match=REMEDY):
            strategy()

    def test_any_other_attribute_is_missing_as_usual(self) -> None:
        with pytest.raises(AttributeError, match=r"^'NoBatch' object has no attribute 'asign'"):
            NoBatch().asign  # type: ignore[attr-defined]  # noqa: B018


class TestSharedNames:
    @pytest.mark.parametrize("shared", ["range", "roundrobin", "sticky", "cooperative-sticky"])
    def test_a_strategy_of_the_user_is_refused_under_one(self, shared: str) -> None:
        class Mine(NoBatch):
            name = shared

        with pytest.raises(ValueError, match=f"Mine has the name '{shared}', .* such as 'my-{shared}'"):
            Ours(Mine())
        assert Ours(Mine(), shared_name=True).name == shared


class TestEagerByAccident:
    def test_a_mixed_list_is_one_warning_that_names_the_strategy_and_the_page(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        require_cooperative([Ours(CooperativeSticky()), Ours(Range())], Ours, "g")
        (record,) = caplog.records
        assert (record.name, record.levelno) == ("kafka_assignors_ours.eager", logging.WARNING)
        said = record.getMessage()
        assert said.startswith("group 'g': the consumer is eager because of 'range'")
        assert "/migrate/" in said

    @pytest.mark.parametrize(
        "strategies",
        [[CooperativeSticky()], [CooperativeAlone()], [Range()], [Range(), RoundRobin()]],
        ids=lambda strategies: ", ".join(one.name for one in strategies),
    )
    def test_a_list_of_one_protocol_is_a_choice_and_needs_none(
        self, strategies: list[Strategy], caplog: pytest.LogCaptureFixture
    ) -> None:
        require_cooperative([*map(Ours, strategies)], Ours, "g")
        assert not caplog.records
