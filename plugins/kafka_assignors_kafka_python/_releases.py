"""The release of kafka-python that is installed, checked before anything of it is imported."""

from __future__ import annotations

import logging

from kafka_assignors.installed_client import installed_release, numbers_of, require_release

CHECKED = ("2.0.6", "2.1.6", "2.2.21", "2.3.3", "3.0.12")
"""The newest release of each series, oldest first."""


def is_release_2(installed: str) -> bool:
    """Whether this release has the interfaces of kafka-python 2; otherwise it has those of 3.

    ImportError for a release that is too old. A release that may be too new is used, with a warning.
    """
    oldest, newest = numbers_of(CHECKED[0]), numbers_of(CHECKED[-1])[:2]
    log = logging.getLogger("kafka_assignors_kafka_python")
    require_release("kafka-python", installed, oldest, newest, log)
    return (2,) <= numbers_of(installed) < (3,)


INSTALLED = installed_release("kafka-python", "kafka")
IS_2 = is_release_2(INSTALLED)
