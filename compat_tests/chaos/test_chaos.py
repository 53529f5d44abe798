"""Two minutes of events with a fixed seed on three brokers, and members with faults that must be found.

`python -m compat_tests.chaos` runs it for as long as one likes.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import get_args

import pytest

from compat_tests.chaos import chaos_group, plan
from compat_tests.chaos.chaos_group import KINDS, ChaosGroup
from compat_tests.chaos.plan import Action, Freeze, Join, KillCoordinator, SlowListener, Stall, Step
from compat_tests.chaos.rules import Violation, judge
from compat_tests.chaos.run import BROKER_SETTINGS, run
from compat_tests.interop.mixed_group import Kind
from compat_tests.jvm import compile_java, java_command
from compat_tests.kafka_cluster import KafkaCluster
from compat_tests.member_reports import MemberSpec

SEED = 208
"""All kinds of events and of members in the first two rounds."""

MINUTES = 1.5
"""The round that has begun by then is brought to its end."""


@pytest.fixture(scope="module")
def brokers() -> Iterator[KafkaCluster]:
    with KafkaCluster(brokers=3, settings=BROKER_SETTINGS) as cluster:
        yield cluster


@pytest.mark.timeout(900)
def test_two_minutes_of_chaos_break_no_rule(
    brokers: KafkaCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found = run(brokers, SEED, MINUTES, list(KINDS), logs=tmp_path / "logs")
    with capsys.disabled():
        print(f"\nseed {SEED}: {found.totals}")
    assert not found.violations, f"{found.story()}\nlogs of the members: {tmp_path / 'logs'}"
    assert found.totals.members.keys() == KINDS.keys()
    assert found.totals.events.keys() == {event.__name__ for event in get_args(Action)}
    assert found.totals.records > 0
    assert found.totals.generations > found.totals.rounds


BOTH = ("orders", "payments")


def violations(brokers: KafkaCluster, *rounds: Sequence[Step]) -> list[Violation]:
    """What these rounds break, after each of which the group comes to rest."""
    with ChaosGroup(brokers) as group:
        for steps in rounds:
            group.carry_out(steps)
            group.come_to_rest_in_time()
        group.stop_writing()
        return judge(group.ledger())


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("fault", "steps", "broken"),
    [
        (
            "leaseless",
            [Step(0, Join("b", "aiokafka", BOTH)), Step(8, Freeze("a", plan.SESSION_TIMEOUT_S + 4))],
            "zombies with a lease deliver nothing",
        ),
        (
            "hasty",
            [Step(0, SlowListener("a", 2.0, 10.0)), Step(1, Join("b", "aiokafka", BOTH))],
            "no partition has two live owners",
        ),
    ],
    ids=["leaseless", "hasty"],
)
def test_a_member_with_a_fault_is_found_out(
    brokers: KafkaCluster, monkeypatch: pytest.MonkeyPatch, fault: str, steps: Sequence[Step], broken: str
) -> None:
    faulty = Kind(fault, f"compat_tests.chaos.members.{fault}_member", ours=True)
    monkeypatch.setattr(chaos_group, "KINDS", {**KINDS, fault: faulty})

    def broken_rules() -> set[str]:
        return {one.rule for one in violations(brokers, [Step(0, Join("a", fault, BOTH))], steps)}

    # It shows if the member has records in hand when it is frozen, and is given them before it is told.
    assert any(broken in broken_rules() for _ in range(4))


@pytest.mark.timeout(420)
def test_zombies_that_wake_while_another_broker_takes_the_group_over_deliver_nothing(
    brokers: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Beside one that does: a coordinator answers OK to everybody while it loads the group.
    trusting = Kind("trusting", "compat_tests.chaos.members.trusting_member", ours=True)
    monkeypatch.setattr(chaos_group, "KINDS", {**KINDS, "trusting": trusting})
    zombies = {"trusting": "trusting", "b": "kafka-python", "c": "aiokafka"}
    joins = [Step(0, Join(name, kind, BOTH)) for name, kind in (zombies | {"d": "aiokafka"}).items()]
    removed_s = plan.SESSION_TIMEOUT_S + 2
    freezes = [Step(0, Freeze(name, removed_s + 4)) for name in zombies]

    def those_that_deliver() -> set[str]:
        found = violations(brokers, joins, [*freezes, Step(removed_s, KillCoordinator(3.0))])
        assert {one.rule for one in found} <= {"zombies with a lease deliver nothing"}
        return {one.text.split()[0] for one in found}

    # It shows if a heartbeat comes while the group is being loaded.
    for _ in range(4):
        found = those_that_deliver()
        assert found <= {"trusting"}
        if found:
            return
    pytest.fail("no heartbeat came to a coordinator that was loading the group")


@pytest.mark.timeout(240)
def test_a_static_member_of_librdkafka_that_had_to_begin_again_forgets_what_it_had(
    brokers: KafkaCluster,
) -> None:
    joins = [Step(0, Join("a", "librdkafka", BOTH, static=True)), Step(0, Join("b", "aiokafka", BOTH))]
    # Its commit after that ends the consumer for good, if it still has records in hand.
    too_long = Stall("a", plan.MAX_POLL_INTERVAL_S + 4)
    assert violations(brokers, joins, [Step(0, too_long), Step(9, Join("c", "aiokafka", BOTH))]) == []


def test_java_members_report_on_the_clock_of_the_others() -> None:
    spec = MemberSpec(
        "a", "127.0.0.1:1", "nobody", ["orders"], ["cooperative-sticky"], max_poll_interval_ms=10_000
    )
    begin = time.monotonic()
    # Its standard input is at its end, so it stops at once.
    done = subprocess.run(
        java_command("ReportingMember", spec.to_json(), classes=compile_java()),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=True,
    )
    end = time.monotonic()
    reports = [json.loads(line) for line in done.stdout.splitlines() if line.startswith(b"{")]
    assert [report["event"] for report in reports] == ["stopped", "closed"]
    assert all(begin < report["at"] < end for report in reports)
