"""Tables that fit the terminal.

Rich makes a table fit by cutting cells, and a number that is cut is another number. Here each column says
what may be done to it: names fold, words wrap, numbers stay whole. Where that does not suffice, columns are
left out in an order that the table states, and a line under it names them.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.align import Align
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

__all__ = ["Column", "FittedTable", "Kind"]

_SHORT_NAME, _WIDE_NAME, _NARROW_WORDS, _SQUEEZED = 20, 40, 20, 4
_BETWEEN, _EDGES = 3, 2
"""Cells that the box takes between two columns, and at both ends together."""


class Kind(enum.Enum):
    """What may be done to the cells of a column."""

    NAME = "folded anywhere, into two lines unless it is very long; a short one stays whole"
    WORDS = "wrapped at spaces"
    TOKEN = "nothing"
    NUMBER = "nothing, and it stands to the right"


@dataclass(frozen=True, slots=True)
class Column:
    """A column under `head`, which wraps at spaces and after slashes.

    Of the columns that may be left out the one with the highest `leave_out` goes first; 0 never goes. `label`
    is what it is called then, if not its head.
    """

    head: str
    kind: Kind = Kind.NUMBER
    leave_out: int = 0
    label: str = ""


class FittedTable:
    """A table whose columns are chosen, and made as wide as they can be, when it is printed."""

    def __init__(self, columns: Sequence[Column], title: str | None = None) -> None:
        self._columns = tuple(columns)
        self._title = title
        self._rows: list[tuple[list[Text], str, bool]] = []

    def add(self, cells: Iterable[str | Text], *, style: str = "", end_section: bool = False) -> None:
        """Add a row with a cell for each column."""
        row = [cell if isinstance(cell, Text) else Text(cell) for cell in cells]
        if len(row) != len(self._columns):
            raise ValueError(f"{len(row)} cells for {len(self._columns)} columns")
        self._rows.append((row, style, end_section))

    @property
    def natural_width(self) -> int:
        """The width at which nothing is folded, wrapped or left out."""
        return _total([self._natural(place) for place in range(len(self._columns))])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        widths = self._widths(options.max_width)
        table = Table(
            title=self._title,
            title_justify="left",
            title_style="bold",
            header_style="",
            box=SIMPLE_HEAD,
            pad_edge=False,
        )
        for place, width in widths.items():
            column = self._columns[place]
            head = column.head if cell_len(column.head) <= width else _breakable(column.head)
            right = column.kind is Kind.NUMBER
            table.add_column(
                Align(head, "right" if right else "left", vertical="bottom"),
                justify="right" if right else "left",
                width=width,
                overflow="fold",
            )
        for cells, style, end_section in self._rows:
            table.add_row(*(cells[place] for place in widths), style=style, end_section=end_section)
        yield table
        left_out = [
            column.label or column.head for place, column in enumerate(self._columns) if place not in widths
        ]
        if left_out:
            words = f"Columns left out: {'; '.join(left_out)}. A wider terminal or --json shows them."
            yield Padding(Text(words, style="dim"), (0, 0, 1, 1))

    def _widths(self, width: int) -> dict[int, int]:
        """The width of each column that is shown, by its place."""
        widths = {place: self._least(place) for place in range(len(self._columns))}
        while _total(widths.values()) > width:
            # `max` takes the first of equals, so columns without an order go from left to right.
            place = max(widths, key=lambda place: self._columns[place].leave_out)
            if not self._columns[place].leave_out:
                break
            del widths[place]
        foldable = [place for place in widths if self._columns[place].kind in (Kind.NAME, Kind.WORDS)]
        # Those first that need the least to be on one line; heads last.
        foldable.sort(key=lambda place: self._natural(place) - widths[place])
        for place in (*foldable, *(place for place in widths if place not in foldable)):
            spare = max(0, width - _total(widths.values()))
            widths[place] += min(spare, self._natural(place) - widths[place])
        while _total(widths.values()) > width and foldable:
            widest = max(foldable, key=lambda place: widths[place])
            if widths[widest] <= _SQUEEZED:
                break
            widths[widest] -= 1
        return widths

    def _least(self, place: int) -> int:
        column, widest = self._columns[place], self._widest(place)
        head = max(map(cell_len, _breakable(column.head).split()), default=0)
        if column.kind is Kind.NAME:
            widest = min(widest, max(_SHORT_NAME, min((widest + 1) // 2, _WIDE_NAME)))
        elif column.kind is Kind.WORDS:
            widest = min(widest, _NARROW_WORDS)
        return max(head, widest)

    def _natural(self, place: int) -> int:
        return max(cell_len(self._columns[place].head), self._widest(place))

    def _widest(self, place: int) -> int:
        return max((cells[place].cell_len for cells, _, _ in self._rows), default=0)


def _breakable(head: str) -> str:
    return head.replace("/", "/ ")


def _total(widths: Iterable[int]) -> int:
    widths = list(widths)
    return sum(widths) + _BETWEEN * (len(widths) - 1) + _EDGES
