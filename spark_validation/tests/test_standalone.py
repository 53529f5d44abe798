"""The wheel is all that a replay by spark-submit needs, on executors without any of our other files."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
import time
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from compat_tests.support.hang_limit import HANG_S
from spark_validation.tests.replaying import json_report, replay

pytestmark = pytest.mark.exhaustive

ROOT = Path(__file__).parents[2]
SPARK_HOME = Path(pyspark.__file__).parent
PROGRAM = "from kafka_assignors_cli import main\nraise SystemExit(main())\n"
"""The whole program that a user writes to run our command by spark-submit."""

SETTINGS = (
    "spark.driver.bindAddress=127.0.0.1",
    "spark.driver.host=127.0.0.1",
    "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.memory=512m",
    "spark.sql.shuffle.partitions=4",
    "spark.eventLog.enabled=true",
    "spark.eventLog.rolling.enabled=false",
    "spark.eventLog.compress=false",
)
LOST_WORK = {"Resubmitted", "FetchFailed", "ExecutorLostFailure"}
"""The reasons for which Spark runs a task again after an executor was lost."""


def py_files(folder: Path) -> Path:
    """The tested wheel (tox's, or one built here) as a copy in `folder`, with a name that Spark accepts.

    PySpark adds only files with the suffixes .zip, .egg and .jar from `--py-files` to the path of its
    workers.
    """
    given = [Path(each) for each in os.environ.get("TOX_PACKAGE", "").split(os.pathsep) if each]
    if not given:
        built = folder / "built"
        command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(built), str(ROOT)]
        subprocess.run(command, check=True, timeout=HANG_S)
        given = list(built.glob("*.whl"))
    (wheel,) = given
    return Path(shutil.copyfile(wheel, folder / "kafka_assignors.zip"))


def bare_python(folder: Path) -> Path:
    """A Python in `folder` that has all installed packages except ours."""
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for each in Path(sysconfig.get_path("purelib")).iterdir():
        if not each.name.startswith(("kafka_assignors", "_kafka_assignors", "__editable__")):
            (packages / each.name).symlink_to(each)
    python = folder / "bin" / "python"
    program = "import pyspark, pyarrow, typer\nimport kafka_assignors"
    found = subprocess.run([python, "-I", "-c", program], capture_output=True, text=True, check=False)
    assert "No module named 'kafka_assignors'" in found.stderr
    return python


def events_in(folder: Path) -> list[dict[str, Any]]:
    """The events of the application, as far as Spark has written whole lines."""
    lines = [line for file in folder.iterdir() for line in file.read_text().splitlines(True)]
    return [json.loads(line) for line in lines if line.endswith("\n")]


def executors_of(pid: int) -> Iterator[int]:
    """The executors among the descendants of a process."""
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, file.read_text().split()):
            if b"CoarseGrainedExecutorBackend" in Path(f"/proc/{child}/cmdline").read_bytes():
                yield child
            else:
                yield from executors_of(child)


def kill_an_executor_that_folds(driver: subprocess.Popen[bytes], events: Path) -> None:
    def folds(event: dict[str, Any]) -> bool:
        is_start = event["Event"] == "SparkListenerJobStart"
        return is_start and "MapInArrow" in json.dumps(event["Stage Infos"])

    while driver.poll() is None and not any(map(folds, events_in(events))):
        time.sleep(0.1)
    # The tasks have started by then, and take longer: each starts a Python first.
    time.sleep(1.0)
    for executor in [*executors_of(driver.pid)][:1]:
        os.kill(executor, signal.SIGKILL)


def test_a_replay_by_spark_submit_on_two_executors_of_which_one_is_killed_is_the_replay_here(
    recorded: str, tmp_path: Path
) -> None:
    there, events, program = tmp_path / "there.json", tmp_path / "events", tmp_path / "replay.py"
    events.mkdir()
    program.write_text(PROGRAM)
    python = str(bare_python(tmp_path / "python"))
    kept = {name: os.environ[name] for name in ("PATH", "JAVA_HOME", "HOME", "LANG") if name in os.environ}
    environment = kept | {
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(tmp_path / "local"),
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python,
        "TMPDIR": str(tmp_path),
    }
    command = [
        *(str(SPARK_HOME / "bin" / "spark-submit"), "--master", "local-cluster[2,1,512]"),
        *("--driver-memory", "512m", "--py-files", str(py_files(tmp_path))),
        *(word for each in (*SETTINGS, f"spark.eventLog.dir={events.as_uri()}") for word in ("--conf", each)),
        *(str(program), "replay", recorded, "--strategy", "cooperative-sticky", "--json", str(there)),
    ]
    log = tmp_path / "log"
    with log.open("wb") as file:
        driver = subprocess.Popen(command, env=environment, cwd=tmp_path, stdout=file, stderr=file)
        killer = threading.Thread(target=kill_an_executor_that_folds, args=(driver, events))
        killer.start()
        try:
            assert driver.wait(600) == 0, log.read_text(errors="replace")[-4000:]
        finally:
            driver.kill()
            killer.join()
    found = events_in(events)
    assert sum(event["Event"] == "SparkListenerExecutorAdded" for event in found) >= 2
    assert any(event.get("Task End Reason", {}).get("Reason") in LOST_WORK for event in found)
    here = json.loads(json_report(replay(recorded, strategies=("cooperative-sticky",))))
    on_executors = json.loads(there.read_text(encoding="utf-8"))
    for name in ("history", "groups", "verdicts", "culprits", "truth", "sample"):
        assert on_executors[name] == here[name]
