"""`kafka-assignors groups`, as far as it needs no cluster."""

from __future__ import annotations

import dataclasses
import json

import pytest
from rich.console import Console

from kafka_assignors.assignor import Assignor
from kafka_assignors.group import Topic, Warmth
from kafka_assignors.group_json import parse_group
from kafka_assignors.messages import LastAssignment
from kafka_assignors.strategies import CooperativeSticky, Sticky
from kafka_assignors_cli import options
from kafka_assignors_ops import groups_command
from kafka_assignors_ops.comparison import compare_strategies
from kafka_assignors_ops.groups_view import describe_json, description, group_list, summary_json
from kafka_assignors_ops.live_group import LiveGroup, LiveMember, as_group

LIVE = LiveGroup(
    "g",
    "consumer",
    "Stable",
    "uniform",
    members=(
        LiveMember("a", "a", "127.0.0.1", assigned={"orders": [0, 1, 2]}),
        LiveMember("b", "b", "127.0.0.1", assigned={}),
    ),
    topics={"orders": Topic("orders", 3)},
)


def test_a_registered_strategy_that_does_not_load_is_noted_and_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(options, "strategy_names", lambda: ["no_such_module:S", "sticky", "kip848-uniform"])
    assert [name for name, _ in groups_command._strategies(None)] == ["sticky"]
    assert "no_such_module" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("live", "figures"),
    [
        (LIVE, (2, 1, 3, 2.0)),
        # A group that rebalances has no figures rather than wrong ones.
        (
            LiveGroup("g", "classic", "Rebalancing", members=(LiveMember("a", "a", "h"),)),
            (1, None, None, None),
        ),
    ],
)
def test_a_summary_counts_idle_members_and_the_imbalance(
    live: LiveGroup, figures: tuple[object, ...]
) -> None:
    summary = summary_json(live)
    assert tuple(summary[name] for name in ("members", "idle", "partitions", "max_over_mean")) == figures


def test_the_json_form_of_a_running_group_is_read_back_as_the_same_group() -> None:
    form = json.loads(
        json.dumps(describe_json(LIVE, compare_strategies(as_group(LIVE), [("sticky", Sticky())])))
    )
    assert parse_group(form) == as_group(LIVE)
    assert form["about"]["strategies"]["sticky"]["moved"] == form["about"]["least_moved"] == 1
    assert "KIP-848" in form["about"]["notes"][0]


def text_of(*parts: object) -> str:
    console = Console(width=80)
    with console.capture() as capture:
        console.print(*parts, sep="\n")
    return capture.get()


def test_a_name_of_any_length_fills_a_few_lines() -> None:
    group = dataclasses.replace(LIVE, id="n" * 3_000, problems=("something is not shown",))
    assert text_of(*group_list([group])).count("\n") < 25
    assert text_of(*description(group, compare_strategies(as_group(group), []))).count("\n") < 25


def test_bytes_that_do_not_decode_are_shown_with_their_sender() -> None:
    member = LiveMember("a", "a", "h").with_metadata(b"\xff").with_assignment(b"\0\0" + b"\x7f" * 19)
    live = LiveGroup("g", "classic", "Stable", members=(member,))
    said = " ".join(text_of(*description(live, None)).split())
    assert "bytes of 1 member do not decode, the first being 'a'" in said
    assert "the subscription it joined with (0xff): " in said
    assert f"the assignment that its leader sent (0x0000{'7f' * 14} and 5 more bytes): " in said


def test_a_note_says_what_a_member_warms() -> None:
    warmth = Warmth(2, True, 5, 1, {"orders": [1]}, {"orders": [2]})
    metadata = Assignor(CooperativeSticky()).subscription_with(
        LastAssignment({}, 5), ["orders"], None, held=True, warmth=warmth
    )
    warms = LiveMember("b", "b", "127.0.0.1", assigned={}).with_metadata(metadata)
    live = dataclasses.replace(LIVE, group_type="classic", protocol="cooperative-sticky", members=(warms,))
    notes = describe_json(live, compare_strategies(as_group(live), [("sticky", Sticky())]))["about"]["notes"]
    assert "member 'b' warmed 2 partitions, 1 of them ready, when it joined last and drains" in notes
