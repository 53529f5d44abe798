"""A standalone Spark cluster on loopback, from the installed PySpark."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import pyspark

from compat_tests.support.processes import Child, Processes

__all__ = ["StandaloneCluster"]

SPARK_HOME = Path(pyspark.__file__).parent
_READY_S = 120
_WORKER_MEMORY, _EXECUTOR_MEMORY = "1g", "512m"
_QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_SETTINGS = (
    "spark.driver.bindAddress=127.0.0.1",
    "spark.driver.host=127.0.0.1",
    f"spark.driver.extraJavaOptions={_QUICK_START}",
    f"spark.executor.extraJavaOptions={_QUICK_START}",
    "spark.sql.shuffle.partitions=4",
    "spark.eventLog.enabled=true",
    "spark.eventLog.rolling.enabled=false",
    "spark.eventLog.compress=false",
)
"""There are two cores in all, and JVMs that live for a minute."""

_LOST_WORK = frozenset({"Resubmitted", "FetchFailed", "ExecutorLostFailure"})
"""The reasons for which Spark runs a task again after an executor was lost."""

_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


class StandaloneCluster:
    """A context manager: a master and `workers` workers of one core each, with executors on `python`."""

    def __init__(self, python: Path, workers: int = 2) -> None:
        self._processes = Processes()
        self._folder = Path(tempfile.mkdtemp(prefix="standalone-"))
        self._workers = [f"worker-{number}" for number in range(workers)]
        self._running: dict[str, Child] = {}
        self._events = self._folder / "events"
        self._environment = _environment(python, self._folder)
        self.master = ""

    def __enter__(self) -> StandaloneCluster:
        self._processes.__enter__()
        self._processes.own_folder(self._folder)
        try:
            where = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
            self.master = self._start("master", "Master", where, r"Starting Spark master at (spark://\S+)")
            self._events.mkdir()
            own = ("--cores", "1", "--memory", _WORKER_MEMORY, "--work-dir", str(self._folder / "work"))
            for name in self._workers:
                self._start(
                    name, "Worker", (*where, *own, self.master), "Successfully registered with master"
                )
        except BaseException:
            self._processes.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._processes.__exit__(kind, error, trace)

    def submit(
        self,
        program: Path,
        arguments: Sequence[str],
        *,
        py_files: Path,
        timeout_s: float,
        kill_a_worker: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """Run `program` as the driver, in a folder without any of our files.

        `kill_a_worker`: the last worker is killed with its executor while Python folds records.
        """
        settings = (*_SETTINGS, f"spark.eventLog.dir={self._events.as_uri()}")
        command = [
            str(SPARK_HOME / "bin" / "spark-submit"),
            *("--master", self.master, "--py-files", str(py_files)),
            *("--driver-memory", _EXECUTOR_MEMORY, "--executor-memory", _EXECUTOR_MEMORY),
            *(word for setting in settings for word in ("--conf", setting)),
            str(program),
            *arguments,
        ]
        over = threading.Event()
        killer = threading.Thread(target=self._kill_while_folding, args=(over,))
        if kill_a_worker:
            killer.start()
        try:
            return subprocess.run(
                command,
                env=self._environment,
                cwd=self._folder,
                capture_output=True,
                text=True,
                timeout=timeout_s,
                check=False,
            )
        finally:
            over.set()
            if kill_a_worker:
                killer.join()

    def executors(self) -> int:
        """The number of workers that have run an executor so far."""
        return sum(_EXECUTOR in self._log(name) for name in self._workers)

    def tasks_run_again(self) -> int:
        """The number of tasks whose work was lost with an executor."""
        reasons = (event.get("Task End Reason", {}).get("Reason") for event in self._read_events())
        return sum(reason in _LOST_WORK for reason in reasons)

    def _kill_while_folding(self, over: threading.Event) -> None:
        while not any(_folds(event) for event in self._read_events()):
            if over.wait(0.1):
                return
        # The tasks have started by then, and take longer: each starts a Python first.
        over.wait(1.0)
        # The group of a worker's processes has its executor too.
        os.killpg(self._running[self._workers[-1]].pid, signal.SIGKILL)

    def _read_events(self) -> list[dict[str, Any]]:
        """The events of all applications, as far as Spark has written whole lines."""
        lines = [
            line for file in sorted(self._events.iterdir()) for line in file.read_text().splitlines(True)
        ]
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def _log(self, name: str) -> str:
        file = self._folder / f"{name}.log"
        return file.read_text(errors="replace") if file.exists() else ""

    def _start(self, name: str, what: str, arguments: Sequence[str], ready: str) -> str:
        """Start a Spark process, wait for the line that matches `ready`, and return its first group."""
        command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{what.lower()}.{what}"]
        process: Child = self._processes.start(
            [
                "env",
                "-i",
                *(f"{name}={value}" for name, value in self._environment.items()),
                *command,
                *arguments,
            ],
            self._folder / f"{name}.log",
            cwd=self._folder,
        )
        self._running[name] = process
        deadline = time.monotonic() + _READY_S
        while (found := re.search(ready, self._log(name))) is None:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"Spark's {name} does not start: {self._log(name)[-2000:]}")
            time.sleep(0.1)
        return found[1] if found.groups() else found[0]


def _folds(event: Mapping[str, Any]) -> bool:
    """Whether this is the start of the job in which Python folds the records of each group."""
    return event["Event"] == "SparkListenerJobStart" and "MapInArrow" in json.dumps(event["Stage Infos"])


def _environment(python: Path, folder: Path) -> Mapping[str, str]:
    """The environment of a cluster process: where Spark and its Python are, without anything of ours."""
    kept = {name: os.environ[name] for name in ("PATH", "JAVA_HOME", "HOME", "LANG") if name in os.environ}
    return kept | {
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": _QUICK_START,
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": str(python),
        "TMPDIR": str(folder),
    }
