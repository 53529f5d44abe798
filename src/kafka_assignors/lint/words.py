"""How members and their lists are named in findings."""

from __future__ import annotations

from collections.abc import Iterable

from kafka_assignors.lint.members import MemberConfig

__all__ = ["enumerated", "lists", "seconds", "sources"]

_SHOWN = 3


def sources(members: Iterable[MemberConfig]) -> tuple[str, ...]:
    """Where the members come from, each once."""
    return tuple(dict.fromkeys(member.source for member in members))


def lists(offers: Iterable[tuple[str, Iterable[str]]]) -> str:
    """Lists of strategies, each once: "[range] (a.toml), [sticky] (b.toml)"; "[range]" if all have that."""
    by_list: dict[str, dict[str, None]] = {}
    for source, names in offers:
        by_list.setdefault(f"[{', '.join(names)}]", {})[source] = None
    if len(by_list) == 1:
        return next(iter(by_list))
    return ", ".join(f"{names} ({enumerated(found)})" for names, found in by_list.items())


def enumerated(names: Iterable[str]) -> str:
    """The first few names, and how many more there are."""
    every = list(names)
    more = f" and {len(every) - _SHOWN} more" if len(every) > _SHOWN else ""
    return ", ".join(every[:_SHOWN]) + more


def seconds(ms: int) -> str:
    """Milliseconds as a person says them: 45 s, 1.5 s."""
    return f"{ms / 1000:g} s"
