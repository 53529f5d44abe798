"""What a list of assignors may hold, and what is said of anything else."""

from __future__ import annotations

import logging
from typing import Any, ClassVar, cast

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


def require(*assignors: object) -> None:
    require_cooperative(assignors, Ours, "g")


class TestForgottenAssignor:
    @pytest.mark.parametrize("given", [NoBatch(), NoBatch], ids=["instance", "class"])
    def test_our_consumers_name_the_users_own_class(self, given: object) -> None:
        with pytest.raises(TypeError, match=REMEDY):
            require(given)

    def test_an_assignor_without_its_list_is_told_the_list(self) -> None:
        with pytest.raises(TypeError, match=r"must be a list of assignors, not Ours\(Range"):
            require_cooperative(cast("Any", Ours(Range())), Ours, "g")

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

    def test_what_is_no_assignor_is_told_whose_to_pass(self) -> None:
        with pytest.raises(TypeError, match="is not an assignor of kafka_assignors_ours: others do not know"):
            require("StickyAssignor")

    def test_an_assignor_for_another_client_is_told_what_to_import(self) -> None:
        said = r"another client, of kafka_assignors_other: import the one of kafka_assignors_ours$"
        with pytest.raises(TypeError, match=said):
            require(OfAnotherClient(Range()))


class TestSharedNames:
    @pytest.mark.parametrize("shared", ["range", "roundrobin", "sticky", "cooperative-sticky"])
    def test_a_strategy_of_the_user_is_refused_under_one(self, shared: str) -> None:
        class Mine(NoBatch):
            name = shared

        with pytest.raises(ValueError, match=f"Mine has the name '{shared}', .* such as 'my-{shared}'"):
            Ours(Mine())
        assert Ours(Mine(), shared_name=True).name == shared


class CooperativeAlone(NoBatch):
    protocols: ClassVar[Any] = (RebalanceProtocol.COOPERATIVE,)


class TestEagerByAccident:
    def test_a_mixed_list_is_one_warning_that_names_the_strategy_and_the_page(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        require(Ours(CooperativeSticky()), Ours(Range()))
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
        require(*map(Ours, strategies))
        assert not caplog.records

    def test_an_empty_list_is_told_what_to_pass(self) -> None:
        with pytest.raises(ValueError, match=r"strategy is empty: pass \[CooperativeStickyAssignor\(\)\]"):
            require()


def test_what_no_group_could_vote_on_is_refused() -> None:
    with pytest.raises(TypeError, match="has a class of an assignor in it and needs an instance"):
        require(Ours)
    with pytest.raises(ValueError, match="2 assignors with the name 'cooperative-sticky'"):
        require(Ours(CooperativeSticky()), Ours(CooperativeSticky()))
    with pytest.raises(
        ValueError, match="'no-batch' runs under the cooperative protocol alone and 'range' un"
    ):
        require(Ours(CooperativeAlone()), Ours(Range()))
