"""How a leader handles weights, invalid weights and missing weights."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from kafka_assignors.assignor import Assignor
from kafka_assignors.group import Topic
from kafka_assignors.rebalance.lead import ask_in_thread, call_in_thread
from kafka_assignors.weights import WeightSource, weigh
from kafka_assignors_strategies import Weighted
from kafka_assignors_strategies.weight_sources import LagSource, OffsetWeights, RateSource, parse_weights

ORDERS = Topic("orders", 3)


class Coordinator:
    """An object that supports weak references."""


class Unreadable(dict[str, Any]):
    def get(self, *_: Any) -> Any:
        raise OSError("the connection is closed")


SENSELESS = [[1, 2], [1, 2, 3, 4], "abc", {0: 1}, 7, iter([1, 2, 3])]


class TestWeigh:
    @pytest.mark.parametrize(
        ("given", "finding"),
        [
            (Unreadable(orders=[1, 2, 3]), "raise OSError('the connection is closed'): they are unknown"),
            *(({"orders": listed}, "'orders'") for listed in SENSELESS),
            *((given, "not a mapping of topics") for given in (None, [1, 2, 3], 7)),
        ],
    )
    def test_weights_that_raise_or_make_no_sense_are_unknown_and_named(
        self, given: object, finding: str
    ) -> None:
        topics, (found,) = weigh([ORDERS], given)
        assert topics == [ORDERS]
        assert finding in found

    def test_known_unknown_and_missing(self) -> None:
        topics, findings = weigh([ORDERS, Topic("pays", 1)], {"orders": [5, None, 0], "else": [1]})
        assert [topic.weights for topic in topics] == [(5, None, 0), None]
        assert findings == []

    @pytest.mark.parametrize(
        ("entry", "shown"),
        [(-1, "-1"), (2**63, "9223372036854775808"), (1.0, "1.0"), (True, "True"), ("7", "'7'")],
    )
    def test_an_entry_that_is_no_weight_is_unknown_and_named(self, entry: object, shown: str) -> None:
        topics, (finding,) = weigh([ORDERS], {"orders": [1, entry, 2]})
        assert topics[0].weights == (1, None, 2)
        assert finding == (
            "1 weights of topic 'orders' are no whole numbers from 0 to 2^63 - 1, the first being "
            f"{shown} of partition 1: they are unknown"
        )


class TestFiles:
    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("{", "this is no JSON"),
            (b"\xff", "this is no JSON"),
            ("[" * 100_000, "this is no JSON"),
            ("[]", 'expected {"topics"'),
            ('{"orders": [1]}', 'expected {"topics"'),
            ('{"format": 2, "topics": {}}', "reads format 1, not 2"),
            ('{"topics": {"orders": 7}}', "the weights of topic 'orders' are no array"),
        ],
    )
    def test_an_invalid_weights_file_is_refused(self, text: str | bytes, problem: str) -> None:
        with pytest.raises(ValueError, match=r"^w\.json: ") as caught:
            parse_weights(text, "w.json")
        assert problem in str(caught.value)


def test_lag_is_what_lies_behind_the_committed_offset() -> None:
    committed = {("t", 0): 10, ("t", 1): 50, ("t", 3): -1}
    end = {("t", 0): 25, ("t", 1): 40, ("t", 2): 9, ("t", 3): 9}
    # The consumer of partition 1 read beyond the end (truncated since); 2 and 3 have no commit, 4 has no end.
    weights = LagSource("g", base=100).weigh(0.0, {"t": 5}, committed, end)
    assert weights == {"t": [115, 100, None, None, None]}


@pytest.mark.parametrize(
    ("source", "weight"),
    [(LagSource("g", base=3, sasl_plain_password="secret"), 12), (RateSource("g", base=3), 5000)],
    ids=["lag", "rate"],
)
def test_a_source_of_offsets_weighs_them_and_hides_its_settings(source: OffsetWeights, weight: int) -> None:
    source.weigh(0.0, {"orders": 2}, {("orders", 0): 5}, {("orders", 0): 12})
    assert source.weigh(1.0, {"orders": 2}, {("orders", 0): 5}, {("orders", 0): 14}) == {
        "orders": [weight, None]
    }
    assert repr(source) == f"{type(source).__name__}('g')"


@pytest.mark.parametrize("source", [LagSource, RateSource])
@pytest.mark.parametrize(("base", "error"), [(-1, ValueError), (True, TypeError), ("1", TypeError)])
def test_a_base_that_is_none_is_refused(
    source: Callable[..., object], base: object, error: type[Exception]
) -> None:
    with pytest.raises(error, match="base must be"):
        source("g", base=base)


class TestAsking:
    @pytest.mark.parametrize(("timeout_s", "session_timeout_s"), [(0.05, 45.0), (60.0, 0.15)])
    def test_never_longer_than_its_timeout_and_a_third_of_a_session(
        self, timeout_s: float, session_timeout_s: float
    ) -> None:
        source = WeightSource(lambda topics: {}, timeout_s)
        weighed = source.weigh(Coordinator(), [ORDERS], session_timeout_s, lambda *_: Future())
        assert weighed.topics == [ORDERS]
        assert "it did not answer within 0.05 s; all weights count as unknown" in weighed.findings[0]

    def test_without_an_answer_the_last_one_counts_and_the_finding_says_so(self) -> None:
        answers: list[Any] = [OSError("x"), {"orders": [1, 2, 3]}, OSError("y"), SystemExit(3)]

        def give(topics: Any) -> Any:
            answer = answers.pop(0)
            if isinstance(answer, BaseException):
                raise answer
            return answer

        source, consumer = WeightSource(give, 60.0), Coordinator()
        first, second, third = (source.weigh(consumer, [ORDERS], 180.0, ask_in_thread) for _ in range(3))
        assert first.topics == [ORDERS]
        assert "it raised OSError: x; all weights count as unknown" in first.findings[0]
        assert [topic.weights for topic in second.topics] == [(1, 2, 3)]
        assert second.findings == []
        assert third.topics == second.topics
        assert "it raised OSError: y; those it gave last are used" in third.findings[0]
        other = source.weigh(Coordinator(), [ORDERS], 180.0, ask_in_thread)
        assert other.topics == [ORDERS]
        assert "it raised SystemExit: 3" in other.findings[0]

    @pytest.mark.parametrize("error", [ValueError, SystemExit, StopIteration])
    def test_any_error_of_a_call_in_a_thread_ends_the_wait_for_it(self, error: type[BaseException]) -> None:
        """Before Python 3.12, an asyncio future refuses StopIteration, and its waiters wait forever."""

        def fail() -> None:
            raise error("a fault of the source")

        raised = call_in_thread(fail, name="tests").exception(120)
        assert raised is not None
        assert not isinstance(raised, StopIteration)
        assert isinstance(raised if raised.__cause__ is None else raised.__cause__, error)

    def test_a_source_that_has_not_answered_yet_is_not_asked_again(self) -> None:
        answered, asked = threading.Event(), []

        def slow(topics: Any) -> Any:
            assert answered.wait(120)
            return {"orders": [len(topics)] * 3}

        def ask(*call: Any) -> Future[Any]:
            asked.append(ask_in_thread(*call))
            return asked[-1]

        source, consumer = WeightSource(slow, 0.01), Coordinator()
        late = source.weigh(consumer, [ORDERS], 180.0, ask)
        assert "it did not answer within 0.01 s" in late.findings[0]
        again = source.weigh(consumer, [ORDERS], 180.0, ask)
        assert "it has not answered the last question yet" in again.findings[0]
        answered.set()
        assert asked[0].result(30) == {"orders": [1, 1, 1]}
        assert len(asked) == 1

    def test_an_answer_that_does_not_come_is_cancelled(self) -> None:
        asked: Future[Any] = Future()
        source, consumer = WeightSource(lambda topics: {}, 0.01), Coordinator()
        source.weigh(consumer, [ORDERS], 180.0, lambda *_: asked)
        assert asked.cancelled()
        cancelled = source.weigh(consumer, [ORDERS], 180.0, lambda *_: asked)
        assert "it was cancelled" in cancelled.findings[0]

    @pytest.mark.parametrize("source", ["lag", 7, dict])
    def test_a_weight_source_that_is_no_function_is_refused(self, source: Any) -> None:
        with pytest.raises(TypeError, match="weights must be a function"):
            Assignor(Weighted(), weights=source)

    @pytest.mark.parametrize("timeout", [0, -1, float("inf"), float("nan")])
    def test_a_time_that_is_none_is_refused(self, timeout: float) -> None:
        with pytest.raises(ValueError, match="weights_timeout_s must be above 0"):
            Assignor(Weighted(), weights=lambda topics: {}, weights_timeout_s=timeout)
