"""What an adapter asks of its installed client: its release, its attributes, and the calls that it runs in.

Private attributes of clients may change in any release. The version is checked before an adapter imports
them, so that the error names the unsuitable version.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterable, Mapping
from logging import Logger
from operator import attrgetter
from types import CodeType, FrameType
from typing import Any


def numbers_of(version: str) -> tuple[int, ...]:
    """The numbers that a version begins with: (3, 1, 0) of "3.1.0rc1", none of "unknown".

    So release candidates and builds from a checkout count as the release itself.
    """
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(number) for number in found.group().split(".")) if found else ()


def installed_release(client: str, module: str) -> str:
    """The version of a client; if it is missing, ImportError, which says how to install it.

    `client` is the name of the distribution, and `module` its module, which has the version.
    """
    try:
        return str(importlib.import_module(module).__version__)
    except ModuleNotFoundError:
        raise ImportError(f'{client} is not installed: pip install "kafka-assignors[{client}]"') from None


def require_release(
    client: str, installed: str, oldest: tuple[int, ...], newest: tuple[int, ...], log: Logger
) -> None:
    """Raise ImportError if the installed release of a client is too old; warn if it may be too new.

    The tests of the adapter pass with `oldest`, a release or series, to `newest`, a series such as 0.14.
    `client` is the name of the distribution.
    """
    release = numbers_of(installed)
    if release and release < oldest:
        raise ImportError(
            f"kafka_assignors_{client.replace('-', '_')} needs {client} {_dotted(oldest)} or newer, "
            f"and {installed} is installed"
        )
    if not release or release[: len(newest)] > newest:
        log.warning(
            "%s %s is not among the releases checked with this plugin (%s to %s)",
            client,
            installed,
            _dotted(oldest),
            _dotted(newest),
        )


def require_attributes(user: str, client: str, *touched: tuple[object, Iterable[str]]) -> None:
    """Raise RuntimeError if objects of a client lack attributes that one of our classes or packages uses.

    `user` is the name of that class or package, `client` the name of the distribution, and `touched` are the
    objects with the names of their attributes; "a.b" is the attribute `b` of `a`.
    """
    for owner, names in touched:
        for name in names:
            try:
                attrgetter(name)(owner)
            except AttributeError:
                from importlib import metadata  # late: it imports much, and nothing else here needs it

                raise RuntimeError(
                    f"{user} does not work with {client} {metadata.version(client)}, whose "
                    f"{type(owner).__name__} has no {name}: install a release that it works with, "
                    f"pip install 'kafka-assignors[{client}]'"
                ) from None


def code_of(kind: type, method: str) -> CodeType | None:
    """The code of a method, also where another package has wrapped it; None for one that is not Python."""
    code: CodeType | None = getattr(inspect.unwrap(getattr(kind, method, None)), "__code__", None)  # type: ignore[arg-type]
    return code


def variables_of(code: CodeType | None) -> Mapping[str, Any] | None:
    """The variables of the nearest call in the stack that runs this code; None if there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return None if frame is None else frame.f_locals


def _dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))
