"""Strategies of this package that are composed of rules: `rollout`, `standby`, `priority`, `co-partitioned`.

Each is a fixed list of rules (`kafka_assignors.strategies.rules`) under a name of this package, for both
protocols. Members announce facts about themselves in the format of `kafka_assignors.member_facts`.

`rollout`: shares for releases, members that drain, and rolling deployments that move each partition once. A
client's own assignors balance at every step of a deployment. The pods of a new release get an equal part of
all partitions, or, where a client prefers not to move, none until the old ones go; and a canary cannot get a
share of its own. Under `rollout` members announce their release. A draining member gets no partition; a
release with a share gets that share; while releases without a share are mixed, no partition moves without
need; the rest is balanced as `cooperative-sticky` does, which is also the result in a group of one release.

`co-partitioned` is for processes that join streams by key, as Kafka Streams and Faust do: partition 7 of
`orders` and of `payments` hold the same customers, so one member has to have both.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafka_assignors.member_facts import WHOLE_SHARE, Announcement, Facts
from kafka_assignors.strategies.composed import Composed
from kafka_assignors.strategies.rules.balance import LevelPartitions
from kafka_assignors.strategies.rules.co_partitioned import KeepTogether
from kafka_assignors.strategies.rules.draining import Draining
from kafka_assignors.strategies.rules.priority import LevelByPriority
from kafka_assignors.strategies.rules.rollout import ShareByRelease
from kafka_assignors.strategies.rules.standby import StandbyLast
from kafka_assignors.strategies.rules.tie_breakers import FewestMoves, FewestRackMisses

__all__ = ["CoPartitioned", "Priority", "Rollout", "Standby"]


class Rollout(Composed):
    """Releases get their shares, and among releases without one nothing moves while they are mixed.

    `release` is what this member runs, any text of up to 255 bytes; None is a release like any other. `share`
    is the part of every topic that the release asks for, from 0 to 1 and counted in ten-thousandths; None
    asks for none. `draining` members get nothing. `announce` changes the latter two while the member runs.
    TypeError or ValueError for anything else.
    """

    __slots__ = ()

    def __init__(
        self, release: str | None = None, share: float | None = None, *, draining: bool = False
    ) -> None:
        if release is not None and not isinstance(release, str):
            raise TypeError(f"a release is text, not {release!r}")
        facts = Facts(release, _ten_thousandths(share), _flag(draining))
        rules = (Draining(), ShareByRelease(), LevelPartitions(), FewestMoves(), FewestRackMisses())
        super().__init__("rollout", rules, Announcement(facts))

    def __repr__(self) -> str:
        facts = self._announcement.facts
        share = None if facts.share is None else facts.share / WHOLE_SHARE
        return f"Rollout(release={facts.release!r}, share={share!r}, draining={facts.draining!r})"

    def announce(self, *, share: float | None = None, draining: bool | None = None) -> None:
        """Announce another share, or that this member drains or does so no longer, from the next join on.

        What is None stays as it is. The group learns of it when this member joins again, which is what
        `enforce_rebalance` of our cooperative consumers is for.
        """
        changes: dict[str, object] = {}
        if share is not None:
            changes["share"] = _ten_thousandths(share)
        if draining is not None:
            changes["draining"] = _flag(draining)
        self._announcement.change(**changes)

    @property
    def _announcement(self) -> Announcement:
        assert isinstance(self.announces, Announcement)
        return self.announces


def _ten_thousandths(share: float | None) -> int | None:
    if share is None:
        return None
    if isinstance(share, bool) or not isinstance(share, (int, float)):
        raise TypeError(f"a share is a number between 0 and 1, not {share!r}")
    if not 0 <= share <= 1:
        raise ValueError(f"a share is between 0 and 1, a tenth being 0.1, not {share!r}")
    return round(share * WHOLE_SHARE)


def _flag(draining: bool) -> bool:
    if not isinstance(draining, bool):
        raise TypeError(f"draining is True or False, not {draining!r}")
    return draining


class Standby(Composed):
    """Exactly balanced among active members; standby members take over where those are missing."""

    __slots__ = ()

    def __init__(self, *, standby: bool = False, active_at_least: int = 1) -> None:
        """`standby`: this member is one. `active_at_least`: so many members of each topic are active, if need
        be standby ones; all members of a group need the same (ValueError if it is less than 1).
        """
        rules = (StandbyLast(active_at_least), LevelPartitions(), FewestMoves(), FewestRackMisses())
        super().__init__("standby", rules, Facts(standby=standby))


class Priority(Composed):
    """Topics in classes: the first is balanced by itself, then the next on top of it, the rest last."""

    __slots__ = ()

    def __init__(self, first: Iterable[Iterable[str | tuple[str, Iterable[int]]]] = ()) -> None:
        """`first` are the classes, the most important first: `[["alerts"], ["orders", ("pays", [0, 1])]]`.

        Without any it does the same as `cooperative-sticky`, and the leader's log says that nothing comes
        first. Raises as `LevelByPriority` does.
        """
        super().__init__("priority", (LevelByPriority(first), FewestMoves(), FewestRackMisses()))


class CoPartitioned(Composed):
    """Same-numbered partitions of the topics of each set go to one member; balance first, then movement.

        CoPartitioned([["orders", "payments"], ["clicks", "views"]])

    Exactly optimal in balance, then movement, then rack misses, where a set of same-numbered partitions
    counts as one. The sets have to be the same on all members. ValueError for a topic in two sets, or alone
    in one.
    """

    __slots__ = ()

    def __init__(self, topics: Iterable[Iterable[str]]) -> None:
        super().__init__(
            "co-partitioned", (KeepTogether(topics), LevelPartitions(), FewestMoves(), FewestRackMisses())
        )
