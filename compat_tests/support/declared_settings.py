"""The names of the arguments that a cooperative consumer declares for type checkers and editors."""

from __future__ import annotations

import inspect
from typing import Any

__all__ = ["OUR_OWN", "declared_settings"]

OUR_OWN = {"max_warming", "observer", "warm_timeout_ms"}
"""The arguments that the cooperative consumers add to those of their clients."""


def declared_settings(consumer: type[Any], settings: type[Any]) -> set[str]:
    """The keyword arguments of the consumer's constructor, and the keys of the settings that it passes on.

    Raises AssertionError if a name is in both: type checkers refuse such a constructor.
    """
    parameters = inspect.signature(consumer).parameters.values()
    own = {each.name for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY}
    passed_on = set(settings.__annotations__)
    assert own & passed_on == set()
    return own | passed_on
