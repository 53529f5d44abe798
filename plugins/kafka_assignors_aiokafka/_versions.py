"""Which releases of aiokafka the plugin is made for.

`_client` depends on aiokafka's insides, which nobody promises to keep. This is asked before any of them is
imported, so that an unsuitable release is named, instead of a module or an attribute that it lacks.
"""

from __future__ import annotations

import re
from logging import Logger

__all__ = ["CHECKED", "require_supported"]

CHECKED = ((0, 10), (0, 14))
"""The oldest and the newest release series that the tests of the plugin pass with; all between them do."""


def require_supported(version: str, log: Logger) -> None:
    """Raise ImportError if `version` of aiokafka is too old, and log a warning if it may be too new."""
    oldest, newest = CHECKED
    checked = f"{_dotted(oldest)} to {_dotted(newest)}"
    # Candidates and builds from a checkout count as the series they lead to: "0.15.0rc1", "0.14.1.dev3".
    numbers = re.match(r"(\d+)\.(\d+)", version)
    series = (int(numbers[1]), int(numbers[2])) if numbers else None
    if series is not None and series < oldest:
        raise ImportError(
            f"kafka_assignors_aiokafka needs aiokafka {_dotted(oldest)} or newer, and {version} is installed"
        )
    if series is None or series > newest:
        log.warning("aiokafka %s is not among the releases checked with this plugin (%s)", version, checked)


def _dotted(series: tuple[int, int]) -> str:
    return f"{series[0]}.{series[1]}"
