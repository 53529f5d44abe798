"""The tables of the command line at several widths: names and numbers stay complete."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, replace
from typing import Any

import pytest
from rich.console import RenderableType

from kafka_assignors.group import Assignment, Topic
from kafka_assignors.quality import measure
from kafka_assignors.strategies import CooperativeSticky, Range, RoundRobin
from kafka_assignors.wire import Subscription
from kafka_assignors_cli.assign_text import answer_renderables
from kafka_assignors_cli.console import Column, ColumnKind, FittedTable
from kafka_assignors_cli.list_strategies import strategy_table
from kafka_assignors_ops.comparison import compare_strategies
from kafka_assignors_ops.groups_view import description, group_list
from kafka_assignors_ops.lint import LintReport
from kafka_assignors_ops.lint.rules import LintFinding, NotJudged, Severity
from kafka_assignors_ops.lint_command import report_renderables
from kafka_assignors_ops.live_group import LiveGroup, LiveMember, as_group
from kafka_assignors_ops.watch.fleet import Counts, FleetSnapshot, GroupFigures, GroupSnapshot
from kafka_assignors_ops.watch.metric_table import WatchStatus
from kafka_assignors_ops.watch_command import watch_tables
from kafka_assignors_replay.policy import judge, read_policy
from kafka_assignors_replay.validate_command import judgement_renderables
from spark_validation.tests.report_sample import sample
from tests.golden_tables.check import WIDTHS, assert_as_before, rendered

GROUP = "payments-settlement-eu-west-1-consumer"
MEMBERS = tuple(f"aiokafka-0.14.0-6f2d7f5e-61b5-4f0e-9f63-2c1f4b1b8f1{last}" for last in "def")
HOST = "2001:0db8:85a3:08d3:1319:8a2e:0370:734{}"
TOPIC = "payments.settlement.instructions.v2"
PARTITIONS = 1200


def live_member(place: int, first: int, end: int) -> LiveMember:
    return LiveMember(
        MEMBERS[place],
        "aiokafka-0.14.0",
        HOST.format(place),
        instance_id=f"payments-settlement-{place}" if place else None,
        assigned={TOPIC: range(first, end)} if first < end else {},
        subscription=Subscription(3, (TOPIC,), rack=f"eu-west-1{'abc'[place]}"),
    )


LIVE = LiveGroup(
    GROUP,
    "classic",
    "Stable",
    "cooperative-sticky",
    "consumer",
    (live_member(0, 0, 800), live_member(1, 800, PARTITIONS), live_member(2, 1, 1)),
    {
        TOPIC: Topic(
            TOPIC, PARTITIONS, tuple(frozenset([f"eu-west-1{'abc'[n % 3]}"]) for n in range(PARTITIONS))
        )
    },
)
OTHERS = (
    LiveGroup("orders", "consumer", "Stable", "uniform", members=(LiveMember("a", "a", "h", assigned={}),)),
    LiveGroup(f"{GROUP}-dead-letters-reprocessing", "classic", "PreparingRebalance", "range"),
    LiveGroup("old", "classic", "Empty", problems=("subscriptions and racks are not shown: not authorized",)),
)


class Raising(Range):
    """A strategy that raises an error."""

    def assign(self, group: Any) -> Any:
        raise RuntimeError(
            "the weights of the topic are not known to this strategy, and it cannot do without"
        )


def groups() -> list[RenderableType]:
    return group_list([LIVE, *OTHERS])


def describe() -> list[RenderableType]:
    tried = [("cooperative-sticky", CooperativeSticky()), ("roundrobin", RoundRobin())]
    results = compare_strategies(
        as_group(LIVE), [*tried, ("my_company.strategies.payments:Settlement", Raising())]
    )
    return description(LIVE, results)


def validate() -> list[RenderableType]:
    result, script = sample(), "<script>alert(1)</script>"

    def named(places: Any) -> Any:
        return tuple(replace(each, group=each.group.replace(script, GROUP)) for each in places)

    result = replace(result, groups=named(result.groups), verdicts=named(result.verdicts))
    rule = {"strategy": "cooperative-sticky", "groups": ["payments", GROUP], "metric": "moved"}
    policy = read_policy(
        {
            "rule": [
                {**rule, "name": "moves no more than balance needs", "max": 1.0, "relative_to": "least"},
                {**rule, "name": "crosses racks seldom", "metric": "rack_misses", "max": 0.5},
                {**rule, "name": "calm", "max": 1234567.5, "min": 20},
            ]
        }
    )
    return judgement_renderables(judge(policy, result), result.history.source)


def lint() -> list[RenderableType]:
    findings = (
        LintFinding(
            "strategy-order",
            Severity.ERROR,
            tuple(f"/etc/payments/settlement/{member}.properties" for member in MEMBERS),
            "range comes before cooperative-sticky in some members and after it in others.",
            "The members' votes decide which strategy runs, and it changes with each restart.",
            "List the strategies in the same order in all members.",
        ),
        LintFinding("static-members", Severity.INFO, (), "All members are dynamic.", "", ""),
    )
    return report_renderables(
        LintReport(findings, (NotJudged("session timeouts", "the broker does not tell"),))
    )


def assign() -> list[RenderableType]:
    group = as_group(LIVE)
    target = {member: {TOPIC: list(range(n, PARTITIONS, 3))} for n, member in enumerate(MEMBERS)}
    quality = measure(group, Assignment(target))
    moves = [{"topic": TOPIC, "partition": 0, "from": MEMBERS[0], "to": MEMBERS[1]}]
    answer = {"assignment": target, "quality": asdict(quality), "settle": {"settled": False, "moves": moves}}
    return answer_renderables("group.json:1", "my_company.strategies.payments:Settlement", group, answer)


def strategies() -> list[RenderableType]:
    both, eager = ["cooperative", "eager"], ["eager"]
    listed = [
        {"name": "rack-aware-sticky", "protocols": both, "summary": "Racks before movement."},
        {"name": "range", "protocols": eager, "summary": "Contiguous ranges of each topic, as Java's."},
    ]
    return [strategy_table(listed)]


def watch() -> list[RenderableType]:
    often = Counter({"join": 5, "departure": 3, "hand-over": 4, "leader": 1})
    calm = Counts(12, 8, 1, 120, 60, causes=often)
    stormy = Counts(1_481, 900, 0, 98_765, 1_234, causes=Counter({"departure": 900, "join": 400}))
    broken = Counts(undecodable=Counter({"value": 2, "member": 1}))
    last = GroupFigures(
        1_484, 1.0, "classic", "consumer", "cooperative-sticky", False, 3, 1, 1_200, 0, 800, 2.0
    )
    of_broker = replace(last, type="consumer", protocol="uniform", imbalance=1.0, idle_members=0)
    snapshots = [
        GroupSnapshot("orders", "stable", of_broker, calm, 0),
        GroupSnapshot(GROUP, "hand-over", last, stormy, 37),
        GroupSnapshot("old\x1b[31m", "unknown", None, broken, 0),
    ]
    fleet = FleetSnapshot(snapshots, Counter(), beyond_limit=1_200)
    status = WatchStatus(up=True, caught_up=True, lag=1_000, errors=0)
    return watch_tables(fleet, status, ["warning: group 'old': it does not decode"], None)


TABLES = {
    "groups": groups,
    "describe": describe,
    "validate": validate,
    "lint": lint,
    "assign": assign,
    "strategies": strategies,
    "watch": watch,
}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_printed_as_before(name: str, width: int) -> None:
    assert_as_before(name, TABLES[name](), width)


def test_columns_are_left_out_in_their_order_and_named() -> None:
    last = Column("a/b", leave_out=1, label="second")
    table = FittedTable([Column("name", ColumnKind.NAME), Column("first", leave_out=2), last])
    table.add(["x" * 20, "1234567", "1234567"])
    assert "Columns left out" not in rendered([table], table.natural_width)
    assert "Columns left out: first. A wider terminal or --json" in " ".join(rendered([table], 35).split())
    assert "Columns left out: first; second. A wider" in " ".join(rendered([table], 25).split())
