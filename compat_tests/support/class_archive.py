"""Archives of Java classes (class data sharing, JEP 350), with which a broker starts with half the CPU.

A broker writes the archive when it ends, so the first call starts a broker for it. The archive then stays in
the cache of `jvm`. A JVM of another build ignores the archive and loads its classes as usual.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from compat_tests.support.jvm import cached, classpath, java_home_binary

__all__ = ["recording", "sharing"]

_QUIETLY = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")


def sharing(kafka: str | None, record: Callable[[Path], None]) -> tuple[str, ...]:
    """Options for the JVM of a broker or of a Kafka tool.

    Args:
        kafka: as in `jvm.classpath`.
        record: runs a broker with the options from `recording`, and shuts it down cleanly.
    """
    made_of = (classpath(kafka), str(Path(java_home_binary("java")).resolve()))
    archive = cached("brokers", ".jsa", made_of, record)
    return (f"-XX:SharedArchiveFile={archive}", *_QUIETLY) if archive.exists() else ()


def recording(archive: Path) -> tuple[str, ...]:
    """Options for a JVM that writes the archive when it ends."""
    return (f"-XX:ArchiveClassesAtExit={archive}", *_QUIETLY)
