"""The generated part of a page, between two marks: `<!-- name: begin -->` and `<!-- name: end -->`."""

from __future__ import annotations


def with_part(page: str, name: str, text: str) -> str:
    """The page, with `text` between the marks of this name; `ValueError` if a mark is missing."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
    before, has_begin, rest = page.partition(begin)
    _, has_end, after = rest.partition(end)
    if not has_begin or not has_end:
        raise ValueError(f"the page lacks {begin.strip()} or {end.strip()}")
    return before + begin + text + end + after
