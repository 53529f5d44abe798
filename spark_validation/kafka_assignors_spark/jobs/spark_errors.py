"""Spark's errors in one line: the line with the cause, out of the stack traces of two languages."""

from __future__ import annotations

import re

from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

__all__ = ["JVM_ENDED", "SPARK_ERRORS", "is_damage", "is_late_worker", "one_line"]

SPARK_ERRORS: tuple[type[Exception], ...] = (PySparkException, Py4JError, ConnectionError)
"""Everything that a call into Spark raises: an error of Spark that PySpark knows, any of the JVM, and the end
of the JVM."""

JVM_ENDED = (
    "its Java process ended, most often for lack of memory: give it more, with spark.driver.memory (and "
    "spark.executor.memory on a cluster) in the file of --spark-config"
)

_OURS = re.compile(r"(?:SourceError|StateError|BatchError): (.+)")
"""An error of ours in a worker or a callback of Spark comes back as text in an error of Spark."""

_OF_PYTHON = re.compile(r"^[\w.]*(?:Error|Exception): .+", re.MULTILINE)
_OF_JAVA = re.compile(r"^(?:Caused by|): (?:[\w.$]+: )?(.+)", re.MULTILINE)
"""Of a Java stack trace in an error of py4j: the exception itself, then each cause, the last one deepest."""

_NO_ANSWER = re.compile(r"An error occurred while calling \S+|\S+ does not exist in the JVM")
"""The whole text of py4j's error for a call, or a look for a class, that the JVM did not answer: it ended."""

_FILE = re.compile(r"Encountered error while reading file (\S+)\. ")


def is_damage(error: Exception) -> bool:
    """Whether Spark could not read a file, for another reason than the type of a column."""
    try:
        text = str(error)
    except SPARK_ERRORS:
        return False
    return _FILE.search(text) is not None and "PARQUET_COLUMN_DATA_TYPE_MISMATCH" not in text


def is_late_worker(error: Exception) -> bool:
    """Whether Spark gave up on a Python process that was too slow to start.

    The worker of a stream has ten seconds, which no property of Spark changes (`PythonWorkerFactory`).
    """
    return "Python worker failed to connect back" in str(error)


def one_line(error: Exception) -> str:
    """The line of `error` that is nearest to its cause, after the file that could not be read."""
    try:
        text = str(error)
    except SPARK_ERRORS:  # The text of a Java exception is asked of the JVM.
        return JVM_ENDED
    if isinstance(error, (Py4JNetworkError, ConnectionError)) or _NO_ANSWER.fullmatch(text):
        return JVM_ENDED
    cause = _cause(error, text)
    file = _FILE.search(text)
    return cause if file is None or file[1] in cause else f"cannot read {file[1]}: {cause}"


def _cause(error: Exception, text: str) -> str:
    if ours := _OURS.search(text):
        return ours[1].strip()
    if isinstance(error, Py4JError) and (causes := _OF_JAVA.findall(text)):
        return str(causes[-1]).strip()
    if of_python := _OF_PYTHON.findall(text):
        return str(of_python[-1]).strip()
    return next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
