"""A standalone Spark cluster on loopback, from the installed PySpark."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

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
)
"""There are two cores in all, and JVMs that live for a minute."""

_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


class StandaloneCluster:
    """A context manager: a master and `workers` workers of one core each, with executors on `python`."""

    def __init__(self, python: Path, workers: int = 2) -> None:
        self._processes = Processes()
        self._folder = Path(tempfile.mkdtemp(prefix="standalone-"))
        self._workers = workers
        self._environment = _environment(python, self._folder)
        self.master = ""

    def __enter__(self) -> StandaloneCluster:
        self._processes.__enter__()
        self._processes.own_folder(self._folder)
        try:
            where = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
            self.master = self._start("master", "Master", where, r"Starting Spark master at (spark://\S+)")
            for number in range(self._workers):
                own = ("--cores", "1", "--memory", _WORKER_MEMORY, "--work-dir", str(self._folder / "work"))
                self._start(
                    f"worker-{number}",
                    "Worker",
                    (*where, *own, self.master),
                    "Successfully registered with master",
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
        self, program: Path, arguments: Sequence[str], *, py_files: Path, timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        """Run `program` as the driver, in a folder without any of our files."""
        return subprocess.run(
            [
                str(SPARK_HOME / "bin" / "spark-submit"),
                *("--master", self.master, "--py-files", str(py_files)),
                *("--driver-memory", _EXECUTOR_MEMORY, "--executor-memory", _EXECUTOR_MEMORY),
                *(word for setting in _SETTINGS for word in ("--conf", setting)),
                str(program),
                *arguments,
            ],
            env=self._environment,
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def executors(self) -> int:
        """The number of workers that have run an executor so far."""
        return sum(_EXECUTOR in self._log(f"worker-{number}") for number in range(self._workers))

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
        deadline = time.monotonic() + _READY_S
        while (found := re.search(ready, self._log(name))) is None:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"Spark's {name} does not start: {self._log(name)[-2000:]}")
            time.sleep(0.1)
        return found[1] if found.groups() else found[0]


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
