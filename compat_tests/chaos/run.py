"""One run of a seed for some minutes, and its outcome."""

from __future__ import annotations

import collections
import contextlib
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from compat_tests.chaos.chaos_group import COPYING_KINDS, ChaosGroup, NotSettledError
from compat_tests.chaos.ledger import Ledger, around
from compat_tests.chaos.plan import Step, plan
from compat_tests.chaos.rules import Violation, duplicates, judge
from compat_tests.support.fault_proxy import FaultProxy
from compat_tests.support.kafka_cluster import KafkaCluster

_BROKER_SETTINGS: Mapping[str, object] = {
    "min.insync.replicas": 2,
    "broker.session.timeout.ms": 6000,  # The plan depends on it.
    # A transaction that its producer does not end is aborted soon after its timeout.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
}


@contextlib.contextmanager
def chaos_brokers() -> Iterator[KafkaCluster]:
    """Three brokers behind a proxy."""
    with FaultProxy() as proxy, KafkaCluster(brokers=3, settings=_BROKER_SETTINGS, proxy=proxy) as kafka:
        yield kafka


Totals: TypeAlias = Mapping[str, collections.Counter[str]]
"""The counts of a run: entries of its ledger, events and members by kind, endings of ownerships."""


def table(runs: Sequence[Totals], settled_in_s: Sequence[float]) -> str:
    """The sums of the counts of these runs, and how long their groups took to settle."""
    times = settled_in_s or [0.0]
    lines = [f"settled in {statistics.median(times):.1f} s (median), {max(times):.1f} s (most)"]
    for name in runs[0]:
        sums = sum((totals[name] for totals in runs), collections.Counter[str]())
        lines.append(f"{name}: " + ", ".join(f"{number} {what}" for what, number in sums.most_common()))
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Found:
    """The outcome of a run."""

    seed: int
    totals: Totals
    settled_in_s: Sequence[float]
    violations: Sequence[Violation]
    ledger: Ledger

    def story(self, most: int = 10) -> str:
        """The violations; for the first ones, also the ledger's entries around them."""
        lines = []
        for number, violation in enumerate(self.violations[:most]):
            lines.append(f"VIOLATION of '{violation.rule}', seed {self.seed}:\n  {violation.text}")
            if number < 3:
                lines.extend(f"    {line}" for line in around(self.ledger, violation.at, violation.partition))
        if len(self.violations) > most:
            lines.append(f"... and {len(self.violations) - most} more")
        return "\n".join(lines)


def run(
    kafka: KafkaCluster,
    seed: int,
    minutes: float,
    kinds: Sequence[str],
    tell: Callable[[str], None] = lambda _: None,
    logs: Path | None = None,
) -> Found:
    """Run rounds until the minutes have passed, but at least one, or until a round ends with a violation.

    If a rule was broken, the logs of the members are copied to the new folder `logs`.
    """
    begin = time.monotonic()
    events: collections.Counter[str] = collections.Counter()
    started: collections.Counter[str] = collections.Counter()
    failures: list[Violation] = []
    rounds = 0
    with ChaosGroup(kafka, copying=set(kinds) <= COPYING_KINDS.keys()) as group:
        for rounds, steps in enumerate(plan(seed, kinds), start=1):
            tell(f"seed {seed}, round {rounds}: {len(steps)} events")
            events.update(type(step.action).__name__ for step in steps)
            started.update(step.action.kind for step in steps if hasattr(step.action, "kind"))
            failures.extend(_round(group, steps))
            if failures or time.monotonic() - begin > minutes * 60:
                break
        group.stop_writing()
        if not failures:
            failures.extend(_rest(group))
        ledger = group.ledger()
        settled_in_s = list(group.settle_times_s)
        violations = [*failures, *judge(ledger)]
        if violations and logs is not None:
            group.keep_logs(logs)
    again = [duplicates(part) for _, part in ledger.by_partition()]
    counts = {
        "seconds": round(time.monotonic() - begin),
        "rounds": rounds,
        "records": sum(ledger.written.values()),
        "delivered again where that is allowed": sum(one.allowed for one in again),
        "delivered by zombies without a lease": sum(one.by_zombies for one in again),
        "commits of a partition": len(ledger.commits),
        "commits that name their member": sum(bool(one.member) for one in ledger.commits),
        "refused commits": len(ledger.failures),
        "generations": len(ledger.generations),
    }
    endings = collections.Counter(one.ending.value for one in ledger.ownerships)
    totals = {
        "counts": collections.Counter(counts),
        "events": events,
        "members": started,
        "ownerships": endings,
    }
    return Found(seed, totals, settled_in_s, violations, ledger)


def play(kafka: KafkaCluster, *rounds: Sequence[Step], copying: bool = False) -> Ledger:
    """The ledger of these rounds; the group has to settle after each."""
    with ChaosGroup(kafka, copying=copying) as group:
        for steps in rounds:
            group.carry_out(steps)
            group.come_to_rest_in_time()
        group.stop_writing()
        # The last written records are still to be delivered.
        group.come_to_rest_in_time()
        return group.ledger()


def _round(group: ChaosGroup, steps: Sequence[Step]) -> list[Violation]:
    try:
        group.carry_out(steps)
    except NotSettledError as error:
        return [Violation("members stop when they are asked to", time.monotonic(), None, str(error))]
    return _rest(group)


def _rest(group: ChaosGroup) -> list[Violation]:
    found = []
    try:
        group.come_to_rest_in_time()
    except NotSettledError as error:
        found.append(Violation("the group settles", time.monotonic(), None, str(error)))
    return found + [
        Violation("members do not end by themselves", time.monotonic(), None, f"{name}:\n{words}")
        for name, words in group.crashed().items()
    ]
