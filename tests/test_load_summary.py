"""The load summary that a leader with weights puts into its assignments, and how other programs read it."""

from __future__ import annotations

import logging
import random

import pytest

from kafka_assignors.assignor import Assignor
from kafka_assignors.group import Topic
from kafka_assignors.join_sync import NEVER_ASSIGNED, JoinedMember, subscription_bytes
from kafka_assignors.live_group import LiveGroup, LiveMember, WeighedLoads, as_group
from kafka_assignors.load_trigger import LoadTrigger, judge_load, leads
from kafka_assignors.pause_model import Consumption
from kafka_assignors.quality import compare_strategies
from kafka_assignors.strategies import Sticky, Weighted
from kafka_assignors.wire import (
    ConsumerAssignment,
    LoadSummary,
    ProtocolError,
    decode_assignment,
    decode_load_summary,
    encode_assignment,
    encode_load_summary,
)
from kafka_assignors_cli.live_view import describe_json
from tests.weighed_groups import weighed

MOST = 2**63 - 1


class Leading(Assignor):
    log = logging.getLogger("leading")


WEIGHTS = (100, 10, 10, 10)


def assignments(*weights: int | None, stay_classic: bool | None = None) -> dict[str, bytes]:
    """The assignments that the leader sends to two members of a topic with these partition weights."""
    assignor = Leading(Weighted(), weights=lambda topics: {}, stay_classic=stay_classic)
    metadata = subscription_bytes(Weighted(), ["orders"], NEVER_ASSIGNED)
    members = assignor.read_members(JoinedMember(name, None, metadata) for name in "ab")
    topic = Topic("orders", 4, weights=weights or None)
    return dict(assignor.encode_assignments(members, [topic], 1).assignments)


def live(assigned: dict[str, bytes]) -> LiveGroup:
    members = tuple(LiveMember(name, name, "h").with_assignment(data) for name, data in assigned.items())
    return LiveGroup(
        "g", "classic", "Stable", "weighted", members=members, topics={"orders": Topic("orders", 4)}
    )


def summaries(assigned: dict[str, bytes]) -> dict[str, LoadSummary | None]:
    return {name: decode_load_summary(decode_assignment(data).user_data) for name, data in assigned.items()}


def test_each_member_is_told_its_load_and_the_bound() -> None:
    told = summaries(assignments(*WEIGHTS))
    assert sorted(one.load for one in told.values() if one is not None) == [30, 100]
    assert {(one.bound, one.unknown) for one in told.values() if one is not None} == {(100, 0)}


def test_the_bound_is_that_of_the_trigger_and_takes_no_search() -> None:
    weights = (10, 6, 6, 6)  # 10 and 6 must be together, which only a search finds.
    group = weighed({"orders": weights}, {"a": ["orders"], "b": ["orders"]}, {"a": {"orders": [0, 1, 2, 3]}})
    state = leads(LoadTrigger(), None, 0)
    _, judged = judge_load(LoadTrigger(), state, 30, group, Weighted(), Consumption.COOPERATIVE)
    told = summaries(assignments(*weights))
    assert {one.bound for one in told.values() if one is not None} == {judged.bound} == {14}


def test_unknown_weights_are_counted() -> None:
    assert {one.unknown for one in summaries(assignments(7, None, None, 1)).values() if one is not None} == {
        2
    }


def test_without_weights_nothing_is_told() -> None:
    assert set(summaries(assignments()).values()) == {None}


def test_a_group_that_need_not_stay_classic_has_no_user_data() -> None:
    sent = assignments(*WEIGHTS, stay_classic=False)
    assert {decode_assignment(data).user_data for data in sent.values()} == {b""}


@pytest.mark.parametrize("summary", [LoadSummary(0, 0, 0), LoadSummary(MOST, 1, 2**31 - 1)])
def test_a_summary_is_read_as_it_was_written(summary: LoadSummary) -> None:
    assert decode_load_summary(encode_load_summary(summary)) == summary


def test_a_number_that_does_not_fit_is_written_as_the_greatest_that_does() -> None:
    written = encode_load_summary(LoadSummary(2**70, 2**64, 2**40))
    assert decode_load_summary(written) == LoadSummary(MOST, MOST, 2**31 - 1)


def test_user_data_of_others_are_no_summary() -> None:
    good = encode_load_summary(LoadSummary(5, 4, 0))
    foreign = [b"", b"\0", b"\1", good + b"\0", b"\2" + good[1:], good[:1] + b"\xff" * 20]
    foreign += [good[:size] for size in range(len(good))]
    random_bytes = random.Random(1)
    foreign += [random_bytes.randbytes(size) for size in range(200) if size != len(good)]
    assert {decode_load_summary(data) for data in foreign} == {None}


def test_a_look_from_outside_shows_the_loads() -> None:
    group = live(assignments(*WEIGHTS))
    assert group.weighed == WeighedLoads(greatest=100, bound=100, unknown=0)
    about = describe_json(group, compare_strategies(as_group(group), [("sticky", Sticky())]))["about"]
    assert about["load"] == {"greatest": 100, "bound": 100, "unknown": 0}
    assert sorted(client["load"] for client in about["clients"].values()) == [30, 100]
    assert [note for note in about["notes"] if "no assignment could have less than 100" in note]


def test_loads_that_only_some_members_were_told_are_no_loads_of_the_group() -> None:
    sent = assignments(*WEIGHTS)
    assert live({**sent, "a": assignments()["a"]}).weighed is None
    other = decode_assignment(sent["a"])
    foreign = ConsumerAssignment(0, other.partitions, encode_load_summary(LoadSummary(5, 99, 0)))
    assert live({**sent, "a": encode_assignment(foreign)}).weighed is None


def test_an_assignment_that_does_not_decode_is_a_problem_and_not_a_crash() -> None:
    member = LiveMember("a", "a", "h").with_assignment(b"\xff\xff")
    assert (member.assigned, member.weighed) == ({}, None)
    with pytest.raises(ProtocolError) as error:
        decode_assignment(b"\xff\xff")
    assert member.problem == f"the assignment that its leader sent (0xffff): {error.value}"
