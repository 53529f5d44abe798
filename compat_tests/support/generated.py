"""Generated text in the docs, between `<!-- NAME: begin -->` and `<!-- NAME: end -->`."""

from __future__ import annotations

from pathlib import Path

__all__ = ["read", "rewrite"]


def read(file: Path, name: str) -> str:
    """The text between the markers, without the line ends next to them.

    Raises:
        ValueError: the file does not have both markers, in order.
    """
    return _parts(file, name)[1].strip("\n")


def rewrite(file: Path, name: str, text: str) -> None:
    """Replace the text between the markers by `text`.

    Raises:
        ValueError: the file does not have both markers, in order.
    """
    before, _, after = _parts(file, name)
    file.write_text(f"{before}\n{text}\n{after}", encoding="utf-8")


def _parts(file: Path, name: str) -> tuple[str, str, str]:
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, has_begin, rest = file.read_text(encoding="utf-8").partition(begin)
    between, has_end, after = rest.partition(end)
    if not has_begin or not has_end:
        raise ValueError(f"{file} needs the lines {begin} and {end}")
    return before + begin, between, end + after
