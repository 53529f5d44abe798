"""Groups whose leader acts on weights between rebalances, on a real broker, for every client."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import ClassVar

from compat_tests.scenarios.cooperative import CooperativeGroup, Partitions, owned
from compat_tests.support.group_of_members import Settled
from compat_tests.support.kafka_cluster import Kafka

__all__ = ["ActingScenarios"]

PARTITIONS = 6
HEAVY = 100


class _Weights:
    """The weights file that all members of a group read."""

    def __init__(self, group: CooperativeGroup, folder: Path) -> None:
        self.assignor = f"acting:{folder / 'weights.json'}"
        self._topic, self._file = group.topic("orders"), folder / "weights.json"
        self.heavy: Partitions = set()
        self.write(())

    def write(self, heavy: Collection[tuple[str, int]]) -> None:
        """Make these partitions heavy, and all others light."""
        self.heavy = set(heavy)
        weights = [HEAVY if (self._topic, number) in self.heavy else 1 for number in range(PARTITIONS)]
        new = self._file.with_suffix(".new")
        new.write_text(json.dumps({"topics": {self._topic: weights}}))
        new.replace(self._file)  # A concurrent reader sees either the old or the new weights.


def _judgements(group: CooperativeGroup) -> list[bool]:
    """For each load check of any member, whether the leader acted."""
    return [report["acts"] for one in group.members.values() for report in one.reports("judged")]


def _judged(group: CooperativeGroup, times: int) -> None:
    """Wait for this many more load checks."""
    enough = len(_judgements(group)) + times
    group.wait_for(f"{times} judgements", lambda: len(_judgements(group)) >= enough)


def _spread(group: CooperativeGroup, weights: _Weights, *names: str) -> Settled:
    """Wait until no member has more than one heavy partition."""

    def find() -> Settled | None:
        settled = group.settle(*names)
        shares = [len(owned(settled, name) & weights.heavy) for name in settled.names]
        return settled if max(shares) == 1 else None

    found: Settled = group.wait_for("the heavy partitions to be spread", find)
    return found


class ActingScenarios:
    program: ClassVar[str]

    def test_a_leader_acts_once_and_each_record_is_delivered_once(self, kafka: Kafka, tmp_path: Path) -> None:
        with CooperativeGroup(kafka, self.program, {"orders": PARTITIONS}) as group:
            weights = _Weights(group, tmp_path)
            group.produce(20)
            for name in ("a", "b", "c"):
                group.join(name, [weights.assignor])
            before = group.settle()
            _judged(group, 4)
            assert not any(_judgements(group))
            assert group.settle() == before

            weights.write(owned(before, "b"))
            after = _spread(group, weights)
            group.produce(20)
            _judged(group, 6)  # These checks give the leader time to act again.
            assert group.settle() == after
            assert _judgements(group).count(True) == 1
            group.must_have_delivered_each_record_once(40)
            group.must_not_have_lost_anything()
            assert [one.reports("logged") for one in group.members.values()] == [[], [], []]

    def test_a_leader_that_dies_between_judgement_and_join_is_not_missed(
        self, kafka: Kafka, tmp_path: Path
    ) -> None:
        with CooperativeGroup(kafka, self.program, {"orders": PARTITIONS}) as group:
            weights = _Weights(group, tmp_path)
            for name in ("a", "b", "c"):
                group.join(name, [weights.assignor], dies_when_it_acts=True, session_timeout_ms=10_000)
            before = group.settle()
            weights.write(owned(before, "b"))
            group.wait_for("the leader to die", lambda: not all(m.running for m in group.members.values()))
            # The next leader would also die if it acted. The join after a death already uses the new weights.
            after = _spread(group, weights)
            assert len(after.names) == 2
            _judged(group, 6)
            assert [member.running for member in group.members.values()].count(False) == 1
            assert _judgements(group).count(True) == 1
            assert group.settle() == after
            group.produce(20)
            group.wait_until_consumed(20)
