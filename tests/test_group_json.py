"""The JSON form: written groups can be read again, and an error names the path of the wrong value."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_assignors.announcements import Facts, encode_facts
from kafka_assignors.group import Assignment, Group, InvalidGroupError, Member, Topic
from kafka_assignors.group_json import InvalidFieldError, parse_group
from kafka_assignors_cli.group_form import assignment_to_json, group_to_json
from tests.test_announcements import FACTS

FULL: dict[str, Any] = {
    "format": 1,
    "generation": 8,
    "topics": {
        "orders": {"partitions": 2, "replica_racks": [["a", "b"], []], "id": "R2u4n-z9TCu5VQ9YBJzYxg"},
        "audit": {"partitions": 0},
    },
    "members": [
        {
            "id": "m1",
            "instance_id": "pod-0",
            "rack": "a",
            "topics": ["orders", "audit"],
            "owned": {"orders": [0, 1]},
            "generation": 7,
            "revoked": True,
            "data": "AP8=",
        },
        {"id": "m2", "topics": ["orders"]},
    ],
}

FULL_GROUP = Group.of(
    [Topic("orders", 2, (frozenset("ab"), frozenset()), "R2u4n-z9TCu5VQ9YBJzYxg"), Topic("audit", 0)],
    [
        Member(
            "m1",
            frozenset({"orders", "audit"}),
            instance_id="pod-0",
            rack="a",
            owned={"orders": [0, 1]},
            generation=7,
            revoked=True,
            data=b"\x00\xff",
        ),
        Member("m2", frozenset({"orders"})),
    ],
    generation=8,
)


MISSING = object()


def changed(*path: str | int, to: object) -> Any:
    """`FULL` with the value at `path` replaced, or without it."""
    form: Any = json.loads(json.dumps(FULL))
    if not path:
        return to
    at = form
    for step in path[:-1]:
        at = at[step]
    if to is MISSING:
        del at[path[-1]]
    else:
        at[path[-1]] = to
    return form


def test_every_key_is_read_and_written() -> None:
    assert parse_group(FULL) == FULL_GROUP
    first, second = FULL["members"]
    members = [{**first, "topics": ["audit", "orders"]}, second]
    assert group_to_json(FULL_GROUP) == {**FULL, "members": members}


ORDERS = ("topics", "orders")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ((), [], "the group: expected an object, found an array"),
        (("format",), 2, "format: this version reads format 1, not 2"),
        (("format",), True, "format: expected an integer, found true"),
        (("generation",), 2**31, "generation: 2147483648 does not fit"),
        (("topics",), MISSING, "topics: is missing"),
        (("topics", "a.b"), 3, 'topics["a.b"]: expected an object, found 3'),
        ((*ORDERS, "partitions"), -1, "topics.orders.partitions: a partition count cannot be negative"),
        ((*ORDERS, "partitions"), 2**31 - 1, "topics.orders.partitions: 2147483647 partitions are more"),
        ((*ORDERS, "replica_racks"), [["a"]], "topics.orders.replica_racks: expected"),
        ((*ORDERS, "replica_racks", 1), [None], "topics.orders.replica_racks[1][0]: expected a string"),
        ((*ORDERS, "id"), "orders", 'topics.orders.id: "orders" is no topic id'),
        *(((*ORDERS, "weights"), to, "topics.orders.weights") for to in ([5, -1], [5], "heavy")),
        *(((*ORDERS, "weights"), [5, to], "topics.orders.weights[1]") for to in (1.5, 2**63)),
        (("members", 0, "id"), MISSING, "members[0].id: is missing"),
        (("members", 0, "id"), "m2", "members[1].id: 'm2' is also the id of members[0]"),
        (("members", 1, "topics"), "orders", "members[1].topics: expected an array"),
        (("members", 0, "ownd"), {}, "members[0].ownd: there is no such key: did you mean 'owned'?"),
        (("members", 0, "colour"), 1, "members[0].colour: there is no such key: known are id, topics"),
        (("members", 0, "owned", "orders"), [0, True], "members[0].owned.orders[1]: expected an integer"),
        (("members", 0, "revoked"), 1, "members[0].revoked: expected true or false, found 1"),
        (("members", 0, "data"), "%%%", "members[0].data: expected base64, found '%%%'"),
        (("members", 0, "id"), "m\ud800", 'members[0].id: "m\\ud800" holds half a surrogate pair'),
        # Facts of a member.
        (
            ("members", 1, "capasity"),
            4,
            "members[1].capasity: there is no such key: did you mean 'capacity'?",
        ),
        (("members", 1, "capacity"), 0, "members[1].capacity: a capacity is between 1 and 10000, not 0"),
        (("members", 1, "share"), 10_001, "members[1].share: a share is between 0 and 10000"),
        (("members", 1, "release"), "", "members[1].release: a release is text of 1 to 255 bytes"),
        (("members", 0, "capacity"), 4, "members[0].data: give either data or facts"),
    ],
)
def test_an_invalid_value_is_named_by_its_path(path: tuple[Any, ...], value: object, message: str) -> None:
    with pytest.raises(InvalidGroupError) as caught:
        parse_group(changed(*path, to=value))
    assert str(caught.value).startswith(message)


def test_an_assignment_is_written_sorted_and_complete() -> None:
    assignment = Assignment({"m2": {}, "m1": {"b": range(2), "a": (3,)}})
    assert json.dumps(assignment_to_json(assignment)) == '{"m1": {"a": [3], "b": [0, 1]}, "m2": {}}'


names = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
int32 = st.integers(-(2**31), 2**31 - 1)


@st.composite
def topics(draw: st.DrawFn) -> Topic:
    partitions = draw(st.integers(0, 4))
    racks = st.lists(st.frozensets(names, max_size=3), min_size=partitions, max_size=partitions).map(tuple)
    known = st.none() | st.integers(0, 2**63 - 1)
    weights = st.lists(known, min_size=partitions, max_size=partitions).map(tuple)
    ids = st.just("R2u4n-z9TCu5VQ9YBJzYxg")
    return Topic(
        draw(names), partitions, draw(st.none() | racks), draw(st.none() | ids), draw(st.none() | weights)
    )


members = st.builds(
    Member,
    id=names,
    topics=st.frozensets(names, max_size=4),
    instance_id=st.none() | names,
    rack=st.none() | names,
    owned=st.dictionaries(names, st.lists(int32, max_size=4), max_size=3),
    generation=int32,
    revoked=st.booleans(),
    data=st.binary(max_size=16) | FACTS.map(encode_facts),
)
groups = st.builds(
    Group.of,
    st.lists(topics(), max_size=4, unique_by=lambda topic: topic.name),
    st.lists(members, max_size=4, unique_by=lambda member: member.id),
    st.none() | int32,
)


@given(groups)
def test_any_group_survives_the_way_through_json_text(group: Group) -> None:
    assert parse_group(json.loads(json.dumps(group_to_json(group)))) == group


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
paths: list[tuple[str | int, ...]] = [
    *((), ("format",), ("generation",), ("topics",), ORDERS, (*ORDERS, "replica_racks"), (*ORDERS, "id")),
    *(("members",), ("members", 0), *(("members", 0, key) for key in ("topics", "owned", "data"))),
]


@given(st.sampled_from(paths), json_values)
def test_any_json_value_anywhere_is_read_or_refused_by_path(
    path: tuple[str | int, ...], value: object
) -> None:
    where = path
    try:
        parse_group(changed(*path, to=value))
    except InvalidFieldError as error:
        where = error.path
    assert where[: len(path)] == path


def test_facts_that_say_nothing_are_no_data() -> None:
    unsaid = dict.fromkeys(("release", "share", "capacity", "rules"))
    member = {"id": "m1", "topics": [], **unsaid, "standby": False}
    assert parse_group({**FULL, "members": [member]}).members["m1"].data == b""


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\xff",  # not facts
        b"\x00\x02" + encode_facts(Facts(capacity=4))[2:],  # facts of a later version
        b"\x00\x01\x00",  # no facts, but not the bytes of none
        b"\x00\x01\x01\x04\x01\x00",  # standby: false, which is written by leaving it out
    ],
)
def test_bytes_that_the_facts_do_not_give_back_stay_base64(data: bytes) -> None:
    group = Group.of([], [Member("m1", frozenset(), data=data)])
    [member] = group_to_json(group)["members"]
    assert member["data"] == base64.b64encode(data).decode()
    assert parse_group(group_to_json(group)) == group
