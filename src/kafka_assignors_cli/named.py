"""Strategies as they are named on the command line."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

from kafka_assignors.strategies import Strategy, StrategyError, load_strategy
from kafka_assignors_cli.errors import CannotRun

__all__ = ["add_current_directory", "load_named_strategy", "split_names"]


def load_named_strategy(spec: str) -> Strategy:
    """The strategy called `spec`; `module:attribute` is also looked for in the current directory."""
    if ":" in spec:
        add_current_directory()
    try:
        return load_strategy(spec)
    except StrategyError as error:
        raise CannotRun(str(error)) from error


def split_names(values: Iterable[str]) -> tuple[str, ...]:
    """The names in options that may be repeated and each hold several, comma-separated; each name once."""
    return tuple(dict.fromkeys(name.strip() for value in values for name in value.split(",") if name.strip()))


def add_current_directory() -> None:
    """Look for modules in the current directory, too."""
    # An installed command has its own directory on the path, not the one it is run in. At the end of the path
    # no file in the current directory shadows a module of the standard library. A replay hands the path on to
    # Spark's workers in the same order; PYTHONPATH would come before the standard library there.
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)
