"""The geometry of the report's plots, and the differences in its tables."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from kafka_assignors_replay.report import plots
from kafka_assignors_replay.report.as_html import html_report
from kafka_assignors_replay.result import RECORDED, Mode, OwnershipSpan, TimelineRow
from spark_validation.tests.report_sample import result_of, summary, timeline, verdict

BEGIN = datetime(2026, 3, 1, 12, 0, tzinfo=timezone.utc)
NAMES = (RECORDED, "range", "sticky")


def measured(row: TimelineRow, **measures: float) -> TimelineRow:
    return row._replace(measures=row.measures._replace(**measures))


def rows(strategy: str, *points: tuple[int, int]) -> list[TimelineRow]:
    """Rebalances of one strategy: the seconds since `BEGIN`, and the number of moved partitions."""
    [like, *_] = timeline("g", strategy, Mode.STEADY_STATE, 0)
    return [
        measured(like, moved=moved)._replace(timestamp=BEGIN + timedelta(seconds=second), generation=number)
        for number, (second, moved) in enumerate(points, 1)
    ]


def test_bars_have_one_scale_that_the_longest_bar_or_stroke_fills() -> None:
    drawn = plots.bars(
        [
            verdict("g", RECORDED, moved=40, least_moved=80),
            verdict("g", "range", moved=20),
            verdict("g", "sticky", moved=0),
        ],
        NAMES,
    )
    assert [(bar.width, bar.least_at, bar.look) for bar in drawn] == [(500, 1000, 0), (250, 0, 1), (0, 0, 2)]


def test_nothing_that_moved_and_rebalances_of_one_moment_can_be_drawn() -> None:
    assert [bar.width for bar in plots.bars([verdict("g", "range")], NAMES)] == [0]
    assert plots.moved_over_time([], NAMES) is None
    for draw in (plots.moved_over_time, plots.balance_over_time):
        plot = draw(rows("range", (0, 0)), NAMES)
        assert plot is not None
        assert [line.path[:3] for line in plot.lines] == ["M0 "]


def test_moves_are_summed_up_to_a_line_of_steps() -> None:
    plot = plots.moved_over_time(rows("range", (0, 1), (10, 0), (20, 2), (40, 0)), NAMES)
    assert plot is not None
    assert plot.ticks == ("4", "2", "0")
    assert [line.path for line in plot.lines] == ["M0 750H500V250H1000"]


def test_rebalances_of_one_thousandth_are_one_dot_and_one_step() -> None:
    many = rows("range", *((second, 1) for second in range(100_000)))
    period, [strip] = plots.timeline(many, [summary("g")])
    assert period == plots.Period(many[0].timestamp, many[-1].timestamp)
    assert len(strip.dots) == 1001
    assert sum(dot.moved for dot in strip.dots) == 100_000
    assert strip.dots[500].title == "generations 49951 to 50050: 100 moved"
    assert max(dot.radius for dot in strip.dots) == 9.0
    plot = plots.moved_over_time(many, NAMES)
    assert plot is not None
    assert len(plot.lines[0].path) < 20_000


def test_a_line_shows_the_worst_balance_of_a_thousandth() -> None:
    spike = [
        measured(row, max_over_mean=3.0 if row.generation == 2 else 1.0)
        for row in rows("range", (0, 0), (1, 0), (2, 0), (100_000, 0))
    ]
    plot = plots.balance_over_time(spike, NAMES)
    assert plot is not None
    assert [line.path for line in plot.lines] == ["M0 0H1000V1000H1000"]


def span(member: str, partition: int, begin: int, end: int) -> OwnershipSpan:
    seconds = [BEGIN + timedelta(seconds=second) for second in (begin, end)]
    return OwnershipSpan("g", "orders", partition, member, *seconds)


def test_an_owner_is_a_line_for_each_span_with_a_gap_at_its_end() -> None:
    plot = plots.ownership(
        [span("a", 0, 0, 50), span("b", 0, 50, 100), span("a", 10, 0, 100), span("b", 2, 0, 0)]
    )
    assert plot is not None
    assert plot.partitions == ("orders-0", "orders-2", "orders-10")
    assert {owner.member: owner.path for owner in plot.owners} == {
        "a": "M0 0.5h498M0 2.5h998",
        "b": "M0 1.5h1M500 0.5h498",
    }


@pytest.mark.parametrize(
    ("name", "width", "shown"),
    [("orders-1", 20, "orders-1"), ("abcdefghijkl", 8, "abc…ijkl"), ("支払い支払い", 8, "支…払い")],
)
def test_a_long_name_loses_its_middle(name: str, width: int, shown: str) -> None:
    assert plots.shortened(name, width) == shown


def test_a_difference_is_the_one_of_the_figures_beside_it() -> None:
    """1,000.4 and 900.6 are shown as 1,000 and 901, so the reader's difference is 99, not 100."""
    figures = (
        verdict("g", RECORDED, moved=9, paused_s=1000.4, rack_misses=4),
        verdict("g", "range", moved=10, paused_s=900.6, rack_misses=4, load_stddev=-1.0),
    )
    document = " ".join(html_report(result_of(*figures)).split())
    assert '9 → 10 <span class="delta not-ok">+1</span>' in document
    assert '1,000 → 901 <span class="delta ok">−99</span>' in document
    assert 'data-label="rack misses">4</td>' in document
