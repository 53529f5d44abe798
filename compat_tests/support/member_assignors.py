"""The assignors that a member program of either Python client makes of the names in its specification."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from kafka_assignors.strategies import load_strategy
from kafka_assignors.strategies.registry import ASSIGNOR_CLASSES


def assignor_of(
    ours: ModuleType,
    stock: Mapping[str, type[Any]],
    garbage: Callable[[str, bytes], Any],
    name: str,
    **told: str | None,
) -> Any:
    """The assignor of this name (see `MemberSpec`).

    `ours` is the package for the client, `stock` has the client's own assignors, and `garbage` makes one that
    joins with these bytes. `told` are arguments of ours.
    """
    plugin: Any = ours
    classes = {of_strategy: getattr(ours, of_class) for of_class, of_strategy in ASSIGNOR_CLASSES.items()}
    kind, _, rest = name.partition(":")
    if kind == "stock":
        return stock[rest]
    if kind == "guarded":
        return classes[rest](stay_classic=True, **told)
    if kind == "garbage":
        votes_for, _, metadata = rest.partition(":")
        return garbage(votes_for, bytes.fromhex(metadata))
    if kind == "rack-aware-sticky" and rest:
        return classes[kind](moves_per_miss=float(rest), **told)
    if rest:
        return plugin.assignor(load_strategy(name), **told)
    return classes[name](**told)
