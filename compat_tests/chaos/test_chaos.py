"""Some rounds of events with fixed seeds on three brokers, and faulty members that must be detected.

`python -m compat_tests.chaos` runs for any time.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_args

import pytest

from compat_tests.chaos import chaos_group, plan
from compat_tests.chaos.actions import Action, Freeze, Join, Leave, SlowListener
from compat_tests.chaos.chaos_group import KINDS
from compat_tests.chaos.plan import Step
from compat_tests.chaos.rules import Violation, judge
from compat_tests.chaos.run import play, run
from compat_tests.interop.mixed_group import Kind
from compat_tests.support.kafka_cluster import KafkaCluster

ROUNDS: Mapping[str, tuple[int, Sequence[str]]] = {
    "commits": (3236, list(KINDS)),
    "transactions of aiokafka": (3000, ["aiokafka-copying"]),
    "transactions of kafka-python": (5208, ["kafka-python-copying"]),
}
"""Seeds and kinds of members; the first rounds of these seeds together have all kinds of events."""

ONE_ROUND_MINUTES = 0.1
"""A round that has begun by then runs to its end."""


@pytest.mark.parametrize(("seed", "kinds"), ROUNDS.values(), ids=list(ROUNDS))
def test_a_round_of_chaos_breaks_no_rule(
    brokers: KafkaCluster,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    seed: int,
    kinds: Sequence[str],
) -> None:
    found = run(brokers, seed, ONE_ROUND_MINUTES, kinds, logs=tmp_path / "logs")
    with capsys.disabled():
        print(f"\nseed {seed}: {found.totals}")
    assert not found.violations, f"{found.story()}\nlogs of the members: {tmp_path / 'logs'}"
    assert found.totals.members.keys() == set(kinds)
    assert found.totals.counts["records"] > 0
    assert found.totals.counts["generations"] > found.totals.counts["rounds"]


def test_the_rounds_of_the_chaos_test_have_every_kind_of_event() -> None:
    rounds = [next(iter(plan.plan(seed, kinds))) for seed, kinds in ROUNDS.values()]
    assert {type(step.action) for steps in rounds for step in steps} == set(get_args(Action))


def test_the_program_of_make_chaos_needs_no_pytest() -> None:
    code = "import sys; sys.modules['pytest'] = None; "
    code += "from compat_tests.chaos.__main__ import main; main(['--help'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, "--minutes" in done.stdout) == (0, True), done.stderr


BOTH = ("orders", "payments")


def violations(brokers: KafkaCluster, *rounds: Sequence[Step]) -> list[Violation]:
    """The violations of these rounds; the group settles after each."""
    return judge(play(brokers, *rounds))


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
            [Step(0, SlowListener("a", 5.0, 60.0)), Step(1, Join("b", "aiokafka", BOTH))],
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
    assert broken in {one.rule for one in violations(brokers, [Step(0, Join("a", fault, BOTH))], steps)}


def test_a_static_member_that_does_not_join_in_time_delivers_nothing_that_others_got(
    brokers: KafkaCluster,
) -> None:
    # While the slow listeners of two static members are told of what `a` and `b` had, `c` joins. The
    # coordinator waits for the rebalance timeout only, and keeps the static members with their JoinGroup from
    # before. That does not name what `a` and `b` had, so the leader gives some of it to `c`.
    late = {f"late-{kind}": kind for kind in ("aiokafka", "kafka-python")}
    joins = [Step(0, Join(name, "aiokafka", BOTH)) for name in "abd"]
    static = [Step(0, Join(name, kind, BOTH, static=True)) for name, kind in late.items()]
    slow = [Step(0, SlowListener(name, plan.REBALANCE_TIMEOUT_S + 5, 40.0)) for name in late]
    change = [Step(0, Leave("a")), Step(0, Leave("b")), Step(4, Join("c", "aiokafka", BOTH))]
    ledger = play(brokers, [*joins, *static], [*slow, *change])
    assert judge(ledger) == []
    left_out = {
        one.member
        for one in ledger.ownerships
        if one.member in late and (giving := ledger.giving(one))
        for after in ledger.generations
        if one.member_id in after.assigned and after.leaves_out(one.member_id, giving.number)
    }
    assert left_out == late.keys()
