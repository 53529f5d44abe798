"""What each rule finds and ignores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kafka_assignors.strategies import MemberContext, load_strategy
from kafka_assignors.wire import encode_member
from kafka_assignors_ops.lint import RULES, lint
from kafka_assignors_ops.lint.members import live_members
from kafka_assignors_ops.lint.rules import (
    BrokerBounds,
    LintFacts,
    LintFinding,
    MemberConfig,
    Severity,
    StrategyUse,
)
from kafka_assignors_ops.live_group import LiveGroup, LiveMember
from tests.lint_members import aiokafka, findings, java, kafka_python, librdkafka

ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO


# ---- votes


def test_members_without_a_common_strategy_cannot_form_a_group() -> None:
    assert findings(aiokafka("range"), java("sticky"))["no-common-strategy"] is ERROR
    assert "no-common-strategy" not in findings(aiokafka("range"), java("sticky", "range"))


def test_a_change_without_overlap_takes_two_rolls() -> None:
    report = lint(LintFacts((aiokafka("cooperative-sticky"),), (aiokafka("range"),)))
    (found,) = (finding for finding in report.findings if finding.rule == "no-common-strategy")
    assert found.to_do == (
        "Roll twice. First restart every member with [cooperative-sticky, range]. When all have it, "
        "restart every member with [cooperative-sticky]."
    )
    first_roll, second_roll = aiokafka("cooperative-sticky", "range"), aiokafka("cooperative-sticky")
    assert "no-common-strategy" not in findings(first_roll, before=(aiokafka("range"),))
    assert "no-common-strategy" not in findings(second_roll, before=(first_roll,))


def test_a_client_that_cannot_list_both_is_stopped_instead() -> None:
    report = lint(LintFacts((librdkafka("cooperative-sticky"),), (librdkafka("range"),)))
    (found,) = (finding for finding in report.findings if finding.rule == "no-common-strategy")
    assert found.to_do == (
        "Stop the whole group and start it with the new strategy: librdkafka.conf cannot list both "
        "cooperative-sticky and range."
    )


def test_a_client_that_lacks_the_old_strategy_is_stopped_as_well() -> None:
    report = lint(LintFacts((librdkafka("cooperative-sticky"),), (aiokafka("sticky"),)))
    (found,) = (finding for finding in report.findings if finding.rule == "no-common-strategy")
    assert found.to_do.startswith("Stop the whole group")


def test_the_vote_advises_only_where_it_is_a_tie() -> None:
    def advice(*after: MemberConfig) -> tuple[bool, bool]:
        (found,) = (one for one in lint(LintFacts(after)).findings if one.rule == "vote")
        return bool(found.why), bool(found.to_do)

    assert advice(java("range")) == (False, False)
    assert advice(java("range", "sticky"), java("sticky", "range")) == (True, True)


def test_a_strategy_that_some_member_lacks_never_wins() -> None:
    assert findings(aiokafka("sticky", "range"), java("range"))["first-choice-loses"] is WARNING
    assert "first-choice-loses" not in findings(aiokafka("sticky", "range"), java("sticky", "range"))


def test_the_vote_counts_members_and_not_files() -> None:
    def outcome(*after: object) -> str:
        report = lint(LintFacts(after))  # type: ignore[arg-type]
        return next(finding.what for finding in report.findings if finding.rule == "vote")

    few, many = java("sticky", "range"), java("range", "sticky", members=3)
    assert outcome(few, many) == "Now: range wins with 3 of 4 votes."
    assert outcome(few, java("range", "sticky")) == "Now: a tie between range and sticky."


@pytest.mark.parametrize(
    "member",
    [librdkafka("range", "cooperative-sticky"), kafka_python("stock:cooperative-sticky", "stock:range")],
)
def test_a_list_of_eager_and_cooperative_strategies_is_refused(member: object) -> None:
    assert findings(member)["mixed-rebalance-protocols"] is ERROR  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "member",
    [
        librdkafka("range", "roundrobin"),
        librdkafka("cooperative-sticky"),
        kafka_python("cooperative-sticky", "stock:range"),
        java("cooperative-sticky", "range"),
        aiokafka("cooperative-sticky", "range"),
    ],
)
def test_other_lists_are_taken(member: object) -> None:
    assert "mixed-rebalance-protocols" not in findings(member)  # type: ignore[arg-type]


def test_java_stays_eager_until_the_second_roll() -> None:
    assert findings(java("cooperative-sticky", "range"))["second-roll-due"] is INFO
    assert findings(java())["second-roll-due"] is INFO
    assert "second-roll-due" not in findings(java("cooperative-sticky"))


# ---- clients


@pytest.mark.parametrize(
    "member",
    [
        librdkafka("sticky"),
        librdkafka("rack-aware-sticky"),
        aiokafka("stock:cooperative-sticky"),
        kafka_python("stock:cooperative-sticky", client_version="2.3.3"),
        java("uniform"),
    ],
)
def test_a_strategy_that_the_client_lacks_is_an_error(member: object) -> None:
    assert findings(member)["strategy-not-in-client"] is ERROR  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "member",
    [aiokafka("cooperative-sticky"), kafka_python("stock:cooperative-sticky"), java("com.acme.OwnAssignor")],
)
def test_a_strategy_that_the_client_has_is_none(member: object) -> None:
    assert "strategy-not-in-client" not in findings(member)  # type: ignore[arg-type]


def eager_finding(*members: MemberConfig, before: tuple[MemberConfig, ...] = (), **facts: Any) -> LintFinding:
    report = lint(LintFacts(members, before, **facts))
    (found,) = [one for one in report.findings if one.rule == "eager-consumer"]
    assert found.severity is INFO
    return found


def test_our_strategies_are_eager_in_the_stock_consumers() -> None:
    for member in (kafka_python("cooperative-sticky"), aiokafka("rack-aware-sticky")):
        assert eager_finding(member).what.startswith("Unless these members are of Cooperative")
    assert "eager-consumer" not in findings(librdkafka("cooperative-sticky"))
    assert "eager-consumer" not in findings(aiokafka("stock:sticky"))


@pytest.mark.parametrize("member", [aiokafka("sticky"), kafka_python("cooperative-sticky", "stock:range")])
def test_a_list_with_an_eager_strategy_is_eager_in_every_class(member: MemberConfig) -> None:
    assert eager_finding(member).what.startswith("The consumers of these members are eager")


# ---- the next step of docs/migrate.md, for each state of a group

STOCK, OLD = aiokafka("stock:sticky"), aiokafka("sticky")
BOTH, NEW = aiokafka("cooperative-sticky", "sticky"), aiokafka("cooperative-sticky")

TWICE = (
    "If the pauses matter, restart twice: first every member with CooperativeAIOKafkaConsumer and the "
    "strategies of kafka-assignors [cooperative-sticky, sticky]; when all have these, with the list "
    "[cooperative-sticky] alone."
)
FIRST_OF_TWO = (
    "If the pauses matter, this change is the first of two restarts. When every member has this list, "
    "restart every member with CooperativeAIOKafkaConsumer and the list [cooperative-sticky] alone."
)
LAST = (
    "If the pauses matter, restart every member with CooperativeAIOKafkaConsumer and the list "
    "[cooperative-sticky] alone: beside an eager strategy it stays eager."
)


@pytest.mark.parametrize(
    ("before", "after", "next_step"),
    [
        pytest.param((), (OLD,), TWICE, id="only the old"),
        pytest.param((), (BOTH, replace(OLD, source="b.toml")), TWICE, id="first restart half done"),
        pytest.param((), (BOTH,), LAST, id="both"),
        pytest.param((), (BOTH, replace(NEW, source="b.toml")), LAST, id="last restart half done"),
        pytest.param((), (NEW,), LAST, id="only the new"),
        pytest.param((STOCK,), (BOTH,), FIRST_OF_TWO, id="stock to both"),
        pytest.param((OLD,), (BOTH,), FIRST_OF_TWO, id="old to both"),
        pytest.param((BOTH,), (NEW,), LAST, id="both to new"),
        pytest.param((OLD,), (NEW,), TWICE, id="old to new at once, which is refused"),
        pytest.param((NEW,), (BOTH,), LAST, id="new back to both"),
    ],
)
def test_the_advice_is_the_next_step_of_the_migration(
    before: tuple[MemberConfig, ...], after: tuple[MemberConfig, ...], next_step: str
) -> None:
    report = lint(LintFacts(after, before))
    assert {one.to_do for one in report.findings if one.rule == "eager-consumer"} == {next_step}


def test_the_class_for_kafka_python_and_strategies_of_its_own_are_named() -> None:
    to_do = eager_finding(kafka_python("weighted", "stock:range")).to_do
    assert "with CooperativeKafkaConsumer (kafka-python 3) and the list [weighted] alone" in to_do


def joined(strategy: str, owned: dict[str, list[int]], *, held: bool = False) -> LiveGroup:
    """A group of one aiokafka member that joined with these partitions."""
    context = MemberContext(frozenset({"orders"}), owned, 7 if owned else -1)
    metadata = encode_member(load_strategy(strategy), context, held=held)
    member = LiveMember("m1", "aiokafka-0.14.0", "/10.0.0.1").with_metadata(metadata)
    return LiveGroup("orders", "classic", "Stable", strategy, members=(member,))


def test_a_live_group_that_runs_the_old_strategy_is_before_the_first_restart_or_in_it() -> None:
    group = joined("sticky", {"orders": [0]})
    members, _ = live_members(group)
    found = eager_finding(*members, live=group)
    assert found.to_do == f"{TWICE} If the first restart has begun, finish it."


@pytest.mark.parametrize("listed", [(), ("cooperative-sticky",), ("cooperative-sticky", "sticky")])
def test_a_live_group_after_the_first_restart_is_told_the_list_of_the_last(listed: tuple[str, ...]) -> None:
    """A broker does not show that the old strategy is still listed: "the same list" would not help."""
    group = joined("cooperative-sticky", {"orders": [0]})
    members, _ = live_members(group, [StrategyUse(name) for name in listed])
    found = eager_finding(*members, live=group)
    assert found.to_do == LAST
    eager_list = found.what.startswith("The consumers of these members are eager, because")
    assert eager_list is (len(listed) > 1)


def test_a_cooperative_member_is_told_of_a_list_that_would_make_it_eager() -> None:
    group = joined("cooperative-sticky", {"orders": [0]}, held=True)
    before, _ = live_members(group)
    assert "eager-consumer" not in findings(*before, live=group)
    after = replace(before[0], strategies=BOTH.strategies)
    assert eager_finding(after, before=before, live=group).to_do == LAST


@pytest.mark.parametrize("held", [True, False])
def test_a_live_member_shows_whether_it_joined_with_its_partitions(held: bool) -> None:
    ((newcomer,), _) = live_members(joined("cooperative-sticky", {}, held=held))
    assert newcomer.kept_partitions is None
    assert eager_finding(newcomer).what.startswith("Unless these members are of Cooperative")
    ((member,), _) = live_members(joined("cooperative-sticky", {"orders": [0, 1]}, held=held))
    assert member.kept_partitions is held
    if held:
        assert "eager-consumer" not in findings(member)
    else:
        assert eager_finding(member).what.startswith("These members joined last without their partitions")


# ---- clients, continued


def test_the_sticky_data_of_kafka_python_3_is_for_itself_alone() -> None:
    own = kafka_python("stock:sticky", client_version="3.0.12")
    assert findings(own, java("sticky"))["unreadable-sticky-data"] is WARNING
    assert "unreadable-sticky-data" not in findings(own)
    assert "unreadable-sticky-data" not in findings(kafka_python("sticky"), java("sticky"))
    assert "unreadable-sticky-data" not in findings(
        kafka_python("stock:sticky", client_version="2.3.3"), java("sticky")
    )


def test_aiokafka_joins_once_for_each_strategy() -> None:
    assert findings(aiokafka("stock:sticky", "stock:range"))["join-per-strategy"] is WARNING
    assert "join-per-strategy" not in findings(aiokafka("stock:sticky"), java("sticky", "range"))
    assert findings(aiokafka("sticky", "stock:range"))["join-per-strategy"] is WARNING
    assert findings(aiokafka("sticky", "range"))["join-per-strategy"] is INFO  # Or the class is ours.


def test_aiokafka_lists_that_begin_differently_never_settle() -> None:
    one, other = aiokafka("stock:sticky", "stock:range"), aiokafka("stock:range", "stock:sticky")
    assert findings(one, other)["never-settles"] is ERROR
    before = aiokafka("stock:range", "stock:roundrobin")
    assert findings(one, before=(before,))["never-settles"] is ERROR
    assert "never-settles" not in findings(one, before=(aiokafka("stock:range"),))
    assert "never-settles" not in findings(one, java("range", "sticky"))
    assert findings(one, aiokafka("range", "stock:sticky"))["never-settles"] is ERROR
    assert "never-settles" not in findings(one, aiokafka("range", "sticky"))  # Or the class is ours.


def test_a_rack_that_only_the_fetcher_learns_of_is_a_warning() -> None:
    assert findings(aiokafka("stock:range", client_rack="a"))["rack-not-told"] is WARNING
    assert "rack-not-told" not in findings(aiokafka("sticky", client_rack="a"))
    assert "rack-not-told" not in findings(java("range", client_rack="a"))


# ---- timeouts


@pytest.mark.parametrize(("heartbeat_ms", "severity"), [(2000, None), (2001, WARNING), (6000, ERROR)])
def test_heartbeats_are_held_against_a_third_of_the_session(
    heartbeat_ms: int, severity: Severity | None
) -> None:
    member = java("range", session_timeout_ms=6000, heartbeat_interval_ms=heartbeat_ms)
    assert findings(member).get("heartbeat-interval") is severity


def test_the_default_heartbeat_counts_where_none_is_configured() -> None:
    assert findings(aiokafka("range", session_timeout_ms=6000))["heartbeat-interval"] is WARNING
    assert "heartbeat-interval" not in findings(aiokafka("range"))


@pytest.mark.parametrize("session_ms", [5999, 1_800_001])
def test_a_session_outside_the_bounds_is_an_error_if_a_broker_said_so(session_ms: int) -> None:
    member = java("range", session_timeout_ms=session_ms)
    assert findings(member)["session-timeout-bounds"] is WARNING
    assert findings(member, bounds=BrokerBounds(read=True))["session-timeout-bounds"] is ERROR
    wide = BrokerBounds(1000, 3_600_000, read=True)
    assert "session-timeout-bounds" not in findings(member, bounds=wide)


def test_aiokafka_is_waited_for_as_long_as_its_session_unless_others_ask_for_more() -> None:
    assert findings(aiokafka("range"))["rebalance-timeout"] is INFO
    assert findings(aiokafka("range", rebalance_timeout_ms=9_999))["rebalance-timeout"] is WARNING
    assert "rebalance-timeout" not in findings(aiokafka("range", rebalance_timeout_ms=60_000))
    assert "rebalance-timeout" not in findings(aiokafka("range"), java("range"))
    assert findings(aiokafka("range", session_timeout_ms=20_000))["rebalance-timeout"] is INFO
    assert "rebalance-timeout" not in findings(aiokafka("range", rebalance_timeout_ms=10_000))


def test_aiokafka_must_wait_as_long_as_the_slowest_member_may_take() -> None:
    assert findings(aiokafka("range"), java("range"))["request-timeout"] is WARNING
    assert "request-timeout" not in findings(aiokafka("range", request_timeout_ms=300_001), java("range"))
    assert "request-timeout" not in findings(aiokafka("range"))


# ---- static members


@pytest.mark.parametrize(
    "instance_id",
    [
        "deployment-7d9f8b6c5-x2x4z",
        "orders-5c689d88bb-qh9tz",
        "nightly-job-x7k2p",
        "orders-123e4567-e89b-12d3-a456-426614174000",
        "123E4567E89B12D3A456426614174000",
        "3f4e8a91bc02",
    ],
)
def test_names_that_a_restart_changes_are_warned_about(instance_id: str) -> None:
    assert findings(java("range", group_instance_id=instance_id))["passing-instance-id"] is WARNING


@pytest.mark.parametrize(
    "instance_id",
    ["orders-0", "orders-worker-12", "eu-west-1a", "host-01.example.org", "orders-plain", "consumer-24567"],
)
def test_names_that_stay_are_not(instance_id: str) -> None:
    assert "passing-instance-id" not in findings(java("range", group_instance_id=instance_id))


@pytest.mark.parametrize("instance_id", ["${POD_NAME}", "$(POD_NAME)", "{{ pod }}", "%HOST%"])
def test_names_that_are_filled_in_later_are_left_open(instance_id: str) -> None:
    report = lint(
        LintFacts(
            (java("range", group_instance_id=instance_id), java("range", group_instance_id=instance_id))
        )
    )
    assert not {"passing-instance-id", "instance-id-twice"} & {finding.rule for finding in report.findings}
    assert any(instance_id in left_open.what for left_open in report.not_judged)


def test_an_instance_id_of_two_members_is_an_error() -> None:
    one = java("range", group_instance_id="orders-0")
    assert findings(one, aiokafka("range", group_instance_id="orders-0"))["instance-id-twice"] is ERROR
    assert findings(java("range", group_instance_id="orders-0", members=2))["instance-id-twice"] is ERROR
    assert "instance-id-twice" not in findings(one, java("range", group_instance_id="orders-1"))


# ---- KIP-848


def test_settings_that_kip848_has_no_use_for_are_refused() -> None:
    modern = {"group_protocol": "consumer"}
    assert findings(java("range", **modern))["refused-under-kip848"] is ERROR
    assert findings(librdkafka(session_timeout_ms=6000, **modern))["refused-under-kip848"] is ERROR
    assert findings(aiokafka("range", **modern))["refused-under-kip848"] is ERROR
    assert "refused-under-kip848" not in findings(librdkafka(**modern))


def test_a_member_with_the_consumer_protocol_ends_client_side_strategies() -> None:
    modern = librdkafka(group_protocol="consumer")
    assert findings(aiokafka("sticky"), modern)["kip848-group"] is ERROR
    assert "kip848-group" not in findings(modern)
    live = LiveGroup("orders", "consumer", "Stable", "uniform")
    assert findings(aiokafka("sticky"), live=live)["kip848-group"] is ERROR
    assert "kip848-group" not in findings(
        aiokafka("sticky"), live=LiveGroup("orders", "classic", "Stable", "sticky")
    )


def test_a_group_under_a_name_of_its_own_is_said_to_refuse_a_member_of_kip848() -> None:
    modern = librdkafka(group_protocol="consumer")

    def told(strategy: str) -> str:
        report = lint(LintFacts((aiokafka(strategy), modern)))
        return next(one.what for one in report.findings if one.rule == "kip848-group")

    assert "GROUP_ID_NOT_FOUND" in told("rack-aware-sticky")
    assert "stay_classic=False" in told("rack-aware-sticky")
    assert "turn the group into a KIP-848 group" in told("sticky")
    assert "stay_classic=True" in told("sticky")


def test_where_the_broker_assigns_nothing_is_said_of_strategies_but_that_none_runs() -> None:
    group = LiveGroup(
        "orders", "consumer", "Stable", "uniform", members=(LiveMember("m1", "aiokafka-0.14.0", "/10.0.0.1"),)
    )
    members, left_open = live_members(group)
    found = findings(*members, live=group)
    assert found["kip848-group"] is ERROR
    assert not {"vote", "strategy-not-in-client", "first-choice-loses"} & found.keys()
    assert "which strategies the members list" in {one.what for one in left_open}


def test_no_member_votes_in_a_group_whose_broker_assigns() -> None:
    live = LiveGroup("orders", "consumer", "Stable", "uniform")
    report = lint(LintFacts((librdkafka("sticky"),), (aiokafka("range"),), live=live))
    (found,) = report.findings
    assert (found.rule, found.to_do) == (
        "kip848-group",
        "Restart every member with group.protocol=classic; the group is classic again when the last other "
        "one has left.",
    )


@pytest.mark.parametrize(
    ("version", "told", "severity"),
    [
        (None, False, INFO),
        ("4.4.0", False, INFO),
        ("4.4.0", True, None),
        ("5.0.0", False, ERROR),
        ("5.1.0", True, None),
    ],
)
def test_java_leaves_the_classic_protocol_step_by_step(
    version: str | None, told: bool, severity: Severity | None
) -> None:
    settings = {"client_version": version} if version else {}
    if told:
        settings["group_protocol"] = "classic"
    assert findings(aiokafka("range"), java("range", **settings)).get("java-leaves-classic") is severity


# ---- live groups


def test_facts_that_the_broker_does_not_give_are_reported_as_not_judged() -> None:
    group = LiveGroup(
        "orders", "classic", "Stable", "range", members=(LiveMember("m", "own-name", "/10.0.0.1"),)
    )
    members, left_open = live_members(group)
    assert [one.what for one in left_open] == ["timeouts", "what the clients of 1 members can do"]
    assert findings(*members, live=group) == {"vote": INFO}


def test_the_same_of_many_members_is_said_once() -> None:
    many = [aiokafka("range", "stock:range", source=f"{number}.toml") for number in range(50)]
    (found,) = (one for one in lint(LintFacts(tuple(many))).findings if one.rule == "rebalance-timeout")
    assert len(found.members) == 50


def test_the_documentation_of_rules_has_no_placeholder() -> None:
    for rule in RULES.values():
        assert not {"{", "}"} & set(rule.happens + rule.why + rule.to_do), rule.id
