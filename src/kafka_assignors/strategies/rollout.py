"""`rollout`: shares for releases, members that drain, and rolling deployments that move each partition once.

What clients have balances at every step of a deployment. The pods of a new release get an even part of
everything, or, where a client prefers not to move, nothing until the old ones go; a canary cannot be told how
much it should get. Here members announce their release, and what follows from that are rules (see
`kafka_assignors.strategies.rules`): who drains has nothing; a release with a share has that share;
where releases without one are mixed nothing moves that need not; and all that is left is balanced as
`cooperative-sticky` does, which is also what happens in a group of one release.

The name is our own: no other client has it. It is one name for both protocols, as `rack-aware-sticky` is.
"""

from __future__ import annotations

from kafka_assignors.member_facts import WHOLE_SHARE, Announcement, Facts
from kafka_assignors.strategies.composed import Composed
from kafka_assignors.strategies.rules.balance import LevelPartitions
from kafka_assignors.strategies.rules.draining import Draining
from kafka_assignors.strategies.rules.rollout import ShareByRelease
from kafka_assignors.strategies.rules.tie_breakers import FewestMoves, FewestRackMisses

__all__ = ["Rollout"]


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
