"""By what balance measures loads, where a partition does not mean the same to every member.

A member with L partitions counts (L + already)² / capacity. With twice the capacity it comes to twice the
load before another partition is as dear to it; what it has already, from partitions that were decided
elsewhere, weighs as much as what is decided now. Where all capacities are 1 and no member has a partition
yet, which is what `PLAIN` says, this is the sum of the squared loads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

__all__ = ["PLAIN", "InvalidScaleError", "Scale"]


class InvalidScaleError(ValueError):
    """Something by which no load can be measured: the message names the member."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The capacity of members, and what they have already, by member id.

    `capacities` are positive whole numbers; only their ratios matter. `already` counts partitions that are
    not among those to be assigned. A member that is not named has a capacity of 1, and nothing yet; one that
    is not in the group does not matter.

    Raises `InvalidScaleError` if a capacity is not a positive whole number, or a member has less than
    nothing.
    """

    capacities: Mapping[str, int] = field(default_factory=dict[str, int])
    already: Mapping[str, int] = field(default_factory=dict[str, int])

    def __post_init__(self) -> None:
        for member_id, capacity in self.capacities.items():
            if type(capacity) is not int or capacity < 1:
                raise InvalidScaleError(
                    f"the capacity of member {member_id!r} is {capacity!r}, not a positive whole number"
                )
        for member_id, load in self.already.items():
            if type(load) is not int or load < 0:
                raise InvalidScaleError(
                    f"member {member_id!r} has {load!r} partitions already, which is no number of partitions"
                )

    def capacity(self, member_id: str) -> int:
        """How much the member can carry beside the others."""
        return self.capacities.get(member_id, 1)

    def has_already(self, member_id: str) -> int:
        """How many partitions the member has before any are assigned."""
        return self.already.get(member_id, 0)

    def among(self, member_ids: Iterable[str]) -> Scale:
        """The same for these members alone, without what goes without saying."""
        members = frozenset(member_ids)
        return Scale(
            {id: capacity for id, capacity in self.capacities.items() if id in members and capacity != 1},
            {id: load for id, load in self.already.items() if id in members and load},
        )


PLAIN = Scale()
"""Every member is like every other: balance is the sum of the squared loads."""
