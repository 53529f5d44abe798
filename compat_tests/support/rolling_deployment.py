"""A rolling deployment of a real consumer group: each new pod replaces an old one, one at a time.

    with CooperativeGroup(kafka, program, {"orders": 12}) as group:
        counted = deploy(group, 4, lambda release: f"rollout:{release}")

Records are written throughout. The counts come from the members' reports.
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

    Attributes:
        revoked_from_live: partitions given up by members that went on consuming others.
        handed_over_draining: partitions given up by members that were about to leave.
        added: partitions that members received.
        greatest_load: the most partitions of one member whenever the group was settled.
        records: records written, of which `doubled` were delivered more than once and `missing` never.
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
    """Writes records to all partitions until the block ends."""

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
    """Start `pods` pods of release 1, then replace them by pods of release 2, and count from there on.

    `assignor_of` gives the assignor of a release (see `MemberSpec.assignors`). With `draining`, old pods
    announce that they drain, and give everything up before they stop.
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
    """Wait until a draining member owns no partition."""
    while True:
        after = group.settle(after=after)
        if not after.count(leaving):
            return after
