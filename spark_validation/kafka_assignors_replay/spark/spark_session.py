"""Spark as this package uses it: its session, its errors, and the progress of its tasks."""

from __future__ import annotations

import logging
import os
import re
import shlex
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from kafka_assignors_replay.history_files import WORKER_ENDED, DamagedError, first_line
from kafka_assignors_replay.result import ReplayError

SPARK_ERRORS: tuple[type[Exception], ...] = (PySparkException, Py4JError, ConnectionError)
"""Everything that a call into Spark raises: an error of Spark that PySpark knows, any error of the JVM, and
the error after the JVM has ended."""

JVM_ENDED = (
    "its Java process ended, most often for lack of memory: give it more, with spark.driver.memory (and "
    "spark.executor.memory on a cluster) in the file of --spark-config"
)

_OF_PYTHON = re.compile(r"^[\w.]*(?:Error|Exception): .+", re.MULTILINE)
_OF_JAVA = re.compile(r"^(?:Caused by|): (?:[\w.$]+: )?(.+)", re.MULTILINE)
"""The exception in a Java stack trace of a py4j error, then each cause, the deepest one last."""

_NO_ANSWER = re.compile(r"An error occurred while calling \S+|\S+ does not exist in the JVM")
"""The whole text of py4j's error for a call or a class lookup that the JVM did not answer: the JVM ended."""

_FILE = re.compile(r"Encountered error while reading file (\S+)\. ")


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Raise `ReplayError` for an error of Spark; `DamagedError` if Spark could not read a file, for another
    reason than the type of a column."""
    try:
        yield
    except SPARK_ERRORS as error:
        text = _text(error)
        damaged = _FILE.search(text) is not None and "PARQUET_COLUMN_DATA_TYPE_MISMATCH" not in text
        kind = DamagedError if damaged else ReplayError
        raise kind(f"Spark failed: {one_line(error)}") from error


def one_line(error: Exception) -> str:
    """The line of `error` nearest to its cause, with the file that could not be read."""
    text = _text(error)
    if not text or isinstance(error, (Py4JNetworkError, ConnectionError)) or _NO_ANSWER.fullmatch(text):
        return JVM_ENDED
    if "Python worker exited unexpectedly" in text:
        return WORKER_ENDED
    causes = _OF_JAVA.findall(text) if isinstance(error, Py4JError) else []
    cause = [first_line(error), *_OF_PYTHON.findall(text), *causes][-1].strip()
    file = _FILE.search(text)
    return cause if file is None or file[1] in cause else f"cannot read {file[1]}: {cause}"


def _text(error: Exception) -> str:
    try:
        return str(error)
    except SPARK_ERRORS:  # `str` asks the JVM for the text of a Java exception.
        return ""


_POLL_SECONDS = 0.2
_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"

_SETTINGS = {
    # Spark's default of 10,000 records in a batch for Python needs gigabytes if each has hundreds of members.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "256",
    # Otherwise Spark refuses times in nanoseconds; `spark.read` makes timestamps of the numbers.
    "spark.sql.legacy.parquet.nanosAsLong": "true",
    # Times without a zone are in UTC.
    "spark.sql.session.timeZone": "UTC",
}
"""For a session that is started, and for the caller's session while it is used."""

_STARTED = {
    **_SETTINGS,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
"""For a session that is started."""

_LOCAL = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 1),
}
"""For a local session that is started, unless its file says otherwise. The work is in Python: compiling the
few queries in the JVM, and planning them again at each stage, takes longer than running them."""


@contextmanager
def spark_session(properties_file: str | None = None) -> Iterator[SparkSession]:
    """The Spark session of this process if it has one, otherwise a new one that ends with the block.

    `properties_file` has properties for a new session, as for `spark-submit`, which runs on the master that
    they name, or locally. Its output goes to a temporary file; if it does not start, the last line is in the
    error.
    """
    with ExitStack() as ending:
        if (session := SparkSession.getActiveSession()) is not None:
            ending.callback(_configure, session, {name: session.conf.get(name) for name in _SETTINGS})
            _configure(session, _SETTINGS)
        else:
            for logger in _LOGGERS:
                logger.addFilter(_is_not_ctrl_c)
                ending.callback(logger.removeFilter, _is_not_ctrl_c)
            log = ending.enter_context(tempfile.TemporaryFile())
            session = _start(properties_file, log)
            ending.callback(_stop, session)
        yield session


def _configure(session: SparkSession, values: Mapping[str, str | None]) -> None:
    with suppress(*SPARK_ERRORS):  # If the JVM has ended, there is nothing to restore.
        for name, value in values.items():
            session.conf.set(name, str(value))


def _stop(session: SparkSession) -> None:
    with suppress(*SPARK_ERRORS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Unable to cleanly shutdown", RuntimeWarning)
        session.stop()


_LOGGERS = (logging.getLogger(), logging.getLogger("py4j.clientserver"))
"""Where py4j logs a `KeyboardInterrupt`, which it also raises: the caller reports it."""


def _is_not_ctrl_c(record: logging.LogRecord) -> bool:
    return "KeyboardInterrupt" not in logging.Formatter().format(record)


def _start(properties_file: str | None, log: IO[bytes]) -> SparkSession:
    properties = "" if properties_file is None else Path(properties_file).read_text(errors="replace")
    conf = SparkConf().setAppName("kafka-assignors").setAll([*_STARTED.items()])
    if _choose_python(properties):
        conf.setAll([(name, value) for name, value in _LOCAL.items() if name not in properties])
    handler, arguments = signal.getsignal(signal.SIGINT), os.environ.get(_ARGUMENTS)
    if properties_file is not None:
        # As a file: properties may be secrets, and arguments show in a list of processes.
        file = shlex.quote(properties_file)
        os.environ[_ARGUMENTS] = f"--properties-file {file} {arguments or 'pyspark-shell'}"
    try:
        # A process has one JVM, which outlives its sessions. The JVM and the Python workers do not get
        # Ctrl-C, which this process handles.
        gateway = SparkContext._gateway or launch_gateway(  # type: ignore[no-untyped-call]
            conf, {"stdout": log, "stderr": log, "start_new_session": True}
        )
        SparkContext(conf=conf, gateway=gateway)
    except Py4JError as error:  # Of a context with properties that it refuses.
        raise ReplayError(f"Spark does not start: {one_line(error)}") from None
    except (PySparkException, OSError) as error:
        log.seek(0)
        said = log.read().decode(errors="replace").strip().splitlines()
        why = said[-1].strip() if said else error
        raise ReplayError(
            f"Spark does not start: {why} (it needs Java 17 or newer, of PATH or JAVA_HOME)"
        ) from None
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)  # PySpark sets its own.
        os.environ.pop(_ARGUMENTS, None)
        if arguments is not None:
            os.environ[_ARGUMENTS] = arguments
    return SparkSession.builder.getOrCreate()


def _choose_python(properties: str) -> bool:
    """Make workers run on this interpreter; on a cluster its path may differ, and PYSPARK_PYTHON names it.

    Returns whether the session will be local; spark-submit and the properties may name a cluster.
    """
    named = re.search(r"^\s*spark\.master[\s=:]+(\S+)", properties, re.MULTILINE)
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    is_local = not submitted and (named is None or named[1].startswith("local"))
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if is_local or "PYSPARK_PYTHON" not in os.environ:
        os.environ["PYSPARK_PYTHON"] = sys.executable
    return is_local


@contextmanager
def task_progress(spark: SparkSession, report: Callable[[int, int], None]) -> Iterator[None]:
    """Call `report` with the tasks done and the tasks known while the block runs, from another thread."""
    done, tracker = threading.Event(), spark.sparkContext.statusTracker()
    stages: dict[int, tuple[int, int]] = {}

    def poll() -> None:
        while not done.wait(_POLL_SECONDS):
            for stage in tracker.getActiveStageIds():
                if info := tracker.getStageInfo(stage):
                    stages[stage] = info.numCompletedTasks, info.numTasks
            if stages:
                report(sum(each[0] for each in stages.values()), sum(each[1] for each in stages.values()))

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
