"""A group on a real broker gets another leader, without any other change.

    python -m compat_tests.interop.change_leader --changes 8

A group normally keeps its leader until it leaves, which is a change in itself. Static members (KIP-345) are
the exception: a static member that does not rejoin in a rebalance stays a member until its session expires,
with its last subscription; if it was the leader, another member leads. Therefore the test freezes the leader
for longer than the rebalance timeout, while another member requests a rebalance that changes nothing.

librdkafka cannot take part: it refuses a `max.poll.interval.ms` (rebalance timeout) below the session
timeout.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from compat_tests.interop.mixed_group import JAVA, OUR_AIOKAFKA, MixedGroup
from compat_tests.interop.recorded_group import changes
from compat_tests.support.hang_limit import stand_by
from compat_tests.support.kafka_cluster import Kafka, KafkaCluster

__all__ = ["Led", "alternate"]

TOPICS = {"orders": 12, "payments": 7}

_MEMBERS = (JAVA, OUR_AIOKAFKA, JAVA, OUR_AIOKAFKA)
_REBALANCE_TIMEOUT_MS = 2000
_SESSION_TIMEOUT_MS = 30_000


@dataclass(frozen=True, slots=True)
class Led:
    """The time of a group under one leader, until the next one takes over, and the moves in it."""

    leader: str
    generations: int
    moved: int


def alternate(kafka: Kafka, name: str, times: int) -> list[Led]:
    """Change the leader of a group of Java members and members of ours `times` times."""
    with MixedGroup(kafka, name, TOPICS) as group:
        for number, kind in enumerate(_MEMBERS):
            group.join(
                kind,
                instance_id=f"pod-{number}",
                session_timeout_ms=_SESSION_TIMEOUT_MS,
                rebalance_timeout_ms=_REBALANCE_TIMEOUT_MS,
            )
            group.settle()
        # A frozen leader's last metadata must be up to date, so every member joins once more.
        _ask_for_a_rebalance(group, besides="")
        group.come_to_rest()
        return [_change_leader(group) for _ in range(times)]


def _change_leader(group: MixedGroup) -> Led:
    before = group.generations()[-1]
    group.freeze(before.leader)
    _ask_for_a_rebalance(group, besides=before.leader)
    group.wait_for("another leader", lambda: group.generations()[-1].leader != before.leader)
    group.thaw(before.leader)
    # The broker waits as long again for the old leader's SyncGroup, even if it came back under another id.
    stand_by(_REBALANCE_TIMEOUT_MS / 1000)
    after = group.come_to_rest()
    seen = [generation for generation in group.generations() if generation.number >= before.number]
    moved = sum(change.moved for change in changes(seen, group.topics))
    return Led(group.kind_of(seen[-1].leader).label, after.generation - before.number, moved)


def _ask_for_a_rebalance(group: MixedGroup, besides: str) -> None:
    """Request a rebalance by a member of ours that subscribes to the same topics again."""
    before = group.generations()[-1].number
    caller = next(name for name in group.members if group.kind_of(name) is OUR_AIOKAFKA and name != besides)
    group.subscribe(caller, list(TOPICS))
    group.wait_for("a rebalance", lambda: group.generations()[-1].number > before)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Change the leader of a group on a broker, and nothing else."
    )
    parser.add_argument("--changes", type=int, default=8, help="how often (8)")
    chosen = parser.parse_args(arguments)
    with ExitStack() as running:
        existing = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
        kafka = Kafka(existing) if existing else running.enter_context(KafkaCluster())
        for name in ("sticky", "cooperative-sticky"):
            for led in alternate(kafka, name, chosen.changes):
                print(
                    f"{name}: {led.leader} took over, {led.generations} generations, moved {led.moved}",
                    flush=True,
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
