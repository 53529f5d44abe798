"""A listener of either client that passes all its calls to one function."""

from __future__ import annotations

from typing import Any


class ToldListener:
    """A listener derives from this and has `_told`; what that returns is what the methods return.

    So `_told` may be a coroutine function for aiokafka, which awaits coroutines that a listener returns.
    """

    _told: Any

    def on_partitions_revoked(self, revoked: Any) -> Any:
        return self._told("revoked", revoked)

    def on_partitions_lost(self, lost: Any) -> Any:
        return self._told("lost", lost)

    def on_partitions_assigned(self, assigned: Any) -> Any:
        return self._told("assigned", assigned)
