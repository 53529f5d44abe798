"""The work of a leader, with a client of a few lines; the tests of the two clients cover real ones."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Set
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_assignors.assignor import Assignor
from kafka_assignors.group import Assignment, Group, Topic
from kafka_assignors.messages import EncodedAssignments, JoinedMember, JoinGroupResponse, LastAssignment
from kafka_assignors.rebalance import MemberState, Settings, lease
from kafka_assignors.rebalance.events import NO_MEMBERSHIP, Membership
from kafka_assignors.rebalance.lead import MOST_THREADS, Leader, LeaderThreads
from kafka_assignors.strategies import CooperativeSticky, RackAwareSticky
from kafka_assignors.strategy import Strategy
from kafka_assignors.wire import decode_assignment
from kafka_assignors_strategies import Weighted

TOPICS = [Topic("orders", 4), Topic("bills", 2)]
LOG = "tests.lead"


class OfTests(Assignor):
    log = logging.getLogger(LOG)


@dataclass(eq=False)
class Client:
    """A client. `during` is called in each thread, with the function called, and in `watch`."""

    known: list[Topic] = field(default_factory=lambda: list(TOPICS))
    member: MemberState = field(
        default_factory=lambda: MemberState(
            Settings(45, 300, 300), topics=frozenset({"orders"}), membership=Membership("a", 7)
        )
    )
    weights: Mapping[str, Any] | Exception = field(default_factory=lambda: OSError("none in tests"))
    during: Callable[[str], None] = lambda _: None
    done: list[Any] = field(default_factory=list)

    async def in_thread(self, function: Callable[..., Any], *arguments: Any) -> Any:
        called = function.func if isinstance(function, partial) else function
        self.done.append(called.__name__)
        self.during(called.__name__)
        return function(*arguments)

    def ask(self, source: Any, topics: Mapping[str, int]) -> Future[Any]:
        self.done.append(("ask", dict(topics)))
        answer: Future[Any] = Future()
        if isinstance(self.weights, Exception):
            answer.set_exception(self.weights)
        else:
            answer.set_result(self.weights)
        return answer

    async def watch(self, topics: Set[str], *, racks: bool, waits: bool) -> None:
        self.done.append(("watch", sorted(topics), racks, waits))
        self.during("watch")

    def remember_topics(self) -> Callable[[Iterable[str]], list[Topic]]:
        self.done.append("remember")
        known = tuple(self.known)
        return lambda names: [topic for topic in known if topic.name in names]

    def leaves(self, **changes: Any) -> None:
        self.member = replace(self.member, membership=NO_MEMBERSHIP, **changes)


def joining(
    strategy: Strategy, member_id: str, *topics: str, rack: str | None = None, owned: Mapping[str, Any] = {}
) -> JoinedMember:
    last = LastAssignment(owned, 6)
    data = Assignor(strategy).subscription_with(last, topics or ("orders",), None, rack, held=True)
    return JoinedMember(member_id, None, data)


def lead(
    client: Client, assignor: Assignor, *members: JoinedMember, waits: bool = False
) -> EncodedAssignments | None:
    given: Any = client
    leader = Leader(given, "g", logging.getLogger(LOG))
    joined = JoinGroupResponse(0, "a", 7, "a", assignor.name, members)
    return asyncio.run(leader.lead(assignor, joined, waits=waits))


def partitions_of(outcome: EncodedAssignments | None) -> dict[str, Any]:
    assert outcome is not None
    return {
        member: {topic: list(numbers) for topic, numbers in decode_assignment(data).partitions.items()}
        for member, data in outcome.assignments.items()
    }


PAIR = (
    joining(CooperativeSticky(), "a", owned={"orders": [0, 1]}),
    joining(CooperativeSticky(), "b", "orders", "bills"),
)


@pytest.mark.parametrize("waits", [False, True])
def test_topics_of_the_group_are_watched_before_they_are_read_and_the_assignment_is_made_in_threads(
    waits: bool,
) -> None:
    client = Client()
    outcome = lead(client, OfTests(CooperativeSticky()), *PAIR, waits=waits)
    assert client.done == [
        "read_members",
        ("watch", ["bills", "orders"], False, waits),
        "remember",
        "_assign",
    ]
    assert partitions_of(outcome) == {"a": {"orders": [0, 1, 2]}, "b": {"bills": [0, 1], "orders": [3]}}


@pytest.mark.parametrize(("rack", "follows"), [(None, False), ("east", True)])
def test_racks_are_followed_if_the_strategy_uses_them_and_a_member_has_one(
    rack: str | None, follows: bool
) -> None:
    client, strategy = Client(), RackAwareSticky()
    lead(client, OfTests(strategy), joining(strategy, "a"), joining(strategy, "b", rack=rack))
    assert ("watch", ["orders"], follows, False) in client.done


# ---- weights


def test_the_weights_of_the_source_count() -> None:
    client, strategy = Client(weights={"orders": [9, 1, 1, 1]}), Weighted()
    assignor = OfTests(strategy, weights=lambda topics: {})
    outcome = lead(client, assignor, joining(strategy, "a"), joining(strategy, "b"))
    assert client.done[-3:] == ["_weighed", ("ask", {"orders": 4}), "_assign"]
    assert sorted(len(one["orders"]) for one in partitions_of(outcome).values()) == [1, 3]


@pytest.mark.parametrize("closing", [False, True])
def test_a_lookup_that_fails_is_told_unless_the_consumer_closes(
    closing: bool, caplog: pytest.LogCaptureFixture
) -> None:
    client, strategy = Client(), Weighted()
    client.during = lambda called: client.leaves(closing=True) if closing and called == "_weighed" else None
    lead(client, OfTests(strategy, weights=lambda topics: {}), joining(strategy, "a"))
    assert ("no weights from" in caplog.text) is not closing


# ---- failures


class Raises(CooperativeSticky):
    name = "raises"

    def assign(self, group: Group) -> Assignment:
        raise ZeroDivisionError("a fault of the strategy")


def test_what_a_strategy_raises_is_logged_with_its_name_and_raised(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ZeroDivisionError):
        lead(Client(), OfTests(Raises()), joining(Raises(), "a"))
    (record,) = caplog.records
    assert record.getMessage() == "strategy 'raises' failed in group 'g'"
    assert record.exc_info is not None


# ---- a group that goes on without its leader


def test_a_leader_that_is_out_of_the_group_says_so_and_its_assignment_is_dropped(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, clock = Client(), SimpleNamespace(now=0.0)
    monkeypatch.setattr(lease, "clock", lambda: clock.now)

    def expelled(function: str) -> None:
        if function == "_assign":
            clock.now += 301.5
            client.leaves()

    client.during = expelled
    assert lead(client, OfTests(CooperativeSticky()), *PAIR) is None
    (warning,) = caplog.messages
    assert "group 'g' went on without this consumer, the leader of generation 7" in warning
    assert "'cooperative-sticky' has not finished after 301.5 s" in warning
    assert "which is 300 s here: raise it, or use a faster strategy" in warning


def test_a_failure_after_that_concerns_no_one() -> None:
    client = Client()
    client.during = lambda function: client.leaves() if function == "_assign" else None
    assert lead(client, OfTests(Raises()), joining(Raises(), "a")) is None


def test_a_client_that_cancels_the_work_hears_why(caplog: pytest.LogCaptureFixture) -> None:
    client = Client()

    def cancelled(_: str) -> None:
        client.leaves()
        raise asyncio.CancelledError

    client.during = cancelled
    with pytest.raises(asyncio.CancelledError):
        lead(client, OfTests(CooperativeSticky()), *PAIR)
    assert "went on without this consumer" in caplog.messages[0]


@pytest.mark.parametrize("during", ["read_members", "watch"])
@pytest.mark.parametrize(
    "why", [{"closing": True}, {"poll_interval_exceeded": True}, {"topics": frozenset()}]
)
def test_a_member_that_left_by_itself_does_nothing_more_and_is_not_told(
    why: dict[str, Any], during: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its client may watch the topics of another subscription by then."""
    client = Client(known=[])  # Leaving ends the request for metadata.
    client.during = lambda what: client.leaves(**why) if what == during else None
    assert lead(client, OfTests(CooperativeSticky()), *PAIR) is None
    assert during in client.done[-1]
    assert caplog.messages == []


# ---- threads


def test_calls_that_do_not_return_are_bounded_and_named() -> None:
    threads, released = LeaderThreads("g"), threading.Event()
    calls = [threads.call(released.wait, 60) for _ in range(MOST_THREADS)]
    try:
        running = [thread for thread in threading.enumerate() if thread.name == "kafka-assignors-leader"]
        assert [thread.daemon for thread in running] == [True] * MOST_THREADS
        with pytest.raises(RuntimeError, match=f"'g' has not returned from {MOST_THREADS} calls"):
            threads.call(int)
    finally:
        released.set()
    assert [call.result(60) for call in calls] == [True] * MOST_THREADS
    for thread in running:
        thread.join(60)
    assert threads.call(int, "7").result(60) == 7
