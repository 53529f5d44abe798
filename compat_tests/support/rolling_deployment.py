"""A rolling deployment of a real consumer group: new pods come one at a time, and an old one goes for each.

    with CooperativeGroup(kafka, program, {"orders": 12}) as group:
        counted = deploy(group, 4, lambda release: f"rollout:{release}")

Records are written all the while. What is counted comes from the members' own reports.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from compat_tests.scenarios.cooperative import CooperativeGroup, flat
from compat_tests.support.group_of_members import Settled

__all__ = ["Counted", "deploy"]

_RECORDS_AT_A_TIME = 5
_WRITE_EVERY_S = 0.2


@dataclass(frozen=True, slots=True)
class Counted:
    """What a deployment did to the group.

    `revoked_from_live` are partitions that members gave up which went on consuming others, and
    `handed_over_draining` those that members gave up which were about to leave. `added` are partitions that
    members got. `greatest_load` is the most that one had whenever the group was settled. `records` were
    written, and so many of them delivered more than once, or to no member.
    """

    revoked_from_live: int
    handed_over_draining: int
    added: int
    greatest_load: int
    generations: int
    records: int
    doubled: int
    missing: int


class _Writing:
    """Records to all partitions, all the time."""

    def __init__(self, group: CooperativeGroup) -> None:
        self._group = group
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self.per_partition = 0

    def __enter__(self) -> _Writing:
        self._thread.start()
        return self

    def _write(self) -> None:
        while not self._ending.wait(_WRITE_EVERY_S):
            self._group.produce(_RECORDS_AT_A_TIME)
            self.per_partition += _RECORDS_AT_A_TIME

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()


def deploy(
    group: CooperativeGroup, pods: int, assignor_of: Callable[[str], str], *, draining: bool = False
) -> Counted:
    """Start so many pods of release 1, replace them by pods of release 2, and count from there on.

    `assignor_of` is what members of a release are given (see `MemberSpec.assignors`). With `draining`, old
    pods announce it and give everything up before they go.
    """
    with _Writing(group) as writing:
        for number in range(pods):
            group.join(f"old-{number}", [assignor_of("1")])
        settled = first = group.settle()
        loads = [_greatest(settled)]
        before = {name: len(member.reports()) for name, member in group.members.items()}
        for number in range(pods):
            old, new = f"old-{number}", f"new-{number}"
            group.join(new, [assignor_of("2")])
            settled = group.settle(after=settled)
            loads.append(_greatest(settled))
            if draining:
                group.tell(old, draining=True)
                settled = _settled_without(group, old, settled)
            group.stop(old)
            settled = group.settle(after=settled)
            loads.append(_greatest(settled))
    consumed = group.wait_until_consumed(writing.per_partition)
    revoked, drained, added = 0, 0, 0
    for name, member in group.members.items():
        live = True
        for report in member.reports()[before.get(name, 0) :]:
            live = live and report["event"] != "stopped"
            if live and report["event"] == "revoked":
                count = len(flat(report["partitions"]))
                if draining and name.startswith("old-"):
                    drained += count
                else:
                    revoked += count
            elif live and report["event"] == "added":
                added += len(flat(report["partitions"]))
    partitions = sum(group.topics.values())
    return Counted(
        revoked_from_live=revoked,
        handed_over_draining=drained,
        added=added,
        greatest_load=max(loads),
        generations=settled.generation - first.generation,
        records=writing.per_partition * partitions,
        doubled=sum(times > 1 for times in consumed.values()),
        missing=writing.per_partition * partitions - len(consumed),
    )


def _greatest(settled: Settled) -> int:
    return max(map(settled.assignment.load, settled.assignment.members))


def _settled_without(group: CooperativeGroup, leaving: str, after: Settled) -> Settled:
    """Wait until a member that drains has nothing any more."""
    while True:
        after = group.settle(after=after)
        if not after.count(leaving):
            return after
