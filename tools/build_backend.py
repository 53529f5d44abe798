"""The build backend (PEP 517): hatchling's, behind a check of the version of Python.

pip resolves the dependencies of a checkout before it compares `requires-python`, which takes minutes with an
old Python. It asks this module first, and the module needs no installed package to refuse.
"""

from __future__ import annotations

import sys
from typing import Any

OLDEST = (3, 10)

if sys.version_info < OLDEST:
    sys.exit(
        f"kafka-assignors needs Python {OLDEST[0]}.{OLDEST[1]} or newer; "
        f"this is Python {sys.version_info[0]}.{sys.version_info[1]} ({sys.executable})"
    )


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    return ["hatchling>=1.26", "hatch-fancy-pypi-readme>=24.1"]


get_requires_for_build_sdist = get_requires_for_build_wheel


def get_requires_for_build_editable(config_settings: Any = None) -> list[str]:
    return [*get_requires_for_build_wheel(), "editables~=0.3"]


# hatchling is installed by the time that a frontend calls these.


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: Any = None) -> str:
    from hatchling.build import build_wheel as build

    return str(build(wheel_directory, config_settings, metadata_directory))


def build_editable(wheel_directory: str, config_settings: Any = None, metadata_directory: Any = None) -> str:
    from hatchling.build import build_editable as build

    return str(build(wheel_directory, config_settings, metadata_directory))


def build_sdist(sdist_directory: str, config_settings: Any = None) -> str:
    from hatchling.build import build_sdist as build

    return str(build(sdist_directory, config_settings))
