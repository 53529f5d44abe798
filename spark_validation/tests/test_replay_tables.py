"""The tables of `kafka-assignors replay` at several widths, without Spark."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.console import RenderableType

from kafka_assignors_replay.replay_tables import failure_lines, replay_renderables
from spark_validation.tests.report_sample import BREAKING_OUT, HOSTILE, LINKING, sample
from tests.golden_tables.check import WIDTHS, assert_as_before, assert_legible, rendered

NAMES = {
    "payments": "payments-settlement-eu-west-1-consumer",
    HOSTILE: "billing",
    BREAKING_OUT: "orders-fulfilment-us-east-2-consumer",
    LINKING: "checkout",
}


def renderables() -> list[RenderableType]:
    """A result of groups with real names; one group moves a million partitions."""
    made = sample()
    return replay_renderables(
        replace(
            made,
            groups=tuple(replace(each, group=NAMES[each.group]) for each in made.groups),
            verdicts=tuple(
                replace(
                    each, group=NAMES[each.group], moved=each.moved * (31_847 if each.group == HOSTILE else 1)
                )
                for each in made.verdicts
            ),
        )
    )


@pytest.mark.parametrize("width", WIDTHS)
def test_a_replay_is_printed_as_before(width: int) -> None:
    assert_as_before("replay", renderables(), width)


@pytest.mark.parametrize("width", range(60, 221, 4))
def test_groups_and_numbers_are_whole_at_every_width(width: int) -> None:
    numbers = ["1,274,000", "382,200", "-891,716", "1.60 (2.40)", "1.10 (1.65)"]
    assert_legible(rendered(renderables(), width), width, NAMES.values(), numbers)


def test_a_strategy_that_fails_in_many_groups_takes_two_lines() -> None:
    failed = next(each for each in sample().verdicts if each.failed)
    many = [replace(failed, group=f"group-{number}", failed=2) for number in range(919)]
    first, second = failure_lines(many)
    assert (
        first
        == f"{failed.strategy} failed in 1,838 rebalances of 919 groups ({failed.mode.value}); the first:"
    )
    assert second.startswith(f"{failed.strategy} failed in 2 rebalances of group-0 ({failed.mode.value}): ")
    assert len(list(failure_lines(many[:5]))) == 5


def test_of_many_topics_without_a_catalogue_entry_the_first_are_named() -> None:
    made = sample()
    first, *others = made.groups
    inferred = replace(first, inferred_topics=tuple(f"topic-{number}" for number in range(7)))
    shown = rendered(replay_renderables(replace(made, groups=(inferred, *others))), 200)
    assert "  7 topics without a catalogue entry, whose partition counts are inferred" in shown
    assert "topic-0, topic-1, topic-2, topic-3, topic-4, …" in shown
