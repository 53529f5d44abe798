"""What Spark raises, in one line: of the stack traces of two languages the line that says what is wrong."""

from __future__ import annotations

import re

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

__all__ = ["SPARK_ERRORS", "is_late_worker", "one_line"]

SPARK_ERRORS: tuple[type[Exception], ...] = (PySparkException, Py4JError)
"""Everything that a call into Spark raises: an error of Spark that PySpark knows, or any of the JVM."""

_OURS = re.compile(r"(?:SourceError|BatchError): (.+)")
"""What our code raises inside Spark's workers and callbacks comes back as text in an error of Spark."""

_OF_PYTHON = re.compile(r"^[\w.]*(?:Error|Exception): .+", re.MULTILINE)
_OF_JAVA = re.compile(r"^(?:Caused by|): (?:[\w.$]+: )?(.+)", re.MULTILINE)
"""Of a Java stack trace in an error of py4j: the exception itself, then each cause, the last one deepest."""


def is_late_worker(error: Exception) -> bool:
    """Whether Spark gave up on a Python process that was too slow to start.

    The worker of a stream has ten seconds, which no property of Spark changes (`PythonWorkerFactory`).
    """
    return "Python worker failed to connect back" in str(error)


def one_line(error: Exception) -> str:
    """The line of `error` that is nearest to its cause."""
    text = str(error)
    if ours := _OURS.search(text):
        return ours[1].strip()
    if isinstance(error, Py4JError) and (causes := _OF_JAVA.findall(text)):
        return str(causes[-1]).strip()
    if of_python := _OF_PYTHON.findall(text):
        return str(of_python[-1]).strip()
    return next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
