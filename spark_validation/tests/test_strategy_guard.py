"""Strategies that do not end, or end the process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from compat_tests.support.hang_limit import HANG_S, wait_for
from kafka_assignors.group import Assignment, Group
from kafka_assignors.strategies.range_roundrobin import Range
from kafka_assignors.strategy import Strategy
from kafka_assignors_replay.engine import ENGINES
from kafka_assignors_replay.history.strategy_guard import StrategyGuard, StrategyTimeout, failure_text
from kafka_assignors_replay.replay import run_replay
from kafka_assignors_replay.result import RECORDED, Mode, ReplayError, ReplayOptions, Verdict
from spark_validation.tests.groups import Log, member, write_history
from tests.test_cli import without_progress

pytestmark = pytest.mark.exhaustive  # takes minutes, and is the same with every PySpark

LIMIT_S = 0.5


class _Own(Strategy):
    """A user's strategy that behaves until it gets a third member."""

    name = "own"

    def assign(self, group: Group) -> Assignment:
        if len(group.members) >= 3:
            self.misbehave()
        return Range().assign(group)

    def misbehave(self) -> None:
        raise NotImplementedError


class Endless(_Own):
    def misbehave(self) -> None:
        Path(os.environ.get("BUSY", os.devnull)).touch()
        while True:
            pass


class Suppresses(_Own):
    """Continues after each of the first two exceptions that should end it."""

    def misbehave(self) -> None:
        for _ in range(2):
            try:
                time.sleep(10_000)
            except BaseException:
                continue
        time.sleep(10_000)


class Exits(_Own):
    def misbehave(self) -> None:
        sys.exit(3)


class Unreadable(_Own):
    def misbehave(self) -> None:
        class UnreadableError(Exception):
            def __str__(self) -> str:
                raise ValueError

        raise UnreadableError


class Verbose(_Own):
    def misbehave(self) -> None:
        raise RuntimeError("line\n" * 100_000)


class Talks(_Own):
    """Prints, and goes on."""

    def misbehave(self) -> None:
        print("hello")


class KillsItsProcess(_Own):
    def misbehave(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


FAILURES = {
    Endless: "StrategyTimeout: no assignment within 0.5 s",
    Suppresses: "StrategyTimeout: no assignment within 0.5 s",
    Exits: "SystemExit: the strategy asked to end the process, with 3",
    Unreadable: "UnreadableError: its text raises ValueError",
    Verbose: "RuntimeError: line line",
}


def spec(strategy: type[_Own]) -> str:
    return f"{__name__}:{strategy.__name__}"


@pytest.fixture
def history(tmp_path: Path) -> str:
    """Two groups that a second and a third member join."""
    log = Log()
    for group in ("checkout", "billing"):
        members = [member(f"{group}-{number}", gets={"orders": [number]}) for number in range(3)]
        for number in (1, 2, 3):
            log.generation(group, number, *members[:number])
    return write_history(tmp_path / "history", log, {"orders": 3})


def verdicts(history: str, engine: str, *strategies: str, **given: Any) -> dict[tuple[str, str], Verdict]:
    options = ReplayOptions(
        path=history,
        strategies=strategies,
        modes=(Mode.ONE_STEP,),
        groups=("checkout",),
        strategy_timeout_s=LIMIT_S,
        **given,
    )
    result = run_replay(options, lambda _: None, engine=engine)
    return {(verdict.group, verdict.strategy): verdict for verdict in result.verdicts}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_strategy_that_misbehaves_has_failed_and_the_others_have_their_figures(
    spark: SparkSession, history: str, engine: str
) -> None:
    alone = verdicts(history, engine, "sticky")
    together = verdicts(history, engine, "sticky", *map(spec, FAILURES))
    for name in (RECORDED, "sticky"):
        assert together["checkout", name] == alone["checkout", name]
    for strategy, text in FAILURES.items():
        verdict = together["checkout", spec(strategy)]
        assert verdict.failed > 0
        assert any(failure.startswith(text) for failure in verdict.failures), verdict.failures
        assert all(len(failure) < 1_000 for failure in verdict.failures)


def test_a_strategy_that_does_not_end_has_failed_in_any_thread(history: str) -> None:
    found: list[Verdict] = []

    def run() -> None:
        found.append(verdicts(history, "local", spec(Endless))["checkout", spec(Endless)])

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(HANG_S)
    assert [each.failed for each in found] == [1]


def test_what_a_strategy_prints_is_not_on_stdout(history: str, capfd: pytest.CaptureFixture[str]) -> None:
    found = verdicts(history, "local", spec(Talks))
    assert found["checkout", spec(Talks)].failed == 0
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("engine", ENGINES)
def test_a_strategy_that_ends_its_process_ends_the_replay_in_one_line(
    spark: SparkSession, history: str, engine: str
) -> None:
    with pytest.raises(
        ReplayError, match="process that replayed groups ended: a strategy ended it, or"
    ) as error:
        verdicts(history, engine, "sticky", spec(KillsItsProcess))
    assert "\n" not in str(error.value)


def test_the_limit_is_over_when_the_call_is() -> None:
    handler = signal.getsignal(signal.SIGURG)
    guard = StrategyGuard(0.05)
    with guard.watching():
        for _ in range(20):
            guard.run(lambda: None)
        time.sleep(0.2)
        with pytest.raises(StrategyTimeout):
            guard.run(lambda: time.sleep(10))
        time.sleep(0.2)
    assert signal.getsignal(signal.SIGURG) == handler


@pytest.mark.parametrize("limit_s", [0.02, 0.4, 10.0])
def test_the_alarm_of_a_program_comes_during_a_strategy(limit_s: float) -> None:
    timer = signal.setitimer(signal.ITIMER_REAL, 0.05)  # that of pytest-timeout
    alarms: list[int] = []
    handler = signal.signal(signal.SIGALRM, lambda number, _: alarms.append(number))
    guard = StrategyGuard(limit_s)
    with guard.watching(), suppress(StrategyTimeout):
        guard.run(lambda: time.sleep(1.5))
    time.sleep(0.1)
    assert alarms == [signal.SIGALRM]
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, *timer)


def test_no_limit_ends_what_is_not_a_strategy() -> None:
    guard = StrategyGuard(0.05)
    with guard.watching():
        guard._deadline = 0.0  # as after an alarm in the last instruction of `run`
        time.sleep(0.2)


def test_the_user_interrupts_a_strategy() -> None:
    with pytest.raises(KeyboardInterrupt):
        failure_text(KeyboardInterrupt())


def endless_replay(history: str, engine: str, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "kafka_assignors_cli", "replay", history, "--engine", engine]
    command += ["--strategy", spec(Endless)]
    pipes = {"stderr": subprocess.PIPE, "stdout": subprocess.PIPE}
    return subprocess.Popen(
        command, text=True, start_new_session=True, env={**os.environ, **environment}, **pipes
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_ctrl_c_ends_a_replay_with_one_line(history: str, engine: str) -> None:
    with endless_replay(history, engine) as process:
        assert process.stderr is not None
        before = ""
        for line in process.stderr:
            before += line
            if "replay" in line and "/" in line and "[" in line:
                break
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        said = process.communicate(timeout=HANG_S)[1]
    assert process.returncode == 130
    # Neither Spark nor the end of the interpreter adds a line.
    lines = without_progress(before + said).splitlines()
    assert len(lines) == 2, lines
    assert ": engine: " in lines[0]
    assert lines[1].startswith("kafka-assignors: interrupted")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_process_is_left_of_a_replay_that_is_ended(
    history: str, number: signal.Signals, tmp_path: Path
) -> None:
    temporary, busy = tmp_path / "temporary", tmp_path / "busy"
    temporary.mkdir()
    with endless_replay(history, "local", TMPDIR=str(temporary), BUSY=str(busy)) as process:
        wait_for("a worker", lambda: busy.exists() or None)
        process.send_signal(number)
        try:
            process.communicate(timeout=HANG_S)  # its workers have this pipe, too
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    if number is signal.SIGTERM:
        assert process.returncode == 130
        assert not [*temporary.iterdir()]
