"""The bytes of a key, without decoding it. Every key but a few has its group's id after its version:
two bytes of version, two of length, the id."""

from __future__ import annotations

__all__ = ["OFFSET_COMMITS", "group_bytes", "group_of", "is_commit"]

OFFSET_COMMITS = (b"\0\0", b"\0\1")
"""The two versions of a key that say that its record is an offset commit, as nearly all records are."""


def is_commit(key: bytes | None) -> bool:
    return key is not None and key[:2] in OFFSET_COMMITS


def group_bytes(group: str) -> bytes:
    """The bytes of a group's id, also of one that Python read from bytes that are no UTF-8."""
    return group.encode("utf-8", "surrogatepass")


def group_of(key: bytes | None) -> bytes | None:
    """The bytes in the place of the group's id; None for a key that is too short to have one."""
    if key is None or len(key) < 4:
        return None
    return key[4 : 4 + int.from_bytes(key[2:4], "big")]
