"""The class path and the compiler are found once, shared by processes, and named in an error if missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

ASK = """
import sys
from pathlib import Path
from compat_tests.support import jvm

jvm._CACHE = Path(sys.argv[1])
try:
    print({})
except jvm.JvmError as error:
    sys.exit(str(error))
"""


def ask(expression: str, cache: Path, **environment: str) -> subprocess.Popen[str]:
    """A process with its own cache that prints the value of an expression over `jvm`, or the JvmError."""
    return subprocess.Popen(
        [sys.executable, "-c", ASK.format(expression), str(cache)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def answer(process: subprocess.Popen[str]) -> str:
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    return output.strip()


def complaint(process: subprocess.Popen[str]) -> str:
    _, errors = process.communicate()
    assert process.returncode == 1
    return errors.strip()


def programs(folder: Path, **scripts: str) -> str:
    """A folder of shell scripts, to be used as the whole PATH."""
    folder.mkdir()
    for name, script in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        (folder / name).chmod(0o755)
    return str(folder)


def test_processes_that_ask_at_once_get_the_same_complete_answer(tmp_path: Path) -> None:
    answers = {answer(process) for process in [ask("jvm.classpath()", tmp_path) for _ in range(4)]}
    (path,) = answers
    jars = path.split(os.pathsep)
    assert all(Path(jar).is_file() for jar in jars)
    assert any(Path(jar).name.startswith("kafka-clients-") for jar in jars)


def test_a_missing_java_is_named(tmp_path: Path) -> None:
    said = complaint(ask("jvm.java_command('kafka.Kafka')", tmp_path, JAVA_HOME="/nowhere"))
    assert said.startswith("no java in JAVA_HOME (/nowhere): install a JDK 17 or later")


def test_a_missing_maven_is_named(tmp_path: Path) -> None:
    path = programs(tmp_path / "bin")
    said = complaint(ask("jvm.classpath()", tmp_path / "cache", PATH=path))
    assert said.startswith("no mvn in the PATH")


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_392"])
def test_an_old_java_is_refused(tmp_path: Path, version: str) -> None:
    path = programs(tmp_path / "bin", java=f"echo 'openjdk version \"{version}\"' >&2", mvn="exit 1")
    said = complaint(ask("jvm.classpath()", tmp_path / "cache", PATH=path, JAVA_HOME=""))
    assert said.startswith("Java 17 or later is needed")
    assert version in said


def test_error_quotes_the_output_of_maven(tmp_path: Path) -> None:
    java = "echo 'openjdk version \"21.0.1\"' >&2"
    path = programs(tmp_path / "bin", java=java, mvn="echo 'Could not find artifact'; exit 1")
    said = complaint(ask("jvm.classpath()", tmp_path / "cache", PATH=path, JAVA_HOME=""))
    assert "Maven could not resolve" in said
    assert "Could not find artifact" in said
