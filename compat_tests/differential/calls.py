"""The calls of the scenarios: every public method of each consumer, with valid and invalid arguments.

Calls that change nothing, are refused, or take effect at once run one after the other in one scenario of a
state (`IN_PLACE`). Every other call has its own scenario (`ALONE`), because it changes the consumer's state.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from compat_tests.differential.language import LONG_TEXT, Call, Given, Offset, Part, Scenario, TopicName, of

P0, P1, UNASSIGNED = Part(0), Part(1), Part(99)
ELSEWHERE, NOWHERE = Part(0, "elsewhere"), Part(0, "nowhere")
ORDERS = TopicName()
HUGE = 2**63 - 1

Calls = tuple[tuple[Call, ...], tuple[Call, ...]]
"""The calls made in place, and the calls made alone."""


def _each(method: str, *arguments_of_each: tuple[Any, ...], **options: Any) -> list[Call]:
    """A call of the method with each of these arguments."""
    return [of(method, *arguments, **options) for arguments in arguments_of_each]


def _look(*methods: str, **options: Any) -> list[Call]:
    one_of_each = (P0,), (UNASSIGNED,), (None,), ("orders",)
    return [call for method in methods for call in _each(method, *one_of_each, **options)]


CONSTRUCTING = tuple(
    of("__init__", only_type=True, **settings)
    for settings in (
        {},
        {"client_rack": ""},
        {"client_rack": "a"},
        {"client_rack": None},
        {"client_rack": 7},
        {"group_id": None},
        {"group_id": ""},
        {"group_id": 7},
        {"group_instance_id": "one"},
        {"group_instance_id": ""},
        {"partition_assignment_strategy": ()},
        {"partition_assignment_strategy": None},
        {"partition_assignment_strategy": "range"},
        {"auto_offset_reset": "never"},
        {"isolation_level": "none"},
        {"max_poll_records": 0},
        {"session_timeout_ms": "long"},
        {"session_timeout_ms": 1000, "heartbeat_interval_ms": 2000},
        {"bootstrap_servers": "nowhere"},
        {"unknown_setting": 1},
    )
)
"""Constructor calls."""

_QUERIES = [
    of("assignment"),
    of("subscription"),
    of("paused"),
    of("topics"),
    *_each("partitions_for_topic", (ORDERS,), (TopicName("nowhere"),), (None,)),
    *_each("beginning_offsets", ([P0],), ([],), (None,)),
    *_each("end_offsets", ([P0, P1],), ([],), ("orders",)),
    *_each("offsets_for_times", ({P0: 0},), ({P0: -1},), ({P0: HUGE},), ({P0: "now"},), ({},), (None,)),
]

_NO_OR_ONE = (P0,), (), (UNASSIGNED,), (None,)
"""Arguments of methods that take any number of partitions."""

_IN_PLACE = [
    *_QUERIES,
    *_look("highwater", "committed", "position"),
    *_each("seek", (P0, 1), (P0, 0), (P0, HUGE), (P0, 3), (P0, -1), (P0, "1"), (P0, None)),
    *_each("seek", (UNASSIGNED, 1), (None, 1), (P0, 3)),
    *_each("seek_to_beginning", *_NO_OR_ONE, ("orders",)),
    *_each("seek_to_end", *_NO_OR_ONE, ("orders",)),
    *_each("pause", (P0,), (UNASSIGNED,), (None,), ()),
    *_each("resume", (P0,), (UNASSIGNED,), (None,), ()),
    of("assign", None),
    *_each("subscribe", (), (None,)),
    of("subscribe", [ORDERS], listener="listener"),
    of("subscribe", [ORDERS], pattern="^orders"),
    of("subscribe", pattern="("),
]

UNSENDABLE_SEEK = of("seek", P0, 2**64)
"""A seek to an offset that no request can carry."""

_ALONE = [
    UNSENDABLE_SEEK,
    *_each("assign", ([P0],), ([],), (["orders"],), ([ELSEWHERE, UNASSIGNED],)),
    *_each("subscribe", ([ORDERS],), ([TopicName("elsewhere")],), ([ORDERS, TopicName("nowhere")],)),
    of("subscribe", [ORDERS], listener=Given("another listener")),
    of("subscribe", pattern=Given("pattern")),
    of("unsubscribe"),
    *_each("subscribe", ([None],), (ORDERS,)),
]


def _commits(*offsets: object, **options: Any) -> list[Call]:
    return _each("commit", *((each,) for each in offsets), **options)


AIOKAFKA: Calls = (
    (
        *_IN_PLACE,
        *_look("last_stable_offset", "last_poll_timestamp"),
        *_each("seek_to_committed", *_NO_OR_ONE),
        of("commit"),
        *_commits({P0: 1}, {P0: 2, P1: 2}, {P0: (3, "mark")}, {}, {P0: -1}, {P0: "1"}, {P0: None}, "offsets"),
        *_commits(
            {UNASSIGNED: 1}, {NOWHERE: 1}, {ELSEWHERE: 1}, {None: 1}, {P0: (1, None)}, {P0: (None, "")}
        ),
        *_commits({P0: (1, LONG_TEXT)}, {P0: 2**64}, {P0: HUGE}, {P0: 1}),
        of("committed", P0),
        of("getmany", max_records=0),
        of("getmany", max_records="1"),
        of("getmany", timeout_ms="1"),
        of("__aiter__", only_type=True),
        of("__del__"),
        of("start"),
        of("__aenter__"),
        of("wait_for_assignment", timeout_ms=50),
        of("wait_for_assignment", timeout_ms="1"),
        of("enforce_rebalance"),
    ),
    (
        *_ALONE,
        of("drain", timeout_ms=50),
        *_each("getone", (), (P0,), (UNASSIGNED,), (None,)),
        of("getmany"),
        of("getmany", timeout_ms=50),
        of("getmany", timeout_ms=-1),
        of("getmany", P0, timeout_ms=50, max_records=1),
        of("getmany", UNASSIGNED, timeout_ms=50),
        of("__anext__"),
        of("stop"),
        of("__aexit__", None, None, None),
    ),
)

A_WHILE = Given("a while")
"""The timeout of kafka-python calls that take one."""

_OTHERWISE = ("committed", "position", "seek_to_end", "assign")
"""Methods with a timeout, or with a lasting effect."""

KAFKA_PYTHON: Calls = (
    (
        *(call for call in _IN_PLACE if call.method not in _OTHERWISE),
        *_look("committed", "position", timeout_ms=A_WHILE),
        of("committed", P0, metadata=True, timeout_ms=A_WHILE),
        *_commits(
            {P0: Offset(1)}, {P0: Offset(2), P1: Offset(2)}, {P0: Offset(3, "mark")}, timeout_ms=A_WHILE
        ),
        *_commits(
            {}, {P0: Offset(-1)}, {P0: Offset(1, None)}, {P0: Offset(1, LONG_TEXT)}, timeout_ms=A_WHILE
        ),
        *_commits({P0: Offset(HUGE)}, {P0: 1}, {P0: None}, "offsets", timeout_ms=A_WHILE),
        *_commits(
            *({tp: Offset(1)} for tp in (UNASSIGNED, NOWHERE, ELSEWHERE, None)),
            timeout_ms=A_WHILE,
        ),
        of("commit", timeout_ms=A_WHILE),
        of("commit", {P0: Offset(1)}, timeout_ms=-1),
        *_each("commit_async", ({P0: Offset(1)},), ({P0: 1},), ()),
        of("committed", P0, timeout_ms=A_WHILE),
        of("group_metadata", only_type=True),
        of("metrics", only_type=True),
        of("metrics", raw=True, only_type=True),
        of("bootstrap", timeout_ms=A_WHILE),
        of("bootstrap_connected"),
        of("poll", timeout_ms=-1),
        of("poll", max_records=0),
        of("poll", max_records="1"),
        of("poll", timeout_ms="1"),
        of("__iter__", only_type=True),
        of("__enter__"),
        of("DEFAULT_CONFIG", only_type=True),
        of("DEFAULT_SESSION_TIMEOUT_MS_PRE_KIP_735"),
        of("enforce_rebalance"),
    ),
    (
        *_ALONE,
        *_each("seek_to_end", *_NO_OR_ONE),
        of("commit_async", {P0: Offset(2)}, callback=Given("callback")),
        of("assign", None),
        # These calls break the connection to the coordinator.
        *_commits({P0: Offset("1")}, {P0: Offset(None)}, {P0: Offset(2**64)}, timeout_ms=A_WHILE),
        *_each("commit_async", ({P0: Offset(None)},), ({P0: Offset(1, LONG_TEXT)},)),
        of("drain", timeout_ms=50),
        of("poll"),
        of("poll", timeout_ms=A_WHILE),
        of("poll", timeout_ms=A_WHILE, max_records=1, only_type=True),
        of("__next__"),
        of("close"),
        of("close", autocommit=False),
        of("close", timeout_ms=0),
        of("__exit__", None, None, None),
    ),
)


# ---- the scenarios of a client: its calls in each of its states

CONSTRUCTING_STATE = "not constructed"

_STARTING = ("start", "__aenter__")
"""Methods that change the state of a consumer that is not started, and that a started consumer refuses."""


def scenarios_of(state: str, calls: Calls) -> Iterable[Scenario]:
    """Each call in this state: one scenario for all calls in place, and one for each other call."""
    if state == CONSTRUCTING_STATE:
        yield Scenario(state, CONSTRUCTING, "constructors")
        return
    in_place, alone = calls
    is_started = not (state.startswith("not started") or state == "closed before start")
    starts = [] if is_started else [call for call in in_place if call.method in _STARTING]
    yield Scenario(state, tuple(call for call in in_place if call not in starts), "calls in place")
    for call in (*starts, *alone):
        yield Scenario(state, (call,))


def sampled(scenarios: Iterable[Scenario]) -> list[Scenario]:
    """The scenarios of a default run: all calls in place, and a third of the others, shifted by state.

    Every state is included, and every method in some states.
    """
    states: dict[str, int] = {}
    return [
        each
        for number, each in enumerate(scenarios)
        if each.name or (number + states.setdefault(each.state, len(states))) % 3 == 0
    ]
