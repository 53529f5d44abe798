"""A size as a JSON object and as a table. Costs are shown in the user's unit: units of cost by `unit`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from kafka_assignors.group_json import assignment_to_json
from kafka_assignors.pause_model import Consumption, PauseModel
from kafka_assignors.sizing import PartitionCost, Size
from kafka_assignors_cli.console import Column, ColumnKind, FittedTable, counted, indented

__all__ = ["Report"]

_SHOWN_PARTITIONS = 5


@dataclass(frozen=True, slots=True)
class Report:
    """A size, and what it is about.

    Attributes:
        unit: how many units of cost are one of the user's: 1 for a file, 1000 for records a second.
        capacity: what a consumer carries, and `headroom` the share of it that is to stay free.
        needed_full: the members that are needed at full capacity.
    """

    size: Size
    unit: int
    capacity: Fraction
    headroom: float
    needed_full: int
    members_now: int
    notes: Sequence[str]

    def to_json(self) -> dict[str, Any]:
        """The whole result; the certificate is in units of cost, for only whole numbers prove anything."""
        size = self.size
        return {
            "members": size.members,
            "least_members": size.least,
            "exact": size.members == size.least,
            "members_at_full_capacity": self.needed_full,
            "capacity": float(self.capacity),
            "headroom": self.headroom,
            "limit": self._number(size.limit),
            "total": self._number(size.total),
            "partitions": size.partitions,
            "unknown_costs": size.unknown,
            "heaviest": None if size.heaviest is None else self._partition(size.heaviest),
            "too_heavy": [self._partition(one) for one in size.too_heavy],
            "now": {
                "members": self.members_now,
                "greatest": None if size.greatest_now is None else self._number(size.greatest_now),
            },
            "change": self._change(),
            "step_down": self._step_down(),
            "certificate": {
                "unit": self.unit,
                "limit": size.certificate.limit,
                "members": [dict(each) for each in size.certificate.members],
                "costs": {name: list(each) for name, each in sorted(size.costs.items())},
                "bound": None if size.certificate.bound is None else asdict(size.certificate.bound),
            },
            "notes": list(self.notes),
        }

    def renderables(self) -> list[RenderableType]:
        size = self.size
        table = FittedTable(
            (
                Column("members"),
                Column("greatest load"),
                Column("of capacity"),
                Column("partitions that move"),
                Column("", ColumnKind.WORDS),
            )
        )
        if self.members_now and size.greatest_now is not None:
            table.add([*self._load(self.members_now, size.greatest_now), "–", "as it is"])
        if size.change is not None:
            table.add(
                [
                    *self._load(size.members, size.change.greatest),
                    _moves(size.change.moved, size.change.least),
                    "the fewest" if size.members == size.least else f"at least {size.least} are needed",
                ],
                style="bold",
            )
        if (down := size.step_down) is not None:
            moved = down.moved + down.vacated
            words = "one member less, from there" if down.greatest > size.limit else "one less suffices, too"
            table.add([*self._load(down.members, down.greatest), f"{moved:,}", words])
        rows = [] if size.change is None and size.greatest_now is None else [table]
        return [self._head(), *rows, *indented(self.sentences())]

    def sentences(self) -> list[str]:
        """What the table does not say."""
        size, found = self.size, []
        if size.too_heavy:
            names = ", ".join(
                f"{one.topic}-{one.partition} ({self._shown(one.cost)})"
                for one in size.too_heavy[:_SHOWN_PARTITIONS]
            )
            more = len(size.too_heavy) - _SHOWN_PARTITIONS
            one = len(size.too_heavy) == 1
            by_headroom = size.too_heavy[0].cost <= self.capacity * self.unit
            found.append(
                f"{counted(len(size.too_heavy), 'partition')} alone cost{'s' if one else ''} more than the "
                f"{self._shown(size.limit)} that a member may carry: {names}"
                f"{f' and {more} more' if more > 0 else ''}. No number of members helps: only more "
                f"partitions, {'less headroom, ' if by_headroom else ''}or a larger consumer. With each of "
                f"them alone on its member, {size.members:,} members are needed."
            )
        if (change := size.change) is not None and self.members_now:
            found.append(
                f"From {self.members_now:,} members: {len(change.added):,} more, "
                f"{len(change.removed):,} fewer."
            )
        if (down := size.step_down) is not None and down.greatest > size.limit:
            paused = self._paused()
            found.append(
                f"With {down.members:,} members some member has at least {self._shown(down.least_greatest)}; "
                f"that step pauses about {paused['cooperative']:.1f} partition-seconds under the cooperative "
                f"protocol, {paused['eager']:.1f} under the eager one."
            )
        return [*found, *self.notes]

    def _head(self) -> Text:
        size = self.size
        text = Text(f"{counted(size.members, 'member')}", style="bold")
        return text.append(
            f" for {counted(size.partitions, 'partition')} of {self._shown(size.total)} in all; a member "
            f"carries {_decimal(self.capacity)}, and {self._shown(size.limit)} with {self.headroom:.0%} "
            "headroom",
            style="not bold",
        )

    def _load(self, members: int, greatest: int) -> list[str]:
        share = Fraction(greatest, self.unit) / self.capacity
        return [f"{members:,}", self._shown(greatest), f"{float(share):.0%}"]

    def _shown(self, cost: int) -> str:
        return _decimal(Fraction(cost, self.unit))

    def _number(self, cost: int) -> int | float:
        return cost if self.unit == 1 else cost / self.unit

    def _partition(self, one: PartitionCost) -> dict[str, Any]:
        return {"topic": one.topic, "partition": one.partition, "cost": self._number(one.cost)}

    def _change(self) -> dict[str, Any] | None:
        change = self.size.change
        if change is None:
            return None
        return {
            "added": list(change.added),
            "removed": list(change.removed),
            "moved": change.moved,
            "least_moved": change.least,
            "greatest": self._number(change.greatest),
            "assignment": assignment_to_json(change.assignment),
        }

    def _step_down(self) -> dict[str, Any] | None:
        down = self.size.step_down
        if down is None:
            return None
        return {
            "members": down.members,
            "greatest": self._number(down.greatest),
            "least_greatest": self._number(down.least_greatest),
            "overload": self._number(max(0, down.greatest - self.size.limit)),
            "moved": down.moved + down.vacated,
            "paused_partition_seconds": self._paused(),
        }

    def _paused(self) -> dict[str, float]:
        """By protocol, the partition-seconds that the step down pauses."""
        down = self.size.step_down
        assert down is not None
        model = PauseModel()
        return {
            way.value: model.paused_s(
                way,
                members=down.members,
                could_stay=down.could_stay,
                moved=down.moved,
                vacated=down.vacated,
            )
            for way in (Consumption.COOPERATIVE, Consumption.EAGER)
        }


def _moves(moved: int, least: int) -> str:
    return f"{moved:,}" if moved == least else f"{moved:,} (at least {least:,})"


def _decimal(number: Fraction) -> str:
    return f"{int(number):,}" if number.denominator == 1 else f"{float(number):,.1f}"
