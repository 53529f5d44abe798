"""Which releases of aiokafka the plugin is made for."""

from __future__ import annotations

from logging import Logger

from kafka_assignors.client_versions import require_release

__all__ = ["CHECKED", "require_supported"]

CHECKED = ((0, 10), (0, 14))
"""The oldest and the newest release series that the tests of the plugin pass with; all between them do."""


def require_supported(version: str, log: Logger) -> None:
    """Raise ImportError if `version` of aiokafka is too old, and log a warning if it may be too new."""
    require_release("aiokafka", version, *CHECKED, log)
