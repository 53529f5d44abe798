"""Brokers start with half the CPU if the JVM has their classes in an archive (class data sharing, JEP 350).

The archive is written by a broker that ends, so the first call starts one for it; from then on it lies in the
cache of `jvm`. A JVM that cannot use it, being another build, says nothing and loads its classes as always.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from compat_tests.support.jvm import cached, classpath, java_home_binary

__all__ = ["recording", "sharing"]

_QUIETLY = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")


def sharing(kafka: str | None, record: Callable[[Path], None]) -> tuple[str, ...]:
    """Options for the JVM of a broker, or of a tool of its.

    Args:
        kafka: as in `jvm.classpath`.
        record: runs a broker with the options `recording`, and ends it in order.
    """
    made_of = (classpath(kafka), str(Path(java_home_binary("java")).resolve()))
    archive = cached("brokers", ".jsa", made_of, record)
    return (f"-XX:SharedArchiveFile={archive}", *_QUIETLY) if archive.exists() else ()


def recording(archive: Path) -> tuple[str, ...]:
    """Options for a JVM that writes the archive when it ends."""
    return (f"-XX:ArchiveClassesAtExit={archive}", *_QUIETLY)
