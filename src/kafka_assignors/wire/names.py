"""Names that come again and again: the members of a group name the same topics, often in the same order.

A leader of 10,000 members that subscribe to 100 topics each would otherwise turn a million byte strings into
texts, and then compare all these with one another. Here equal bytes give the same object, lists of names as a
whole are known again by their bytes, and what is the same object is equal at a glance.
"""

from __future__ import annotations

__all__ = ["Names"]

_BEGINNING_BYTES = 64
_MOST_ALIKE = 8
"""Lists with the same beginning that are compared with new ones; those before them are forgotten."""


class Names:
    """What was read before, while one group is read or written. Not for longer: nothing else is forgotten."""

    __slots__ = ("_bytes", "_lists", "_sets", "texts")

    def __init__(self) -> None:
        self.texts = _Texts()
        self._bytes: dict[str, bytes] = {}
        self._lists: dict[bytes, list[tuple[bytes, tuple[str, ...]]]] = {}
        self._sets: dict[tuple[str, ...], frozenset[str]] = {}

    def find_list(self, data: bytes, position: int) -> tuple[bytes, tuple[str, ...]] | None:
        """The bytes of a list read before that are at this place as well, and the list."""
        for known in self._lists.get(data[position : position + _BEGINNING_BYTES], ()):
            if data.startswith(known[0], position):
                return known
        return None

    def add_list(self, data: bytes, position: int, end: int, names: tuple[str, ...]) -> None:
        """Know the list that lies between these places again."""
        alike = self._lists.setdefault(data[position : position + _BEGINNING_BYTES], [])
        alike.insert(0, (data[position:end], names))
        del alike[_MOST_ALIKE:]

    def as_set(self, names: tuple[str, ...]) -> frozenset[str]:
        """The names as a set, the same one for equal names in the same order."""
        found = self._sets.get(names)
        if found is None:
            found = self._sets[names] = frozenset(names)
        return found

    def as_bytes(self, name: str) -> bytes:
        """The name in UTF-8."""
        found = self._bytes.get(name)
        if found is None:
            found = self._bytes[name] = name.encode("utf-8")
        return found


class _Texts(dict[bytes, str]):
    """Texts by their UTF-8 bytes; raises UnicodeDecodeError for bytes that are none."""

    def __missing__(self, data: bytes) -> str:
        text = self[data] = data.decode("utf-8")
        return text
