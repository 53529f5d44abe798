"""Single faults with a certain effect, and the ledger after each."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from compat_tests.chaos import plan
from compat_tests.chaos.actions import Freeze, Join, Kill, Leave, Suspend
from compat_tests.chaos.ledger import Ending, Ledger
from compat_tests.chaos.plan import Step
from compat_tests.chaos.rules import judge
from compat_tests.chaos.run import play
from compat_tests.support.kafka_cluster import KafkaCluster

BOTH = ("orders", "payments")
PAST_THE_SESSION_S = plan.SESSION_TIMEOUT_S + 4


def joins(**kinds: str) -> Sequence[Step]:
    return [Step(0, Join(name, kind, BOTH)) for name, kind in kinds.items()]


def assert_kept(ledger: Ledger) -> None:
    found = [f"{one.rule}: {one.text}" for one in judge(ledger)]
    assert found == [], "\n".join(found[:10])


def test_a_member_whose_machine_slept_past_its_session_delivers_nothing_that_others_have(
    brokers: KafkaCluster,
) -> None:
    members = joins(a="aiokafka", b="kafka-python", c="aiokafka")
    sleeps = [Step(0, Suspend(name, PAST_THE_SESSION_S)) for name in ("a", "b")]
    ledger = play(brokers, members, sleeps)
    assert_kept(ledger)
    lost = {one.member for one in ledger.ownerships if one.ending is Ending.LOST}
    assert {"a", "b"} <= lost  # Others may be lost too, if the test's machine stalls.


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["aiokafka-copying", "kafka-python-copying"])
def test_transactions_copy_every_record_once_while_members_join_leave_die_and_stand_still(
    brokers: KafkaCluster, kind: str
) -> None:
    events = [
        Step(0, Join("c", kind, BOTH)),
        Step(5, Leave("c")),
        Step(6, Join("d", kind, BOTH)),
        Step(11, Kill("d")),
        Step(12, Freeze("a", PAST_THE_SESSION_S)),
        Step(13, Join("e", kind, BOTH)),
    ]
    ledger = play(brokers, joins(a=kind, b=kind), events, copying=True)
    assert_kept(ledger)
    assert ledger.copies is not None
    assert sum(map(len, ledger.copies.values())) >= sum(ledger.written.values()) > 0
