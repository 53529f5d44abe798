"""A client's own tests on our broker, with the stock consumer and with the cooperative one, test by test.

Each run is a pytest process with its own broker, since the tests use fixed names for groups and topics; the
two processes run at the same time. The tests are copied to another folder: next to the client's sources,
Python would import the sources instead of the installed client. A test that fails
without being allowed to runs once more, and passes if it passes then, because some race against the broker.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from compat_tests.support.jvm import kafka_version
from compat_tests.support.kafka_cluster import KafkaCluster
from compat_tests.support.processes import Processes
from compat_tests.upstream.differences import ALLOWED

__all__ = ["SUITES", "Outcome", "Suite", "SuiteError", "compare", "download", "report", "run", "unpack"]

TEST_TIMEOUT_S = 120
"""The limit for one test; the slowest takes 40 s on an idle machine."""

RUN_TIMEOUT_S = 1200
"""The limit for all tests with one consumer; three of them may hang."""

DOWNLOAD_TIMEOUT_S = 180

_CONSUMERS = ("stock", "cooperative")


class SuiteError(Exception):
    """The tests are not available or do not run; the message has the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class Suite:
    """The tests of one client that construct a consumer.

    Attributes:
        package: the client's name on the index.
        version: the file in the sources that contains the version.
        folder: the folder of the tests in the sources.
        files: the test modules, relative to the sources; a module that the sources lack is left out.
        selected: an expression for pytest's -k that selects the tests with a consumer.
        broker: the broker settings that the tests rely on.
        options: more options for pytest.
    """

    package: str
    version: str
    folder: str
    files: tuple[str, ...]
    selected: str = ""
    broker: Mapping[str, object] = field(default_factory=dict)
    options: tuple[str, ...] = ()


SUITES = {
    "aiokafka": Suite(
        "aiokafka",
        "aiokafka/__init__.py",
        "tests",
        (
            "tests/test_consumer.py",
            "tests/test_pep492.py",
            "tests/test_transactional_consumer.py",
            "tests/test_subscription_state.py",
        ),
        broker={"auto.create.topics.enable": "true", "num.partitions": 2},
        # aiokafka's fixtures start a container; `plugin` replaces them with our broker.
        options=("--noconftest", "-o", "asyncio_mode=auto"),
    ),
    "kafka-python": Suite(
        "kafka-python",
        "kafka/version.py",
        "test",
        (
            "test/integration/test_consumer_integration.py",
            "test/integration/test_producer_integration.py",
            "test/integration/test_admin_integration.py",
            # The source archive lacks this module.
            "test/consumer/test_consumer.py",
        ),
        # Codecs belong to the client and need additional libraries.
        selected="(consumer or group or delete_records or end_to_end or messages or in_flight)"
        " and not (snappy or lz4 or zstd)",
        broker={"auto.create.topics.enable": "true", "num.partitions": 4},
    ),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one test (`passed`, `failed`, `skipped`, `missing`), and why it did not pass.

    `first` is why it failed at first, if it ran twice.
    """

    outcome: str
    reason: str = ""
    seconds: float = 0.0
    first: str = ""


def download(package: str, folder: Path) -> Path:
    """Download the source archive of a client's installed version with pip.

    Raises:
        SuiteError: no index answers, or it has no such archive.
    """
    version = importlib.metadata.version(package)
    command = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps"]
    command += ["--no-binary", package, "-d", os.fspath(folder), f"{package}=={version}"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=DOWNLOAD_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise SuiteError(
            f"{package} {version}: no sources after {DOWNLOAD_TIMEOUT_S} s. Is a package index reachable?"
        ) from None
    found = list(folder.glob("*.tar.gz"))
    if done.returncode or len(found) != 1:
        raise SuiteError(
            f"{package} {version}: pip cannot download the source archive, which has the tests. "
            f"Is a package index reachable?\n"
            f"{done.stderr.strip()[-2000:]}"
        )
    return found[0]


def unpack(archive: Path, folder: Path) -> Path:
    """Unpack a source archive, and return its top folder."""
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    (made,) = (entry for entry in folder.iterdir() if entry.is_dir())
    return made


def run(suite: Suite, sources: Path) -> dict[str, tuple[Outcome, Outcome]]:
    """The outcome of each test, with the stock consumer and with the cooperative one.

    Raises:
        SuiteError: the folder does not hold the tests of the installed version, or pytest cannot run them.
    """
    for needed in (suite.version, suite.folder):
        if not (sources / needed).exists():
            raise SuiteError(f"{sources} has no {needed}: it does not hold the sources of {suite.package}")
    _require_version(suite, sources)
    with (
        tempfile.TemporaryDirectory(prefix="upstream-") as temporary,
        concurrent.futures.ThreadPoolExecutor(2) as both,
    ):
        futures = [
            both.submit(_run_with, consumer, suite, sources, Path(temporary, consumer))
            for consumer in _CONSUMERS
        ]
        stock, cooperative = (future.result() for future in futures)
    missing = Outcome("missing", "the run ended before this test")
    return {
        test: (stock.get(test, missing), cooperative.get(test, missing))
        for test in sorted({*stock, *cooperative})
    }


def compare(outcomes: Mapping[str, tuple[Outcome, Outcome]]) -> dict[str, str]:
    """The tests that pass with the stock consumer but not with the cooperative one, with the reason."""
    return {
        test: f"{ours.outcome}: {ours.reason}"
        for test, (stock, ours) in outcomes.items()
        if stock.outcome == "passed" != ours.outcome
    }


def report(client: str, outcomes: Mapping[str, tuple[Outcome, Outcome]]) -> list[str]:
    """The versions, the number of passed tests with each consumer, and the tests that ran twice."""
    lines = [f"{client} {importlib.metadata.version(client)}, Kafka {kafka_version()}"]
    for number, consumer in enumerate(_CONSUMERS):
        found = {test: pair[number] for test, pair in outcomes.items()}
        passed = sum(one.outcome == "passed" for one in found.values())
        lines.append(f"{consumer}: {passed} of {len(found)} tests pass")
        lines += [f"{consumer}: ran twice: {test}: {one.first}" for test, one in found.items() if one.first]
    return lines


def _require_version(suite: Suite, sources: Path) -> None:
    installed = importlib.metadata.version(suite.package)
    text = sources.joinpath(suite.version).read_text(encoding="utf-8")
    found = re.search(r"^__version__ = ['\"](.+)['\"]", text, re.MULTILINE)
    if found is None or found[1] != installed:
        raise SuiteError(
            f"{sources} is {suite.package} {found[1] if found else 'of no version'}, "
            f"but {installed} is installed: check out the sources of {installed}"
        )


def _run_with(consumer: str, suite: Suite, sources: Path, folder: Path) -> dict[str, Outcome]:
    shutil.copytree(sources / suite.folder, folder / suite.folder)
    # Without this file, Python would import its own package `test`.
    (folder / suite.folder / "__init__.py").touch()
    files = [name for name in suite.files if (folder / name).is_file()]
    report = folder / "report.jsonl"
    with KafkaCluster(settings=suite.broker) as kafka:
        environment = {
            **os.environ,
            "UPSTREAM_CLIENT": suite.package,
            "UPSTREAM_CONSUMER": consumer,
            "UPSTREAM_BOOTSTRAP": kafka.bootstrap,
            "UPSTREAM_KAFKA": kafka_version(),
            "UPSTREAM_REPORT": os.fspath(report),
            # The results for `compat_tests.matrix` come from the tests that start these.
            "MATRIX_RESULTS": "",
            "PYTHONPATH": os.fspath(Path(__file__).parents[2]),
        }
        selected = ["-k", suite.selected] if suite.selected else []
        outcomes = _pytest([*files, *selected], suite, folder, environment, report)
        expected = ALLOWED[suite.package] if consumer == "cooperative" else ()
        failed = [test for test, found in outcomes.items() if found.outcome == "failed"]
        again = [test for test in failed if test not in expected]
        if again:
            second = _pytest(again, suite, folder, environment, report)
            for test in again:
                found = second.get(test, outcomes[test])
                last = found if found.outcome == "passed" else outcomes[test]
                outcomes[test] = dataclasses.replace(last, first=outcomes[test].reason)
    return outcomes


def _pytest(
    tests: Sequence[str], suite: Suite, folder: Path, environment: Mapping[str, str], report: Path
) -> dict[str, Outcome]:
    report.write_text("")
    options = ["-q", "-p", "no:cacheprovider", "-p", "compat_tests.upstream.plugin", "-c", os.devnull]
    options += ["--rootdir", os.fspath(folder), f"--timeout={TEST_TIMEOUT_S}", *suite.options]
    command = [sys.executable, "-m", "pytest", *options, *tests]
    with Processes() as processes:
        process = processes.start(command, folder / "output", cwd=folder, environment=environment)
        try:
            ended = f"pytest ended with {process.wait(RUN_TIMEOUT_S)}"
        except subprocess.TimeoutExpired:
            ended = f"pytest did not end within {RUN_TIMEOUT_S} s"
    if process.returncode not in (0, 1):
        output = (folder / "output").read_text(encoding="utf-8", errors="replace").strip()[-2000:]
        raise SuiteError(f"the tests of {suite.package} do not run ({ended}):\n{output}")
    outcomes: dict[str, Outcome] = {}
    for line in report.read_text(encoding="utf-8").splitlines():
        found = json.loads(line)
        # A test that fails in its teardown was reported as passed before.
        if outcomes.get(found["test"], Outcome("passed")).outcome != "failed":
            outcomes[found["test"]] = Outcome(found["outcome"], found["reason"], found["seconds"])
    return outcomes
