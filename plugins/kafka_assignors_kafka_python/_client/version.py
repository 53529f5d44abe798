"""Which of our modules speaks to the kafka-python that is installed."""

from __future__ import annotations

import importlib
import logging
from typing import cast

from kafka_assignors.client_versions import installed_release, numbers_of, require_release
from kafka_assignors_kafka_python._client.interface import Interface

__all__ = ["CHECKED", "INSTALLED", "MODULE", "interface", "module_for"]

CHECKED = ("2.0.6", "2.1.6", "2.2.21", "2.3.3", "3.0.12")
"""The newest release of each series, oldest first."""


def module_for(installed: str) -> str:
    """The module for this release of kafka-python: "v2" or "v3".

    Raises ImportError for one that is too old. For one that may be too new there is a warning and an attempt.
    """
    oldest, newest = numbers_of(CHECKED[0]), numbers_of(CHECKED[-1])[:2]
    log = logging.getLogger("kafka_assignors_kafka_python")
    require_release("kafka-python", installed, oldest, newest, log)
    return "v2" if (2,) <= numbers_of(installed) < (3,) else "v3"


INSTALLED = installed_release("kafka-python", "kafka")
"""The distribution's own word: the oldest releases do not import on the newest Pythons."""

MODULE = module_for(INSTALLED)
interface = cast(Interface, importlib.import_module(f"kafka_assignors_kafka_python._client.{MODULE}"))
