"""What the partitions of a running group cost: two looks at its offsets, some time apart."""

from __future__ import annotations

import difflib
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kafka_assignors.group import Group, Member, Topic
from kafka_assignors.live_group import HiddenTopicsError, LiveGroup, UnsettledGroupError, as_group
from kafka_assignors.sizing import Look, Rates, rates_from
from kafka_assignors_cli.console import CannotRun, ProgressReport, counted
from kafka_assignors_cli.options import cluster_errors

if TYPE_CHECKING:
    from kafka_assignors_confluent import Cluster

__all__ = ["GroupLooks", "Measured"]

_MOST_LOOKS = 64
_WAIT_S = 0.2


@dataclass(frozen=True, slots=True)
class Measured:
    """The group with its rates as weights, and how they came about.

    Attributes:
        most_consumed: the most that a member consumed, which kept its partitions between the looks.
    """

    group: Group
    rates: Rates
    most_consumed: int
    notes: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class _Seen:
    look: Look
    live: LiveGroup


class GroupLooks:
    """Looks at one group of a cluster. `CannotRun` says why a look is not possible."""

    def __init__(self, cluster: Cluster, group_id: str, over_s: float, drain_s: float | None) -> None:
        self._cluster, self._group_id = cluster, group_id
        self._over_s, self._drain_s = over_s, drain_s
        self._looks: deque[_Seen] = deque(maxlen=_MOST_LOOKS)

    def measure(self, progress: ProgressReport) -> Measured:
        """Look once more, and take the rates since the latest look that is old enough, or wait for one."""
        if not self._looks:
            self._looks.append(self._look(progress))
        due_s = self._looks[0].look.at_s + self._over_s
        while (left_s := due_s - time.monotonic()) > 0:
            progress.update(
                "waiting for the second look: seconds", int(self._over_s - left_s), round(self._over_s)
            )
            time.sleep(min(_WAIT_S, left_s))
        second = self._look(progress)
        first = max(
            (seen for seen in self._looks if seen.look.at_s <= second.look.at_s - self._over_s),
            key=lambda seen: seen.look.at_s,
        )
        # A look is kept while it, or a later one, can be the first of two.
        self._looks = deque(
            (seen for seen in self._looks if seen.look.at_s >= first.look.at_s), maxlen=_MOST_LOOKS
        )
        if len(self._looks) < _MOST_LOOKS:
            self._looks.append(second)
        return _measured(first, second, self._over_s, self._drain_s)

    def _look(self, progress: ProgressReport) -> _Seen:
        with cluster_errors():
            (live,) = self._cluster.read_groups([self._group_id], on_progress=progress.update)
            if live.state == "Dead":
                known = [group.id for group in self._cluster.list_groups().groups]
                near = difflib.get_close_matches(self._group_id, known, n=1)
                hint = f"did you mean {near[0]!r}?" if near else "'kafka-assignors groups' lists them"
                raise CannotRun(f"there is no group {self._group_id!r}: {hint}")
            topics = _partitions(live)
            ends = self._cluster.read_ends(
                {name: range(count) for name, count in topics.items()}, progress.update
            )
        if live.committed is None:
            raise CannotRun(f"group {live.id!r}: {'; '.join(live.problems)}")
        return _Seen(Look(time.monotonic(), ends, live.committed), live)


def _partitions(live: LiveGroup) -> dict[str, int]:
    """The number of partitions of each topic of the group; without members, of each that it has committed."""
    if live.members:
        try:
            return {name: topic.partitions for name, topic in as_group(live).topics.items()}
        except HiddenTopicsError as error:
            raise CannotRun(str(error)) from None
        except UnsettledGroupError as error:
            raise CannotRun(f"{error}: try again") from None
    return {name: max(numbers) + 1 for name, numbers in (live.committed or {}).items() if numbers}


def _measured(first: _Seen, second: _Seen, over_s: float, drain_s: float | None) -> Measured:
    live = second.live
    counts = _partitions(live)
    if not counts:
        raise CannotRun(
            f"group {live.id!r} has no members and has committed nothing, so its topics are not known"
        )
    rates = rates_from(first.look, second.look, counts, drain_s)
    topics = {name: Topic(name, count, weights=tuple(rates.costs[name])) for name, count in counts.items()}
    members: Mapping[str, Member] = {}
    if live.members:
        group = as_group(live)
        members = group.members
        topics = {name: replace(topic, weights=topics[name].weights) for name, topic in group.topics.items()}
    notes = [f"rates are means over at least {over_s:g} s"]
    if rates.without_commit:
        notes.append(
            f"the group has committed nothing of {counted(rates.without_commit, 'partition')}, so their "
            "lag is not known and counts as none"
        )
    if not live.members:
        notes.append("the group has no members; its topics are those that it has committed")
    before = {member.id: member.assigned for member in first.live.members}
    kept = {
        member.id: member.assigned
        for member in live.members
        if member.assigned and before.get(member.id) == member.assigned
    }
    generation = live.generation
    return Measured(Group(topics, members, generation), rates, rates.most_consumed(kept), tuple(notes))
