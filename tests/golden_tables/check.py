"""Tables compared with their golden text, at several widths.

`GOLDEN_TABLES=write` makes the tests write the golden files instead of comparing with them:

    GOLDEN_TABLES=write python -m pytest tests/test_cli_tables.py spark_validation/tests/test_replay_tables.py
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console, RenderableType

WIDTHS = (80, 100, 200)

_MOST_LINES = 3

_FOLDER = Path(__file__).parent


def rendered(renderables: Iterable[RenderableType], width: int) -> str:
    """The output of a terminal of this width, without colours and trailing blanks."""
    stream = io.StringIO()
    console = Console(file=stream, width=width, force_terminal=False, color_system=None)
    for renderable in renderables:
        console.print(renderable)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


def assert_as_before(name: str, renderables: Sequence[RenderableType], width: int) -> None:
    """Assert that the text equals the golden file, or write the file."""
    text = rendered(renderables, width)
    file = _FOLDER / f"{name}-{width}.txt"
    if os.environ.get("GOLDEN_TABLES") == "write":
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


def assert_legible(text: str, width: int, names: Iterable[str], numbers: Iterable[str] = ()) -> None:
    """Assert that no line is too long, no text is cut, and each name is complete on up to three lines."""
    lines = text.splitlines()
    assert max(map(cell_len, lines)) <= width
    assert "…" not in text
    for name in names:
        places = range(len(lines))
        assert any(_has(name, lines[place : place + _MOST_LINES]) for place in places), name
    for number in numbers:
        assert f" {number}" in text, number


def _has(name: str, lines: Sequence[str]) -> bool:
    starts = {lines[0].find(name[:cut]) for cut in range(1, len(name) + 1)} - {-1}
    return any(_folds(name, column, lines) for column in starts)


def _folds(name: str, column: int, lines: Sequence[str]) -> bool:
    """Whether the lines contain the name from this column on, folded over several lines or not."""
    if not name or not lines:
        return not name
    cuts = (cut for cut in range(len(name), 0, -1) if lines[0].startswith(name[:cut], column))
    return any(_folds(name[cut:], column, lines[1:]) for cut in cuts)
