"""What each rule finds and ignores."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from kafka_assignors.group import TopicPartitions, Warmth
from kafka_assignors.strategies import MemberContext, load_strategy
from kafka_assignors.wire import encode_member
from kafka_assignors_ops.lint import lint
from kafka_assignors_ops.lint.members import live_members, member_config
from kafka_assignors_ops.lint.rules import Client, LintFacts, LintFinding, MemberConfig, Severity
from kafka_assignors_ops.live_group import LiveGroup, LiveMember

ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO


def member(client: str, *strategies: str, **settings: Any) -> MemberConfig:
    listed = {"partition_assignment_strategy": [*strategies]} if strategies else {}
    return member_config(f"{client}.toml", {"client": client, **listed, **settings}, load_strategy)


aiokafka, kafka_python = partial(member, "aiokafka"), partial(member, "kafka-python")
java, librdkafka = partial(member, "java"), partial(member, "librdkafka")


def findings(*after: MemberConfig, **facts: Any) -> dict[str, Severity]:
    """The worst severity of each rule with a finding."""
    report = lint(LintFacts(after, **facts))
    return {finding.rule: finding.severity for finding in reversed(report.findings)}


CLASSIC, MODERN = {"group_protocol": "classic"}, {"group_protocol": "consumer"}
BROKER_ASSIGNS = LiveGroup("orders", "consumer", "Stable", "uniform")
PINNED, LISTED = aiokafka("stock:sticky", "stock:range"), aiokafka("stock:range", "stock:sticky")
OWN_DATA = kafka_python("stock:sticky", client_version="3.0.12")
OLD_DATA = kafka_python("stock:sticky", client_version="2.3.3")
NAMED = java("range", group_instance_id="orders-0")


def heartbeat(interval_ms: int) -> MemberConfig:
    return java("range", session_timeout_ms=6000, heartbeat_interval_ms=interval_ms)


# A rule, what it finds (None: nothing), the members, and the other facts.
FOUND: list[tuple[str, Severity | None, list[MemberConfig], dict[str, Any]]] = [
    ("no-common-strategy", ERROR, [aiokafka("range"), java("sticky")], {}),
    ("no-common-strategy", None, [aiokafka("range"), java("sticky", "range")], {}),
    ("first-choice-loses", WARNING, [aiokafka("sticky", "range"), java("range")], {}),
    ("first-choice-loses", None, [aiokafka("sticky", "range"), java("sticky", "range")], {}),
    ("mixed-rebalance-protocols", ERROR, [librdkafka("range", "cooperative-sticky")], {}),
    ("mixed-rebalance-protocols", ERROR, [kafka_python("stock:cooperative-sticky", "stock:range")], {}),
    ("mixed-rebalance-protocols", None, [librdkafka("range", "roundrobin")], {}),
    ("mixed-rebalance-protocols", None, [librdkafka("cooperative-sticky")], {}),
    ("mixed-rebalance-protocols", None, [kafka_python("cooperative-sticky", "stock:range")], {}),
    ("mixed-rebalance-protocols", None, [java("cooperative-sticky", "range")], {}),
    ("mixed-rebalance-protocols", None, [aiokafka("cooperative-sticky", "range")], {}),
    ("second-roll-due", INFO, [java("cooperative-sticky", "range")], {}),
    ("second-roll-due", INFO, [java()], {}),
    ("second-roll-due", None, [java("cooperative-sticky")], {}),
    # What the clients can do.
    ("strategy-not-in-client", ERROR, [librdkafka("sticky")], {}),
    ("strategy-not-in-client", ERROR, [librdkafka("rack-aware-sticky")], {}),
    ("strategy-not-in-client", ERROR, [aiokafka("stock:cooperative-sticky")], {}),
    ("strategy-not-in-client", ERROR, [kafka_python("stock:cooperative-sticky", client_version="2.3.3")], {}),
    ("strategy-not-in-client", ERROR, [java("uniform")], {}),
    ("strategy-not-in-client", None, [aiokafka("cooperative-sticky")], {}),
    ("strategy-not-in-client", None, [kafka_python("stock:cooperative-sticky")], {}),
    ("strategy-not-in-client", None, [java("com.acme.OwnAssignor")], {}),
    ("eager-consumer", None, [librdkafka("cooperative-sticky")], {}),
    ("eager-consumer", None, [aiokafka("stock:sticky")], {}),
    ("unreadable-sticky-data", WARNING, [OWN_DATA, java("sticky")], {}),
    ("unreadable-sticky-data", None, [OWN_DATA], {}),
    ("unreadable-sticky-data", None, [kafka_python("sticky"), java("sticky")], {}),
    ("unreadable-sticky-data", None, [OLD_DATA, java("sticky")], {}),
    ("join-per-strategy", WARNING, [PINNED], {}),
    ("join-per-strategy", WARNING, [aiokafka("sticky", "stock:range")], {}),
    ("join-per-strategy", INFO, [aiokafka("sticky", "range")], {}),  # Or the class is ours.
    ("join-per-strategy", None, [aiokafka("stock:sticky"), java("sticky", "range")], {}),
    ("never-settles", ERROR, [PINNED, LISTED], {}),
    ("never-settles", ERROR, [PINNED], {"before": (aiokafka("stock:range", "stock:roundrobin"),)}),
    ("never-settles", ERROR, [PINNED, aiokafka("range", "stock:sticky")], {}),
    ("never-settles", None, [PINNED, aiokafka("range", "sticky")], {}),  # Or the class is ours.
    ("never-settles", None, [PINNED], {"before": (aiokafka("stock:range"),)}),
    ("never-settles", None, [PINNED, java("range", "sticky")], {}),
    ("rack-not-told", WARNING, [aiokafka("stock:range", client_rack="a")], {}),
    ("rack-not-told", None, [aiokafka("sticky", client_rack="a")], {}),
    ("rack-not-told", None, [java("range", client_rack="a")], {}),
    # Timeouts.
    ("heartbeat-interval", None, [heartbeat(2000)], {}),
    ("heartbeat-interval", WARNING, [heartbeat(2001)], {}),
    ("heartbeat-interval", ERROR, [heartbeat(6000)], {}),
    ("heartbeat-interval", WARNING, [aiokafka("range", session_timeout_ms=6000)], {}),  # The default's.
    ("heartbeat-interval", None, [aiokafka("range")], {}),
    ("rebalance-timeout", INFO, [aiokafka("range")], {}),
    ("rebalance-timeout", INFO, [aiokafka("range", session_timeout_ms=20_000)], {}),
    ("rebalance-timeout", WARNING, [aiokafka("range", rebalance_timeout_ms=9_999)], {}),
    ("rebalance-timeout", None, [aiokafka("range", rebalance_timeout_ms=10_000)], {}),
    ("rebalance-timeout", None, [aiokafka("range", rebalance_timeout_ms=60_000)], {}),
    ("rebalance-timeout", None, [aiokafka("range"), java("range")], {}),
    ("request-timeout", WARNING, [aiokafka("range"), java("range")], {}),
    ("request-timeout", None, [aiokafka("range", request_timeout_ms=300_001), java("range")], {}),
    ("request-timeout", None, [aiokafka("range")], {}),
    # Static members.
    ("instance-id-twice", ERROR, [NAMED, aiokafka("range", group_instance_id="orders-0")], {}),
    ("instance-id-twice", ERROR, [java("range", group_instance_id="orders-0", members=2)], {}),
    ("instance-id-twice", None, [NAMED, java("range", group_instance_id="orders-1")], {}),
    # KIP-848.
    ("refused-under-kip848", ERROR, [java("range", **MODERN)], {}),
    ("refused-under-kip848", ERROR, [librdkafka(session_timeout_ms=6000, **MODERN)], {}),
    ("refused-under-kip848", ERROR, [aiokafka("range", **MODERN)], {}),
    ("refused-under-kip848", None, [librdkafka(**MODERN)], {}),
    ("kip848-group", ERROR, [aiokafka("sticky"), librdkafka(**MODERN)], {}),
    ("kip848-group", None, [librdkafka(**MODERN)], {}),
    ("kip848-group", ERROR, [aiokafka("sticky")], {"live": BROKER_ASSIGNS}),
    ("kip848-group", None, [aiokafka("sticky")], {"live": LiveGroup("o", "classic", "Stable", "sticky")}),
    ("java-leaves-classic", INFO, [aiokafka("range"), java("range")], {}),
    ("java-leaves-classic", INFO, [aiokafka("range"), java("range", client_version="4.4.0")], {}),
    ("java-leaves-classic", None, [aiokafka("range"), java("range", client_version="4.4.0", **CLASSIC)], {}),
    ("java-leaves-classic", ERROR, [aiokafka("range"), java("range", client_version="5.0.0")], {}),
    ("java-leaves-classic", None, [aiokafka("range"), java("range", client_version="5.1.0", **CLASSIC)], {}),
]


@pytest.mark.parametrize(("rule", "severity", "members", "facts"), FOUND)
def test_a_rule_finds(
    rule: str, severity: Severity | None, members: list[MemberConfig], facts: dict[str, Any]
) -> None:
    assert findings(*members, **facts).get(rule) is severity


def finding(rule: str, *members: MemberConfig, **facts: Any) -> LintFinding:
    (found,) = [one for one in lint(LintFacts(members, **facts)).findings if one.rule == rule]
    return found


# ---- votes


def test_a_change_without_overlap_takes_two_rolls() -> None:
    first_roll, second_roll = aiokafka("cooperative-sticky", "range"), aiokafka("cooperative-sticky")
    to_do = finding("no-common-strategy", second_roll, before=(aiokafka("range"),)).to_do
    assert to_do.startswith("Roll twice.")
    assert to_do.index("[cooperative-sticky, range]") < to_do.index("[cooperative-sticky].")
    assert "no-common-strategy" not in findings(first_roll, before=(aiokafka("range"),))
    assert "no-common-strategy" not in findings(second_roll, before=(first_roll,))


@pytest.mark.parametrize("old", [librdkafka("range"), aiokafka("sticky")])
def test_a_client_that_cannot_list_both_or_lacks_the_old_strategy_is_stopped_instead(
    old: MemberConfig,
) -> None:
    to_do = finding("no-common-strategy", librdkafka("cooperative-sticky"), before=(old,)).to_do
    assert to_do.startswith("Stop the whole group")
    assert "librdkafka.toml" in to_do


def test_the_vote_counts_members_and_advises_only_where_it_is_a_tie() -> None:
    few, many = java("sticky", "range"), java("range", "sticky", members=3)
    clear, tie = finding("vote", few, many), finding("vote", few, replace(many, members=1))
    assert "range wins with 3 of 4 votes" in clear.what
    assert (clear.why, clear.to_do) == ("", "")
    assert "a tie between range and sticky" in tie.what
    assert tie.why
    assert tie.to_do


# ---- the next step of docs/migrate.md, for each state of a group

STOCK, OLD = aiokafka("stock:sticky"), aiokafka("sticky")
BOTH, NEW = aiokafka("cooperative-sticky", "sticky"), aiokafka("cooperative-sticky")

# What the advice says of the restarts; the last one ends with the new strategy alone.
TWICE = "restart twice: first every member with CooperativeAIOKafkaConsumer"
FIRST_OF_TWO = "this change is the first of two restarts"
LAST = "restart every member with CooperativeAIOKafkaConsumer and the list [cooperative-sticky] alone: beside"


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
    found = [one for one in lint(LintFacts(after, before)).findings if one.rule == "eager-consumer"]
    assert found
    assert all(next_step in one.to_do and "[cooperative-sticky] alone" in one.to_do for one in found)


def eager_finding(*members: MemberConfig, **facts: Any) -> LintFinding:
    found = finding("eager-consumer", *members, **facts)
    assert found.severity is INFO
    return found


@pytest.mark.parametrize(
    ("member", "beginning"),
    [
        (kafka_python("cooperative-sticky"), "Unless these members are of Cooperative"),
        (aiokafka("rack-aware-sticky"), "Unless these members are of Cooperative"),
        (aiokafka("sticky"), "The consumers of these members are eager"),
        (kafka_python("cooperative-sticky", "stock:range"), "The consumers of these members are eager"),
    ],
)
def test_a_list_with_an_eager_strategy_is_eager_in_every_class_and_others_in_the_stock_classes(
    member: MemberConfig, beginning: str
) -> None:
    assert eager_finding(member).what.startswith(beginning)


WARMS, KNOWS = Warmth(max_warming=4), Warmth()


def joined(owned: TopicPartitions | None = None, *, held: bool = True, **warmth: Warmth | None) -> LiveGroup:
    """A group of aiokafka members that joined with these partitions and announce this, by their names."""
    context = MemberContext(frozenset({"orders"}), owned or {}, 7 if owned else -1)
    members = (
        LiveMember(name, "aiokafka-0.14.0", "/10.0.0.1").with_metadata(
            encode_member(load_strategy("cooperative-sticky"), context, held=held, warmth=said)
        )
        for name, said in warmth.items()
    )
    return LiveGroup("orders", "classic", "Stable", "cooperative-sticky", members=tuple(members))


def test_members_that_know_nothing_of_warm_handoff_are_named() -> None:
    (finding,) = lint(LintFacts((), live=joined(warms=WARMS, knows=KNOWS, cold=None))).findings
    assert (finding.rule, finding.members, finding.severity) == ("cold-handoff", ("cold",), INFO)
    for group in (joined(warms=WARMS, knows=KNOWS), joined(cold=None, knows=KNOWS)):
        assert "cold-handoff" not in findings(live=group)


@pytest.mark.parametrize("held", [True, False])
def test_a_live_member_shows_whether_it_joined_with_its_partitions(held: bool) -> None:
    ((newcomer,), _) = live_members(joined(held=held, m1=None))
    assert newcomer.kept_partitions is None
    assert eager_finding(newcomer).what.startswith("Unless these members are of Cooperative")
    ((member,), _) = live_members(joined({"orders": [0, 1]}, held=held, m1=None))
    assert member.kept_partitions is held
    if held:
        assert "eager-consumer" not in findings(member)
    else:
        assert eager_finding(member).what.startswith("These members joined last without their partitions")


# ---- static members


PASSING = (
    "deployment-7d9f8b6c5-x2x4z",
    "orders-5c689d88bb-qh9tz",
    "nightly-job-x7k2p",
    "orders-123e4567-e89b-12d3-a456-426614174000",
    "123E4567E89B12D3A456426614174000",
    "3f4e8a91bc02",
)
LASTING = (
    "orders-0",
    "orders-worker-12",
    "eu-west-1a",
    "host-01.example.org",
    "orders-plain",
    "consumer-24567",
)


@pytest.mark.parametrize("instance_id", [*PASSING, *LASTING])
def test_names_that_a_restart_changes_are_warned_about(instance_id: str) -> None:
    found = findings(java("range", group_instance_id=instance_id)).get("passing-instance-id")
    assert found is (WARNING if instance_id in PASSING else None)


@pytest.mark.parametrize("instance_id", ["${POD_NAME}", "$(POD_NAME)", "{{ pod }}", "%HOST%"])
def test_names_that_are_filled_in_later_are_left_open(instance_id: str) -> None:
    report = lint(LintFacts((java("range", group_instance_id=instance_id),) * 2))
    assert not {"passing-instance-id", "instance-id-twice"} & {found.rule for found in report.findings}
    assert any(instance_id in left_open.what for left_open in report.not_judged)


# ---- KIP-848


@pytest.mark.parametrize(
    ("strategy", "refused", "remedy"),
    [("rack-aware-sticky", True, "stay_classic=False"), ("sticky", False, "stay_classic=True")],
)
def test_a_group_under_a_name_of_its_own_is_said_to_refuse_a_member_of_kip848(
    strategy: str, refused: bool, remedy: str
) -> None:
    said = finding("kip848-group", aiokafka(strategy), librdkafka(group_protocol="consumer")).what
    assert remedy in said
    assert ("GROUP_ID_NOT_FOUND" in said) is refused


@pytest.mark.parametrize(("said", "refused"), [(WARMS, True), (KNOWS, False)])
def test_a_group_with_warm_handoff_is_said_to_refuse_a_member_of_kip848(said: Warmth, refused: bool) -> None:
    after = (aiokafka("cooperative-sticky"), librdkafka(group_protocol="consumer"))
    found = lint(LintFacts(after, live=joined(a=said))).findings
    (what,) = (each.what for each in found if each.rule == "kip848-group")
    assert ("Deploy these without on_partitions_warming first" in what) is refused


def test_where_the_broker_assigns_nothing_is_said_of_strategies_but_that_none_runs() -> None:
    group = replace(BROKER_ASSIGNS, members=(LiveMember("m1", "aiokafka-0.14.0", "/10.0.0.1"),))
    members, left_open = live_members(group)
    found = findings(*members, live=group)
    assert found["kip848-group"] is ERROR
    assert not {"vote", "strategy-not-in-client", "first-choice-loses"} & found.keys()
    assert "which strategies the members list" in {one.what for one in left_open}
    change = lint(LintFacts((librdkafka("sticky"),), (aiokafka("range"),), live=BROKER_ASSIGNS))
    (only,) = change.findings
    assert only.rule == "kip848-group"
    assert "group.protocol=classic" in only.to_do


# ---- live groups


def test_facts_that_the_broker_does_not_give_are_reported_as_not_judged() -> None:
    group = LiveGroup(
        "orders", "classic", "Stable", "range", members=(LiveMember("m", "own-name", "/10.0.0.1"),)
    )
    members, left_open = live_members(group)
    assert [one.what for one in left_open] == ["timeouts", "what the clients of 1 members can do"]
    assert findings(*members, live=group) == {"vote": INFO}


@pytest.mark.parametrize(
    "client_id", ["aiokafka-" + "9" * 5000, "kafka-python-1" + ".1" * 5000, "aiokafka-²"]
)
def test_a_client_id_with_any_digits_is_only_a_name(client_id: str) -> None:
    group = LiveGroup(
        "orders", "classic", "Stable", "range", members=(LiveMember("m", client_id, "/1.1.1.1"),)
    )
    (member,), _ = live_members(group)
    assert member.client is Client.UNKNOWN


def test_the_same_of_many_members_is_said_once() -> None:
    one = aiokafka("range", "stock:range")
    many = [replace(one, source=f"{number}.toml") for number in range(50)]
    assert len(finding("rebalance-timeout", *many).members) == 50
