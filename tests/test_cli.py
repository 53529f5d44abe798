"""The command line as a process: its output on stdout and stderr, and its exit code."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer

import kafka_assignors
from kafka_assignors_cli import main, options
from kafka_assignors_cli.app import command_line

COMMAND = [sys.executable, "-m", "kafka_assignors_cli"]
GROUP = '{"topics": {"orders": {"partitions": 3}}, "members": [{"id": "m1", "topics": ["orders"]}]}\n'
BROKEN = """
import sys
from kafka_assignors.strategies import RoundRobin

class Ends(RoundRobin):
    def assign(self, group):
        sys.exit(1)
"""


def run(
    *arguments: str,
    command: Sequence[str] = COMMAND,
    stdin: str = "",
    stdout: Any = subprocess.PIPE,
    cwd: Path | None = None,
    path: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run the command and wait for it; `path` is added to the Python path."""
    paths = filter(None, (path and str(path), os.environ.get("PYTHONPATH")))
    return subprocess.run(
        [*command, *arguments],
        input=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        timeout=120,
        check=False,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )


def without(module: str | None, package: str = "kafka_assignors_cli") -> list[str]:
    """The command in a Python without `module`, whose confluent_kafka is another package of that name."""
    program = (
        "import runpy, sys, types; sys.modules['confluent_kafka'] = types.ModuleType('confluent_kafka'); "
        f"sys.modules.update({{{module!r}: None}}); "
        f"runpy.run_module({package!r}, run_name='__main__', alter_sys=True)"
    )
    return [sys.executable, "-c", program]


def without_progress(stderr: str) -> str:
    """The lines but those of progress, which a slow machine adds to what a quick one writes."""
    lines = stderr.splitlines(keepends=True)
    return "".join(line for line in lines if not line.endswith(" …\n") or ": error: " in line)


def assert_one_error(stderr: str, *parts: str) -> None:
    """Assert that an error of one line is all but progress, and that it contains all `parts`."""
    error = without_progress(stderr)
    assert error.startswith("kafka-assignors: error: ")
    assert error.count("\n") == 1
    for part in parts:
        assert part in error


def assert_refused(done: subprocess.CompletedProcess[str], *parts: str) -> None:
    """Assert exit code 2, an empty stdout, and one line on stderr that contains all `parts`."""
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert_one_error(done.stderr, *parts)


def run_here(*arguments: object) -> tuple[int, str, str]:
    """The exit code, stdout and stderr of a command in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([*map(str, arguments)])
    return code, out.getvalue(), err.getvalue()


def refusal(*arguments: object) -> str:
    """The error with which a command refuses its arguments: one line beside progress, nothing on stdout."""
    code, out, err = run_here(*arguments)
    assert (code, out) == (2, ""), err
    assert_one_error(err)
    return without_progress(err)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, which Linux has")
@pytest.mark.parametrize("arguments", [("assign", "1000.jsonl"), ("groups", "--help")])
def test_a_full_disk_is_one_line_and_no_verdict(arguments: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "1000.jsonl").write_text(GROUP * 1000)
    with open("/dev/full", "w") as full:
        done = run(*arguments, stdout=full, cwd=tmp_path)
    assert done.returncode == 2
    assert_one_error(done.stderr, "kafka-assignors: error: cannot write to stdout: No space left on device\n")


def test_a_closed_stream_is_an_error_of_data_and_takes_no_notes() -> None:
    done = run("strategies", command=["sh", "-c", 'exec "$@" >&-', "sh", *COMMAND])
    assert_refused(done, "cannot write to stdout: ")
    noted = '{"topics": {}, "members": []}'
    done = run("assign", "-", stdin=noted, command=["sh", "-c", 'exec "$@" 2>&-', "sh", *COMMAND])
    assert done.returncode == 0
    assert done.stdout.startswith('{"assignment": {}')
    assert done.stdout.count("\n") == 1


@pytest.mark.parametrize("command", [COMMAND, [sys.executable, "-m", "kafka_assignors"]])
def test_both_packages_run_the_command_line(command: Sequence[str]) -> None:
    done = run("--version", command=command)
    assert (done.returncode, done.stdout) == (0, f"kafka-assignors {kafka_assignors.__version__}\n")
    assert_refused(run("asign", command=command), "asign", "kafka-assignors --help")


def test_starting_up_loads_nothing_heavy() -> None:
    done = run("--version", command=[sys.executable, "-X", "importtime", "-m", "kafka_assignors_cli"])
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "typer" in imported
    clients = {"confluent_kafka", "aiokafka", "kafka"}
    assert not imported & (clients | {"kafka_assignors_replay", "pyspark", "pyarrow", "jinja2", "numpy"})


@pytest.mark.parametrize(
    "command", ["", "archive", "assign", "groups", "groups describe", "replay", "strategies"]
)
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command.split(), "--help"]) == 0
    out = capsys.readouterr().out
    assert "Usage: kafka-assignors" in out
    if command not in ("", "strategies"):
        assert f"kafka-assignors {command}" in out.partition("Examples")[2]
    if not command:
        assert "Exit codes" in out
        assert "KAFKA_ASSIGNORS_TRACEBACK=1" in out


CLUSTER = ("--bootstrap-server", "b:1")


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ([], ["missing command", "kafka-assignors --help"]),
        (["asign"], ["asign", "kafka-assignors --help"]),
        (["assign"], ["missing argument", "kafka-assignors assign --help"]),
        (["assign", "-", "--protocol", "lazy"], ["'--protocol': 'lazy' is not one of", "'eager'"]),
        (["assign", "--traceback", "-"], ["kafka-assignors --traceback …"]),
        (["assign", "-", "--strategy", "mine.py"], ["as mine.py:MyStrategy"]),
        (["replay", "history", "--engine", "fast"], ["'--engine': 'fast' is not one of 'spark', 'local'"]),
        (["archive", "--bootstrap-server", "b:9092"], ["missing option '--to'", "archive --help"]),
        (["archive", "--to", "x", *CLUSTER, "--max-offsets", "0"], ["'--max-offsets'"]),
        (["replay", "history", "--spark-config", "/nowhere/x"], ["/nowhere/x: there is no such file"]),
        (["replay"], ["either a history or --bootstrap-server"]),
        (["replay", ""], ["HISTORY is empty"]),
        (["replay", "--bootstrap-server", ""], ["--bootstrap-server is empty"]),
        (["replay", "history", "--strategy-timeout", "inf"], ["'--strategy-timeout'", "1000000000"]),
        (["groups", *CLUSTER, "--timeout", "inf"], ["'--timeout'", "3600"]),
        (["replay", *CLUSTER, "--command-config", "/nowhere/x"], ["/nowhere/x: No such file"]),
        (["replay", "history", "--report", "/dev/null/report.html"], ["cannot write /dev/null/report.html"]),
        (["replay", "history", "--json", "/"], ["cannot write /", "directory"]),
        (["groups", "billing"], ["to look at a group: kafka-assignors groups describe GROUP"]),
        (
            ["groups", "--json", "-", "describe", "g"],
            ["--json: no effect before the command", "belongs after"],
        ),
        (["archive", "--to", "x", *CLUSTER, "--once", "--interval", "1"], ["--interval: no effect "]),
        (["replay", "history", "--timeout", "1"], ["--timeout: no effect "]),
        (["replay", "h", "--engine", "local", "--spark-config", "x"], ["--spark-config: no effect "]),
        (["replay", *CLUSTER, "--spark-config", "x"], ["without --engine spark"]),
        (["watch", *CLUSTER, "--once", "--prometheus", ":0"], ["--prometheus: no effect "]),
        (["groups", "describe", "g", "--strategy", "rnge", *CLUSTER], ["did you mean 'range'"]),
        (["describe", "billing"], ["kafka-assignors groups describe GROUP"]),
        (["watch"], ["give --bootstrap-server HOST:PORT, or bootstrap.servers in the file of"]),
        (["watch", *CLUSTER, "--state", "/dev/null/x"], ["cannot write /dev/null/x"]),
    ],
)
def test_wrong_arguments_end_in_one_line(arguments: list[str], parts: list[str]) -> None:
    error = refusal(*arguments)
    for part in parts:
        assert part in error


def installed(folder: Path, entry_points: str) -> Path:
    """The folder, with a distribution that has these entry points."""
    info = folder / "other-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points)
    return folder


def test_commands_of_other_packages_are_found_and_a_broken_one_is_left_out(tmp_path: Path) -> None:
    installed(
        tmp_path, "[kafka_assignors.commands]\nhello = other_hello:add_to\nbroken = other_package:add_to\n"
    )
    (tmp_path / "other_hello.py").write_text(
        "def hello():\n    print('hello')\n\n\ndef add_to(app):\n    app.command()(hello)\n"
    )
    assert run("hello", path=tmp_path).stdout == "hello\n"
    done = run("--help", path=tmp_path)
    assert done.returncode == 0
    assert "hello" in done.stdout
    assert "assign" in done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith("kafka-assignors: command broken is left out: other_package:add_to does not load")


def test_a_defect_is_one_line_with_an_exit_code_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> list[str]:
        raise KeyError("a defect\nin two lines")

    monkeypatch.setattr(options, "strategy_names", fail)
    # The option of one run does not show the traceback of the next.
    for variable, given in (("1", []), ("", ["--traceback"]), ("", [])):
        monkeypatch.setenv("KAFKA_ASSIGNORS_TRACEBACK", variable)
        assert main([*given, "strategies"]) == 70
        *before, last = capsys.readouterr().err.splitlines()
        assert last.startswith("kafka-assignors: internal error: KeyError: 'a defect\\nin two lines'")
        assert before[:1] == (["Traceback (most recent call last):"] if variable or given else [])
        assert variable or given or "kafka-assignors --traceback or KAFKA_ASSIGNORS_TRACEBACK=1" in last


@pytest.mark.parametrize(
    ("package", "engine", "extra"),
    [
        ("jinja2", (), "replay"),
        ("pyspark", (), "spark"),
        ("jinja2", ("--engine", "spark"), "spark"),
        ("confluent_kafka", ("--engine", "spark"), "spark"),
    ],
)
def test_the_extra_that_is_named_has_all_that_the_command_needs(
    package: str, engine: Sequence[str], extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Lacking(ModuleType):
        def __getattr__(self, name: str) -> Any:
            raise ModuleNotFoundError(name=package)

    monkeypatch.setitem(sys.modules, "kafka_assignors_replay.engine", Lacking("engine"))
    remedy = f'replay needs {package}: pip install "kafka-assignors[cli,{extra}]"'
    assert remedy in refusal("replay", tmp_path, "--strategy", "range", *engine)


def test_a_strategy_that_ends_the_process_is_no_verdict(tmp_path: Path) -> None:
    (tmp_path / "ends.py").write_text(BROKEN)
    done = run("assign", "-", "--strategy", "ends:Ends", stdin=GROUP, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (70, "")
    assert without_progress(done.stderr).startswith("kafka-assignors: internal error: SystemExit: 1")


def test_a_closed_stdin_is_refused() -> None:
    done = run("assign", "-", command=["sh", "-c", 'exec "$@" <&-', "sh", *COMMAND])
    assert_refused(done, "stdin is closed")


@pytest.mark.parametrize(
    ("module", "extras", "command"),
    [
        ("typer", "cli", ("strategies",)),
        ("pyarrow", "cli,replay", ("replay", "history")),
        ("confluent_kafka", "cli,replay", ("archive", "--to", "x", *CLUSTER)),
        ("confluent_kafka", "cli,admin", ("groups", *CLUSTER)),
        ("prometheus_client", "cli,watch", ("watch", *CLUSTER, "--prometheus", ":0")),
    ],
)
def test_without_an_extra_the_command_says_what_to_install(
    module: str, extras: str, command: tuple[str, ...]
) -> None:
    remedy = f'pip install "kafka-assignors[{extras}]"'
    assert_refused(run(*command, command=without(module)), remedy)
    if module == "typer":
        assert_refused(run(*command, command=without(module, "kafka_assignors")), module, remedy)


def test_a_registered_strategy_that_does_not_load_is_named_beside_the_others(tmp_path: Path) -> None:
    installed(tmp_path, "[kafka_assignors.strategies]\nbroken = no_such_module:X\n")
    done = run("strategies", path=tmp_path)
    assert '"name": "range"' in done.stdout
    assert "strategy 'broken': there is no module 'no_such_module'" in done.stderr


@pytest.mark.parametrize("arguments", [("assign", "-"), ("groups", "--help")])
def test_a_reader_that_stops_reading_ends_it_quietly(arguments: tuple[str, ...]) -> None:
    reader, stdout = os.pipe()
    os.close(reader)
    try:
        done = run(*arguments, stdin=GROUP * 500, stdout=stdout)
    finally:
        os.close(stdout)
    assert (done.returncode, without_progress(done.stderr)) == (141, "")


def read_all(terminal: int) -> bytes:
    """Read a pseudo-terminal until its other end is closed, which Linux reports as an error."""
    chunks = []
    try:
        while chunk := os.read(terminal, 100_000):
            chunks.append(chunk)
    except OSError:
        pass
    finally:
        os.close(terminal)
    return b"".join(chunks)


def test_an_interrupt_ends_it_with_a_line() -> None:
    with subprocess.Popen(
        [*COMMAND, "assign", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # Its first answer comes at once: the buffer of stdout has 8 KiB, from Python 3.14 on 128.
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        # A background job of a shell ignores the signal, and so do the processes that it starts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(GROUP.encode())
        process.stdin.flush()
        process.stdout.read(1)  # The process works, and waits for more input.
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 130
        assert without_progress(process.stderr.read().decode()) == "kafka-assignors: interrupted\n"


def durations() -> list[tuple[str, ...]]:
    """The command and the name of every option that takes seconds."""
    group: Any = typer.main.get_command(command_line())
    todo, found = [((), group)], []
    while todo:
        path, command = todo.pop()
        todo += [((*path, name), each) for name, each in getattr(command, "commands", {}).items()]
        found += [(*path, each.opts[0]) for each in command.params if each.metavar == "SECONDS"]
    return found


@pytest.mark.parametrize("given", ["nan", "inf", "-inf", "1e999"])
def test_no_duration_is_endless_or_no_number(given: str) -> None:
    asked = durations()
    assert {("watch", "--interval"), ("archive", "--interval"), ("replay", "--strategy-timeout")} <= {*asked}
    for path in asked:
        assert f"'{path[-1]}'" in refusal(*path, given)
