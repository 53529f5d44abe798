"""A client's own tests pass with the cooperative consumer where they pass with the stock one.

kafka-python's tests come from the source archive on the package index; without an index these tests fail and
say so. aiokafka's archive has no tests: with UPSTREAM_SUITE=aiokafka they come from the checkout in AIOKAFKA.

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
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from compat_tests.support.jvm import kafka_version
from compat_tests.support.kafka_cluster import KafkaCluster
from compat_tests.support.processes import Processes
from compat_tests.upstream.differences import ALLOWED

TEST_TIMEOUT_S = 120
"""The limit for one test; the slowest takes 40 s on an idle machine."""

RUN_TIMEOUT_S = 1200
"""The limit for all tests with one consumer; three of them may hang."""

DOWNLOAD_TIMEOUT_S = 180

pytestmark = pytest.mark.timeout(DOWNLOAD_TIMEOUT_S + 2 * RUN_TIMEOUT_S + 60)

CONSUMERS = ("stock", "cooperative")


@dataclass(frozen=True, slots=True)
class Suite:
    """The tests of one client that construct a consumer.

    Attributes:
        package: the client's name on the index.
        fewest: at least so many tests are expected.
        folder: the folder of the tests in the sources.
        files: the test modules, relative to the sources; a module that the sources lack is left out.
        selected: an expression for pytest's -k that selects the tests with a consumer.
        broker: the broker settings that the tests rely on.
        options: more options for pytest.
        fails_with_both: the tests that fail with the stock consumer too.
    """

    package: str
    fewest: int
    folder: str
    files: tuple[str, ...]
    selected: str = ""
    broker: Mapping[str, object] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    fails_with_both: frozenset[str] = frozenset()


SUITES = {
    "aiokafka": Suite(
        "aiokafka",
        80,
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
        # The broker has no TLS listener.
        fails_with_both=frozenset({"tests/test_consumer.py::TestConsumerIntegration::test_ssl_consume"}),
    ),
    "kafka-python": Suite(
        "kafka-python",
        25,
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


SUITE = SUITES[os.environ.get("UPSTREAM_SUITE", "kafka-python")]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one test (`passed`, `failed`, `skipped`, `missing`), and why it did not pass.

    `first` is why it failed at first, if it ran twice.
    """

    outcome: str
    reason: str = ""
    first: str = ""


Outcomes = Mapping[str, tuple[Outcome, Outcome]]
"""Of each test, with the stock consumer and with the cooperative one."""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Outcomes:
    sources, folder = sources_in(tmp_path_factory.mktemp("sources")), tmp_path_factory.mktemp("runs")
    with concurrent.futures.ThreadPoolExecutor(2) as both:
        found = list(
            both.map(lambda consumer: _run_with(consumer, SUITE, sources, folder / consumer), CONSUMERS)
        )
    lines = [f"{SUITE.package} {importlib.metadata.version(SUITE.package)}, Kafka {kafka_version()}"]
    for consumer, of_tests in zip(CONSUMERS, found, strict=True):
        passed = sum(one.outcome == "passed" for one in of_tests.values())
        lines.append(f"{consumer}: {passed} of {len(of_tests)} tests pass")
        lines += [
            f"{consumer}: ran twice: {test}: {one.first}" for test, one in of_tests.items() if one.first
        ]
    terminal = pytestconfig.pluginmanager.getplugin("terminalreporter")
    terminal.write_line("\n" + "\n".join(lines))
    stock, cooperative = found
    missing = Outcome("missing", "the run ended before this test")
    return {
        test: (stock.get(test, missing), cooperative.get(test, missing))
        for test in sorted({*stock, *cooperative})
    }


def sources_in(folder: Path) -> Path:
    """The sources of the installed version of the client: a checkout, or what pip downloads to the folder."""
    package, version = SUITE.package, importlib.metadata.version(SUITE.package)
    if package == "aiokafka":
        assert "AIOKAFKA" in os.environ, f"AIOKAFKA=folder is needed: a checkout of aiokafka {version}"
        checkout = Path(os.environ["AIOKAFKA"])
        text = (checkout / "aiokafka" / "__init__.py").read_text(encoding="utf-8")
        assert f'__version__ = "{version}"' in text, (
            f"{checkout} is not aiokafka {version}, which is installed"
        )
        return checkout
    command = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps"]
    command += ["--no-binary", package, "-d", os.fspath(folder), f"{package}=={version}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_TIMEOUT_S, check=False)
    assert done.returncode == 0, (
        f"{package} {version}: pip cannot download the source archive, which has the tests. "
        f"Is a package index reachable?\n{done.stderr.strip()[-2000:]}"
    )
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    (unpacked,) = (entry for entry in folder.iterdir() if entry.is_dir())
    return unpacked


def different(outcomes: Outcomes) -> dict[str, str]:
    """The tests that pass with the stock consumer but not with the cooperative one, with the reason."""
    return {
        test: f"{ours.outcome}: {ours.reason}"
        for test, (stock, ours) in outcomes.items()
        if stock.outcome == "passed" != ours.outcome
    }


def test_cooperative_consumer_passes_each_test_that_the_stock_consumer_passes(outcomes: Outcomes) -> None:
    allowed = ALLOWED[SUITE.package]
    assert {test: why for test, why in different(outcomes).items() if test not in allowed} == {}


def test_each_allowed_difference_is_one(outcomes: Outcomes) -> None:
    assert set(ALLOWED[SUITE.package]) <= set(different(outcomes))


def test_the_tests_pass_with_the_stock_consumer(outcomes: Outcomes) -> None:
    failed = {test for test, (stock, _) in outcomes.items() if stock.outcome not in ("passed", "skipped")}
    assert failed == SUITE.fails_with_both
    assert len(outcomes) >= SUITE.fewest


def _run_with(consumer: str, suite: Suite, sources: Path, folder: Path) -> dict[str, Outcome]:
    shutil.copytree(sources / suite.folder, folder / suite.folder)
    # Without this file, Python would import its own package `test`.
    (folder / suite.folder / "__init__.py").touch()
    files = [name for name in suite.files if (folder / name).is_file()]
    report = folder / "report.jsonl"
    with KafkaCluster(settings=suite.broker) as kafka:
        told = [suite.package, consumer, kafka.bootstrap, kafka_version(), os.fspath(report)]
        environment = {
            **os.environ,
            "UPSTREAM": json.dumps(told),
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
    output = (folder / "output").read_text(encoding="utf-8", errors="replace").strip()[-2000:]
    assert process.returncode in (0, 1), f"the tests of {suite.package} do not run ({ended}):\n{output}"
    outcomes: dict[str, Outcome] = {}
    for line in report.read_text(encoding="utf-8").splitlines():
        found = json.loads(line)
        # A test that fails in its teardown was reported as passed before.
        if outcomes.get(found["test"], Outcome("passed")).outcome != "failed":
            outcomes[found["test"]] = Outcome(found["outcome"], found["reason"])
    return outcomes
