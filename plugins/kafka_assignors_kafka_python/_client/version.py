"""Which of our modules speaks to the kafka-python that is installed."""

from __future__ import annotations

import importlib
import logging
import re
from importlib.metadata import PackageNotFoundError, version
from typing import cast

from kafka_assignors_kafka_python._client.interface import Interface

__all__ = ["CHECKED", "interface", "module_for"]

CHECKED = ("2.0.6", "2.1.6", "2.2.21", "2.3.3", "3.0.12")
"""The newest release of each series, oldest first."""


def module_for(installed: str) -> str:
    """The module for this release of kafka-python: "v2" or "v3".

    Raises ImportError for one that is too old. For a series that is not known to work there is a warning,
    and an attempt.
    """
    release = _numbers(installed)
    if release < _numbers(CHECKED[0]):
        raise ImportError(
            f"kafka_assignors_kafka_python needs kafka-python {CHECKED[0]} or newer; {installed} is installed"
        )
    if release[:2] not in [_numbers(checked)[:2] for checked in CHECKED]:
        logging.getLogger("kafka_assignors_kafka_python").warning(
            "kafka-python %s is not among the versions checked, which are %s", installed, ", ".join(CHECKED)
        )
    return "v2" if release < (3,) else "v3"


def _numbers(version: str) -> tuple[int, ...]:
    """As far as they go: 3.1.0rc1 is (3, 1, 0)."""
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(number) for number in found.group().split(".")) if found else ()


def _installed() -> str:
    # The distribution's own word first: the oldest releases do not import on the newest Pythons.
    try:
        return version("kafka-python")
    except PackageNotFoundError:
        return str(importlib.import_module("kafka").__version__)


_module = importlib.import_module(f"kafka_assignors_kafka_python._client.{module_for(_installed())}")
interface = cast(Interface, _module)
