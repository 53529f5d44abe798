"""The conclusions of a replay's reports, and that no text in them can run as code."""

from __future__ import annotations

import gc
import json
import re
import tracemalloc
from dataclasses import fields, replace
from datetime import timedelta
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from kafka_assignors.strategies import strategy_names
from kafka_assignors_cli.output_files import write_lines
from kafka_assignors_replay.history.pause_model import PauseModel
from kafka_assignors_replay.replay_tables import print_replay
from kafka_assignors_replay.report import findings
from kafka_assignors_replay.report.as_html import html_report
from kafka_assignors_replay.report.as_json import json_report_lines
from kafka_assignors_replay.result import RECORDED, Mode, Verdict
from spark_validation.tests.replaying import json_report
from spark_validation.tests.report_sample import GROUPS, HOSTILE, result_of, sample, verdict
from tests.hostile_names import assert_harmless


def of_g(strategy: str, mode: Mode = Mode.STEADY_STATE, **measures: Any) -> Verdict:
    return verdict("g", strategy, mode, **measures)


def finding_of(*verdicts: Verdict) -> findings.GroupFinding:
    [finding] = findings.find(result_of(*verdicts))
    return finding


BEST: dict[str, tuple[tuple[Verdict, ...], str, tuple[str, ...]]] = {
    "of equal balance the one that moves least": (
        (of_g(RECORDED, moved=9), of_g("roundrobin", moved=8), of_g("sticky", moved=3)),
        "sticky",
        (),
    ),
    "balance before movement": (
        (of_g(RECORDED, moved=3, load_stddev=1.0), of_g("sticky", moved=9, load_stddev=0.0)),
        "sticky",
        (),
    ),
    "a twentieth of a partition is no better balance": (
        (of_g(RECORDED, moved=3, load_stddev=0.04), of_g("sticky", moved=9, load_stddev=0.0)),
        RECORDED,
        (),
    ),
    "production wins a tie": ((of_g(RECORDED, moved=3), of_g("sticky", moved=3)), RECORDED, ("sticky",)),
    "less pause at as few moves": (
        (
            of_g(RECORDED, moved=3, paused_s=240.0),
            of_g("sticky", moved=3, paused_s=240.0),
            of_g("cooperative-sticky", moved=3, paused_s=30.0),
        ),
        "cooperative-sticky",
        ("sticky",),
    ),
    "a hundredth less of pause is no reason": (
        (of_g(RECORDED, moved=3, paused_s=100.0), of_g("sticky", moved=3, paused_s=99.5)),
        RECORDED,
        ("sticky",),
    ),
    "of equals a cooperative strategy is named first": (
        (of_g(RECORDED, moved=9), of_g("sticky", moved=3), of_g("cooperative-sticky", moved=3)),
        "cooperative-sticky",
        ("sticky",),
    ),
    "never one that failed": ((of_g(RECORDED, moved=9), of_g("sticky", moved=1, failed=1)), RECORDED, ()),
}


@pytest.mark.parametrize(("verdicts", "best", "equals"), BEST.values(), ids=BEST)
def test_the_best_strategy_of_a_group(
    verdicts: tuple[Verdict, ...], best: str, equals: tuple[str, ...]
) -> None:
    finding = finding_of(*verdicts)
    assert (finding.best.strategy, finding.equals) == (best, equals)


def test_a_pause_within_the_noise_of_the_model_is_shown_as_no_change() -> None:
    before, after = of_g(RECORDED, moved=9, paused_s=1000.0), of_g("sticky", moved=3, paused_s=1006.0)
    document = html_report(result_of(before, after))
    assert ">−6</span>" in " ".join(document.split())
    assert "+6" not in document
    assert "+11" in html_report(result_of(before, replace(after, paused_s=1011.0)))


def test_each_card_of_a_change_has_the_command_to_take_next() -> None:
    document = html_report(result_of(verdict("a b", RECORDED, moved=9), verdict("a b", "sticky", moved=3)))
    assert "lint --bootstrap-server BROKER:9092 --group &#39;a b&#39; --change-to sticky" in document


def test_a_client_that_is_eager_all_the_same_saves_no_pauses() -> None:
    result = result_of(
        of_g(RECORDED, moved=3, paused_s=240.0), of_g("cooperative-sticky", moved=3, paused_s=30.0)
    )
    stops = replace(result, groups=(replace(result.groups[0], eager_clients=("aiokafka",)),))
    [finding] = findings.find(stops)
    assert (finding.best.strategy, finding.saved_paused_s_per_day) == (RECORDED, 0.0)
    assert (finding.gains, finding.trades, finding.suggests) == (False, False, True)
    assert findings.sentence(finding) == (
        "30 instead of 240 paused partition-seconds in 12 minutes with the cooperative consumer"
    )
    assert findings.headline([finding]) == "1 would gain from the cooperative consumer alone"


@pytest.mark.parametrize(
    ("figure", "recorded", "changed"),
    [
        ("moved partitions", {"moved": 3}, {"moved": 4}),
        ("paused partition-seconds", {"paused_s": 100.0}, {"paused_s": 102.0}),
        ("rack misses", {"rack_misses": 552}, {"rack_misses": 834}),
        ("fullest / mean", {"max_over_mean": 1.2}, {"max_over_mean": 1.21}),
    ],
)
def test_a_change_that_makes_a_shown_figure_worse_is_a_trade_off(
    figure: str, recorded: dict[str, Any], changed: dict[str, Any]
) -> None:
    before = of_g(RECORDED, load_stddev=1.0, **recorded)
    finding = finding_of(before, of_g("sticky", load_stddev=0.1, **changed))
    assert (finding.gains, finding.trades, finding.worse) == (False, True, (figure,))
    assert re.fullmatch(rf"range to sticky: a trade-off, .*\+[\d.]+ {figure}", findings.sentence(finding))
    same = finding_of(before, of_g("sticky", load_stddev=0.1, **recorded))
    assert (same.gains, same.trades, same.worse) == (True, False, ())


def test_gains_come_before_larger_trade_offs() -> None:
    found = findings.find(
        result_of(
            verdict("trade-off", RECORDED, moved=100, max_over_mean=1.0),
            verdict("trade-off", "sticky", moved=5, max_over_mean=1.1),
            verdict("gain", RECORDED, moved=10),
            verdict("gain", "sticky", moved=5),
        )
    )
    assert [finding.group for finding in found] == ["gain", "trade-off"]
    assert (
        findings.headline(found) == "1 would gain from another strategy, 1 would trade one figure for another"
    )


def test_groups_come_in_the_order_of_what_a_change_saves_a_day() -> None:
    def pair(group: str, moved: int, paused_s: float, rack_misses: int) -> tuple[Verdict, Verdict]:
        return (
            verdict(group, RECORDED, moved=9, paused_s=100.0, rack_misses=9),
            verdict(group, "cooperative-sticky", moved=moved, paused_s=paused_s, rack_misses=rack_misses),
        )

    savings = (("moves", 1, 90.0, 9), ("racks", 5, 90.0, 1), ("pauses", 8, 20.0, 9), ("none", 5, 90.0, 9))
    result = result_of(*(each for figures in savings for each in pair(*figures)))
    found = findings.find(result)
    assert [finding.group for finding in found] == ["pauses", "moves", "racks", "none"]
    assert [finding.saved_paused_s_per_day for finding in found] == [80.0, 10.0, 10.0, 10.0]
    assert [finding.saved_rack_misses for finding in found] == [0, 0, 8, 0]
    week = replace(result.groups[0], last_timestamp=result.groups[0].first_timestamp + timedelta(days=8))
    slower = findings.find(replace(result, groups=tuple(replace(week, group=g.group) for g in result.groups)))
    assert slower[0].saved_paused_s_per_day == 10.0


def test_the_savings_of_a_change_are_those_of_the_steady_state() -> None:
    result = result_of(
        of_g(RECORDED, Mode.ONE_STEP, moved=9),
        of_g("sticky", Mode.ONE_STEP, moved=1),
        of_g(RECORDED, moved=9),
        of_g("sticky", moved=4),
    )
    [finding] = findings.find(result)
    assert (findings.leading_mode(result), finding.saved_moves) == (Mode.STEADY_STATE, 5)


def test_a_finding_without_other_figures_is_about_balance_or_nothing() -> None:
    spread = of_g(RECORDED, moved=2, load_stddev=1.0), of_g("sticky", moved=2)
    assert findings.sentence(finding_of(*spread)) == "range to sticky: better balance"
    assert findings.sentence(finding_of(of_g(RECORDED, moved=2), of_g("sticky", moved=2))) == ""


@pytest.mark.parametrize("strategy", strategy_names())
def test_a_suggested_change_is_never_in_the_words_of_production(strategy: str) -> None:
    result = result_of(of_g(RECORDED, moved=9), of_g(strategy, moved=4))
    of_clients = replace(result.groups[0], protocols=(strategy,))
    [finding] = findings.find(replace(result, groups=(of_clients,)))
    assert finding.gains
    assert finding.change_to == f"{strategy} with the consumer of kafka-assignors"
    assert findings.sentence(replace(finding, summary=of_clients)).startswith(
        f"{strategy} to {finding.change_to}: -5 moved partitions"
    )
    [other] = findings.find(result)
    assert (other.change_to == strategy) is (result.groups[0].protocols != (strategy,))


def text_of(document: str) -> str:
    """The text outside scripts and styles, with single spaces."""
    shown = re.sub(r"<(script|style)\b.*?</\1>|<[^>]*>", "", document, flags=re.DOTALL)
    return " ".join(unescape(shown).split())


@pytest.fixture(scope="module")
def text() -> str:
    """The text of the report of `sample()`."""
    return text_of(html_report(sample()))


def test_given_a_time_to_restore_the_reports_say_what_warm_handoff_saves(
    capsys: pytest.CaptureFixture[str],
) -> None:
    without = sample()
    restored = replace(without, options=replace(without.options, pauses=PauseModel(restore_s=2.0)))
    verdicts = [each.verdict for each in findings.totals(restored, findings.leading_mode(restored))]
    said = ", ".join(f"{each.strategy} {2 * each.moved:,}" for each in verdicts)
    print_replay(restored)
    for text in (capsys.readouterr().out, text_of(html_report(restored))):
        assert f"warm handoff saves, at 2 s a partition: {said};" in " ".join(text.split())
    assert "warm handoff" not in html_report(without)


def test_of_thousands_of_groups_those_that_gain_most_are_shown() -> None:
    figures = [
        verdict(f"g-{number:03}", strategy, moved=moved)
        for number in range(250)
        for strategy, moved in ((RECORDED, 300), ("sticky", number))
    ]
    document = html_report(result_of(*figures))
    assert len(re.findall(r"<details [^>]*\bid=", document)) == 200
    text = text_of(document)
    assert "g-199" in text
    assert "g-200" not in text
    assert "50 more groups have smaller savings and are not shown" in text
    assert "Of 250 groups, 250 would gain from another strategy" in text


def test_the_tables_say_all_without_javascript(text: str) -> None:
    for words in (
        "Of 4 groups, 4 would gain from another strategy",
        "12 generation numbers without a record",
        "2 generations have an earlier timestamp than the generation before them",
        "4 times a group was deleted and created again under the same name",
        "1 record could not be read",
        "value: version 9 at byte 0",
        "1 × it saw 'orders' not yet",
        f"range failed in 1 rebalance (steady-state): generation 3: KeyError: {HOSTILE}",
        "4 rebalances: no catalogue entry for topic 'gone'",
        "partition 17 of the offsets topic, offsets 4711 to 90210",
        "2 × all members (at most 4): deployments",
    ):
        assert words in text
    assert "1 rebalances: no catalogue entry" not in text


def test_a_result_without_verdicts_can_be_reported() -> None:
    result = replace(sample(), groups=(), verdicts=(), damaged=())
    assert "none would gain from a change" in html_report(result)
    assert json.loads(json_report(result))["findings"] == []


def test_the_json_report_holds_the_result_and_what_it_means() -> None:
    result = sample()
    document = json.loads(json_report(result))
    assert document["format"] == 1
    assert {finding["group"] for finding in document["findings"]} == set(GROUPS)
    assert document["findings"][0]["best"] == "cooperative-sticky"
    steady = [total["strategy"] for total in document["totals"] if total["mode"] == "steady-state"]
    assert steady == [RECORDED, "range", "cooperative-sticky"]
    assert len(document["verdicts"]) == len(result.verdicts)
    assert document["truth"]["holds"] is True
    assert document["undecodable"][0]["offset"] == 99
    assert document["history"]["first_timestamp"] == "2026-03-01T12:00:00+00:00"


@pytest.mark.exhaustive
def test_the_memory_for_writing_the_json_report_does_not_grow_with_its_text(tmp_path: Path) -> None:
    count = 2_000
    result = sample(groups=tuple(f"group-{number}" for number in range(count)))
    file = tmp_path / "report.json"
    before = gc.get_threshold()
    gc.set_threshold(1_000)  # the replay command, which tests run in this process, lets garbage lie longer
    tracemalloc.start()
    try:
        write_lines(file, json_report_lines(result))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        gc.set_threshold(*before)
    assert file.stat().st_size > 3_000 * count
    # For the writer its buffer, one line, the encoder, and uncollected garbage; for each group its finding,
    # which has a rank among all findings.
    assert peak < (1 << 20) + (1 << 10) * count


def test_no_report_holds_a_secret() -> None:
    assert "opensesame" not in json_report(sample()) + html_report(sample())


def test_a_name_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    steering = "\x1b[31mred\x1b]0;title\x07"
    print_replay(result_of(verdict(steering, RECORDED, moved=9), verdict(steering, "sticky", moved=3)))
    assert_harmless(capsys.readouterr().out)


def test_a_strategy_that_always_failed_has_no_figures(capsys: pytest.CaptureFixture[str]) -> None:
    failing = replace(of_g("range", failed=10), rebalances=0, max_over_mean=0.0)
    result = result_of(of_g(RECORDED, moved=9), failing)
    print_replay(result)
    out = capsys.readouterr().out
    assert "0.00" not in out
    assert f"range failed in 10 rebalances of g (steady-state): generation 3: KeyError: {HOSTILE}" in out
    assert "not replayed" in text_of(html_report(result))


IN_EXCLUDED_DATA = (
    *("duplicates", "kip848_groups", "other_records", "skipped_numbers", "clock_jumps", "undecodable"),
)
"""The counts of a history that say what was left out; each is in the terminal too."""


def test_every_count_of_the_history_is_in_the_report_and_what_is_left_out_on_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = sample()
    names = [one.name for one in fields(result.history) if type(getattr(result.history, one.name)) is int]
    counts = {name: 100_001 + 1_111 * number for number, name in enumerate(names)}
    result = replace(result, history=replace(result.history, **counts))
    document, reported = html_report(result), json.loads(json_report(result))["history"]
    assert {name: reported[name] for name in names} == counts
    # The number of groups is that of the listed ones.
    assert [name for name in names if f"{counts[name]:,}" not in document] == ["groups"]
    print_replay(result)
    shown = " ".join(capsys.readouterr().out.split())
    assert [name for name in IN_EXCLUDED_DATA if f"{counts[name]:,}" not in shown] == []


# The order of the page


def section(document: str, name: str) -> str:
    found = re.search(rf'<section id="{name}">.*?</section>', document, re.DOTALL)
    assert found is not None
    return " ".join(found[0].split())


def without_closed_expanders(html: str) -> str:
    """The visible part of the page before a reader opens an expander."""
    innermost = re.compile(r"<details[^>]*(?<!open)>(?:(?!<details).)*?</details>", re.DOTALL)
    while details := innermost.search(html):
        html = html.replace(details[0], details[0].partition("<summary>")[2].partition("</summary>")[0])
    return html


def test_the_first_list_has_ten_changes_and_the_table_behind_it_has_all() -> None:
    pairs = [
        (verdict(f"g-{n:02}", RECORDED, moved=50), verdict(f"g-{n:02}", "sticky", moved=n)) for n in range(12)
    ]
    first = section(html_report(result_of(*(each for pair in pairs for each in pair))), "verdict")
    assert first.count('<li class="gain">') == 10
    seen = without_closed_expanders(first)
    assert "All figures of 12 groups, before and after, 2 more changes among them" in seen
    assert "<table" not in seen
    assert first.count('<tr> <th scope="row">') == 12


def test_a_check_that_passes_is_a_figure_and_one_that_fails_is_open_and_comes_first() -> None:
    result = sample()
    passing = html_report(result)
    assert "20 of 20 assignments match" in section(passing, "verdict")
    assert "<table" not in without_closed_expanders(section(passing, "accuracy"))
    unchecked = html_report(replace(result, truth=replace(result.truth, clients=())))
    assert "nothing to check" in section(unchecked, "verdict")
    [java, aiokafka] = result.truth.clients
    truth = replace(result.truth, clients=(replace(java, matched=19, unexplained=1), aiokafka))
    failing = html_report(replace(result, truth=truth))
    first = section(failing, "verdict")
    assert "19 of 20 assignments match" in first
    assert first.index("The accuracy check fails") < first.index('<ul class="verdict">')
    assert "<table" in without_closed_expanders(section(failing, "accuracy"))


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


def test_bars_have_one_scale_that_the_longest_bar_or_stroke_fills() -> None:
    figures = of_g(RECORDED, moved=40, least_moved=80), of_g("range", moved=20), of_g("sticky")
    drawn = section(html_report(result_of(*figures)), "strategies")
    found = re.findall(r'class="(bar recorded|bar|least)" style="(?:width|left):([\d.]+)%', drawn)
    assert found[:4] == [("bar recorded", "50.0"), ("least", "100.0"), ("bar", "25.0"), ("least", "0.0")]
    nothing = section(html_report(result_of(of_g(RECORDED))), "strategies")
    assert 'class="bar recorded" style="width:0.0%' in nothing
