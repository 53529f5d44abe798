"""Rounds of events with fixed seeds on three brokers, single faults, and faulty members that are found out.

`python -m compat_tests.chaos` runs for any time.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from compat_tests.chaos import chaos_group, plan
from compat_tests.chaos.chaos_group import KINDS
from compat_tests.chaos.ledger import Ending
from compat_tests.chaos.plan import Action, Freeze, Join, Leave, SlowListener, Step, Suspend
from compat_tests.chaos.rules import judge
from compat_tests.chaos.run import chaos_brokers, play, run, table
from compat_tests.interop.mixed_group import Kind
from compat_tests.support.kafka_cluster import KafkaCluster


@pytest.fixture(scope="module")
def brokers() -> Iterator[KafkaCluster]:
    with chaos_brokers() as cluster:
        yield cluster


ROUNDS: Mapping[str, tuple[int, Sequence[str]]] = {
    "commits": (55349, list(KINDS)),
    "transactions of aiokafka": (48869, ["aiokafka-copying"]),
    "transactions of kafka-python": (18431, ["kafka-python-copying"]),
}
"""Seeds and kinds of members; the first rounds of these seeds together have all kinds of events.

Each has twenty events and more, all of which have ended when the round's time is over.
"""

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
        print(f"\nseed {seed}: {table([found.totals], found.settled_in_s)}")
    assert not found.violations, f"{found.story()}\nlogs of the members: {tmp_path / 'logs'}"
    assert found.totals["members"].keys() == set(kinds)
    counts = found.totals["counts"]
    assert counts["records"] > 0
    assert counts["generations"] > counts["rounds"]


def test_the_rounds_of_the_chaos_test_have_every_kind_of_event() -> None:
    def kinds_of(action: type[Action]) -> set[type[Action]]:
        return set().union(*map(kinds_of, action.__subclasses__())) or {action}

    rounds = [next(iter(plan.plan(seed, kinds))) for seed, kinds in ROUNDS.values()]
    assert {type(step.action) for steps in rounds for step in steps} == kinds_of(Action)


def test_the_program_of_make_chaos_needs_no_pytest() -> None:
    code = "import sys; sys.modules['pytest'] = None; "
    code += "from compat_tests.chaos.__main__ import main; main(['--help'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, "--minutes" in done.stdout) == (0, True), done.stderr


BOTH = ("orders", "payments")
PAST_THE_SESSION_S = plan.SESSION_TIMEOUT_S + 4


def join(name: str, kind: str, *, static: bool = False) -> Step:
    return Step(0, Join(name, kind, BOTH, static))


@pytest.mark.parametrize(
    ("fault", "rounds", "broken"),
    [
        (
            "leaseless",
            [[join("a", "leaseless"), join("b", "aiokafka")], [Step(0, Freeze("a", PAST_THE_SESSION_S))]],
            "zombies with a lease deliver nothing",
        ),
        ("hasty", [[join("a", "hasty")], [join("b", "aiokafka")]], "no partition has two live owners"),
    ],
)
def test_a_member_with_a_fault_is_found_out(
    brokers: KafkaCluster,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
    rounds: Sequence[Sequence[Step]],
    broken: str,
) -> None:
    faulty = Kind(fault, f"compat_tests.chaos.members.{fault}_member", ours=True)
    monkeypatch.setattr(chaos_group, "KINDS", {**KINDS, fault: faulty})
    assert broken in {one.rule for one in judge(play(brokers, *rounds))}


def test_a_member_whose_machine_slept_past_its_session_delivers_nothing_that_others_have(
    brokers: KafkaCluster,
) -> None:
    members = [join("a", "aiokafka"), join("b", "kafka-python"), join("c", "aiokafka")]
    ledger = play(brokers, members, [Step(0, Suspend(name, PAST_THE_SESSION_S)) for name in ("a", "b")])
    assert judge(ledger) == []
    lost = {one.member for one in ledger.ownerships if one.ending is Ending.LOST}
    assert {"a", "b"} <= lost  # Others may be lost too, if the test's machine stalls.


def test_a_static_member_that_does_not_join_in_time_delivers_nothing_that_others_got(
    brokers: KafkaCluster,
) -> None:
    # While the slow listeners of two static members are told of what `a` and `b` had, `c` joins. The
    # coordinator waits for the rebalance timeout only, and keeps the static members with their JoinGroup from
    # before. That does not name what `a` and `b` had, so the leader gives some of it to `c`.
    late = {f"late-{kind}": kind for kind in ("aiokafka", "kafka-python")}
    joins = [join(name, "aiokafka") for name in "abd"]
    static = [join(name, kind, static=True) for name, kind in late.items()]
    # The calls that begin in these seconds last past the rebalance timeout; later ones need not.
    slow_s = plan.REBALANCE_TIMEOUT_S + 5
    slow = [Step(0, SlowListener(name, slow_s, slow_s)) for name in late]
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
