"""The command line as a process: its output on stdout and stderr, and its exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import kafka_assignors
from kafka_assignors.arguments import UserError
from kafka_assignors_cli import list_strategies, main
from kafka_assignors_replay.command_options import require_replay_extra

COMMAND = [sys.executable, "-m", "kafka_assignors_cli"]
GROUP = '{"topics": {"orders": {"partitions": 3}}, "members": [{"id": "m1", "topics": ["orders"]}]}\n'
BROKEN = """
import sys
from kafka_assignors.strategies import RoundRobin

class Ends(RoundRobin):
    def assign(self, group):
        sys.exit(1)
"""
SLOW = """
import time
from kafka_assignors.strategies import RoundRobin

class Slow(RoundRobin):
    def assign(self, group):
        time.sleep(2.5)
        return RoundRobin.assign(self, group)
"""


def run(
    *arguments: str, stdin: str = "", cwd: Path | None = None, path: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command and wait for it; `path` is added to the Python path."""
    environment = dict(os.environ)
    if path is not None:
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(path), environment.get("PYTHONPATH"))))
    return subprocess.run(
        [*COMMAND, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
        cwd=cwd,
        env=environment,
    )


def run_without(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command without `module` installed."""
    program = (
        "import sys, types; sys.modules['confluent_kafka'] = types.ModuleType('confluent_kafka'); "
        f"sys.modules[{module!r}] = None; "
        f"from kafka_assignors_cli import main; sys.exit(main({list(arguments)!r}))"
    )
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )


def without_progress(stderr: str) -> str:
    """The lines but those of progress, which a slow machine adds to what a quick one writes."""
    lines = stderr.splitlines(keepends=True)
    return "".join(line for line in lines if not line.endswith(" …\n") or ": error: " in line)


def assert_refused(done: subprocess.CompletedProcess[str], *parts: str) -> None:
    """Assert exit code 2, an empty stdout, and one line on stderr that contains all `parts`."""
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("kafka-assignors: error: ")
    for part in parts:
        assert part in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, which Linux has")
@pytest.mark.parametrize("arguments", [("assign", "1.jsonl"), ("assign", "1000.jsonl"), ("groups", "--help")])
def test_a_full_disk_is_one_line_and_no_verdict(arguments: tuple[str, ...], tmp_path: Path) -> None:
    for groups in (1, 1000):
        (tmp_path / f"{groups}.jsonl").write_text(GROUP * groups)
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
            cwd=tmp_path,
        )
    assert done.returncode == 2
    full_disk = "kafka-assignors: error: cannot write to stdout: No space left on device\n"
    assert without_progress(done.stderr) == full_disk


def test_version_is_that_of_the_package() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"kafka-assignors {kafka_assignors.__version__}\n")


def test_starting_up_loads_nothing_heavy() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "kafka_assignors_cli", "--version"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "typer" in imported
    heavy = {
        "kafka_assignors_replay",
        "pyspark",
        "pyarrow",
        "jinja2",
        "confluent_kafka",
        "aiokafka",
        "kafka",
        "numpy",
    }
    assert not imported & heavy


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
        assert "--traceback or KAFKA_ASSIGNORS_TRACEBACK=1" in " ".join(out.split())


CLUSTER = ("--bootstrap-server", "b:1")


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ([], ["missing command", "kafka-assignors --help"]),
        (["asign"], ["asign", "kafka-assignors --help"]),
        (["assign"], ["missing argument", "kafka-assignors assign --help"]),
        (["assign", "--strateg"], ["--strateg"]),
        (["assign", "-", "--protocol", "lazy"], ["'--protocol': 'lazy' is not one of", "'eager'"]),
        (["assign", "--traceback", "-"], ["kafka-assignors --traceback …"]),
        (["assign", "-", "--strategy", "mine.py"], ["as mine.py:MyStrategy"]),
        (["replay", "history", "--engine", "fast"], ["'--engine': 'fast' is not one of 'spark', 'local'"]),
        (["archive", "--bootstrap-server", "b:9092"], ["missing option '--to'", "archive --help"]),
        (["archive", "--to", "x"], ["give --bootstrap-server HOST:PORT"]),
        (["archive", "--to", "x", *CLUSTER, "--max-offsets", "0"], ["'--max-offsets'"]),
        (["replay", "history", "--spark-config", "/nowhere/x"], ["/nowhere/x: there is no such file"]),
        (["replay"], ["either a history or --bootstrap-server"]),
        (["replay", "history", *CLUSTER], ["either a history or --bootstrap-server"]),
        (["replay", "history", "--timeout", "soon"], ["'--timeout'", "kafka-assignors replay --help"]),
        (["replay", "history", "--strategy", "range,rnge"], ["'rnge'", "did you mean 'range'"]),
        (["replay", *CLUSTER, "--command-config", "/nowhere/x"], ["/nowhere/x: No such file"]),
        (["replay", "history", "--report", "/dev/null/report.html"], ["cannot write /dev/null/report.html"]),
        (["replay", "history", "--json", "/"], ["cannot write /", "directory"]),
        (["groups"], ["give --bootstrap-server"]),
        (["groups", "billing"], ["to look at a group: kafka-assignors groups describe GROUP"]),
        (["groups", *CLUSTER, "--command-config", "/nowhere/x"], ["/nowhere/x: No such file"]),
        (
            ["groups", "--json", "-", "describe", "g"],
            ["--json: no effect before the command", "belongs after"],
        ),
        (["groups", "describe"], ["missing argument"]),
        (["groups", "describe", "g"], ["give --bootstrap-server"]),
        (["groups", "describe", "g", "--strategy", "rnge", *CLUSTER], ["did you mean 'range'"]),
        (["describe", "billing"], ["kafka-assignors groups describe GROUP"]),
        (["watch"], ["give --bootstrap-server HOST:PORT, or bootstrap.servers in the file of"]),
        (["watch", *CLUSTER, "--state", "/dev/null/x"], ["cannot write /dev/null/x"]),
        (["watch", *CLUSTER, "--max-groups", "0"], ["--max-groups"]),
    ],
)
def test_wrong_arguments_end_in_one_line(
    arguments: list[str], parts: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("kafka-assignors: error: ")
    assert captured.err.count("\n") == 1
    for part in parts:
        assert part in captured.err


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("security.protocol\n", ":1: expected name=value"),
        (
            "# comment\n\nsasl.jaas.config=x required password=secret;\n",
            ":3: sasl.jaas.config is of Java clients",
        ),
        ("client.id=a\nclient.id=secret\n", ":2: client.id appears twice"),
    ],
)
def test_a_wrong_properties_file_is_named_by_line_and_not_quoted(
    tmp_path: Path, text: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(text)
    assert main(["replay", *CLUSTER, "--command-config", str(file)]) == 2
    error = capsys.readouterr().err
    assert f"{file}{problem}" in error
    assert "secret" not in error


def test_commands_of_other_packages_are_found_and_a_broken_one_is_left_out(tmp_path: Path) -> None:
    info = tmp_path / "other-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: other\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[kafka_assignors.commands]\nhello = other_hello:add_to\nbroken = other_package:add_to\n"
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


@pytest.mark.parametrize(
    ("variable", "options", "shown"),
    [("", [], False), ("1", [], True), ("", ["--traceback"], True), ("1", ["--traceback"], True)],
)
def test_a_defect_is_one_line_with_an_exit_code_of_its_own(
    variable: str,
    options: list[str],
    shown: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail() -> list[str]:
        raise KeyError("a defect\nin two lines")

    monkeypatch.setattr(list_strategies, "strategy_names", fail)
    monkeypatch.setenv("KAFKA_ASSIGNORS_TRACEBACK", variable)
    assert main([*options, "strategies"]) == 70
    *before, last = capsys.readouterr().err.splitlines()
    assert last.startswith("kafka-assignors: internal error: KeyError: 'a defect\\nin two lines'")
    if shown:
        assert before[0] == "Traceback (most recent call last):"
    else:
        assert before == []
        assert last.endswith(
            " (kafka-assignors --traceback or KAFKA_ASSIGNORS_TRACEBACK=1 shows the traceback)"
        )


@pytest.mark.parametrize(
    ("package", "spark", "extra"),
    [
        ("jinja2", False, "replay"),
        ("pyspark", False, "spark"),
        ("jinja2", True, "spark"),
        ("confluent_kafka", True, "spark"),
    ],
)
def test_the_extra_that_is_named_has_all_that_the_command_needs(
    package: str, spark: bool, extra: str
) -> None:
    remedy = rf'replay needs {package}: pip install "kafka-assignors\[cli,{extra}\]"'
    with pytest.raises(UserError, match=remedy), require_replay_extra("replay", spark=spark):
        raise ModuleNotFoundError(name=package)


def test_the_traceback_of_one_run_is_not_that_of_the_next(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> list[str]:
        raise KeyError("a defect")

    monkeypatch.setattr(list_strategies, "strategy_names", fail)
    monkeypatch.delenv("KAFKA_ASSIGNORS_TRACEBACK", raising=False)
    assert main(["--traceback", "strategies"]) == main(["strategies"]) == 70
    assert capsys.readouterr().err.count("Traceback (most recent call last):") == 1


def test_a_strategy_that_ends_the_process_is_no_verdict(tmp_path: Path) -> None:
    (tmp_path / "ends.py").write_text(BROKEN)
    done = run("assign", "-", "--strategy", "ends:Ends", stdin=GROUP, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (70, "")
    assert done.stderr.startswith(
        "kafka-assignors: internal error: SystemExit: 1 (kafka-assignors --traceback "
    )


def test_a_closed_stdin_is_refused() -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *COMMAND, "assign", "-"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert_refused(done, "stdin is closed")


def run_package(*arguments: str, without: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run `python -m kafka_assignors`, without the module `without`."""
    code = (
        f"import runpy, sys; sys.argv[1:] = {list(arguments)!r}; "
        f"{f'sys.modules[{without!r}] = None; ' if without else ''}"
        "runpy.run_module('kafka_assignors', run_name='__main__', alter_sys=True)"
    )
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )


def test_the_package_runs_the_command_line() -> None:
    done = run_package("--version")
    assert (done.returncode, done.stdout) == (0, f"kafka-assignors {kafka_assignors.__version__}\n")
    assert_refused(run_package("asign"), "asign", "kafka-assignors --help")


def test_the_package_without_the_cli_extra_says_what_to_install() -> None:
    done = run_package("strategies", without="typer")
    assert_refused(done, "typer", 'pip install "kafka-assignors[cli]"')


@pytest.mark.parametrize(
    ("module", "extras", "command"),
    [
        ("typer", "cli", ("strategies",)),
        ("rich", "cli", ("strategies",)),
        ("pyarrow", "cli,replay", ("replay", "history")),
        ("confluent_kafka", "cli,replay", ("archive", "--to", "x", *CLUSTER)),
        ("confluent_kafka", "cli,admin", ("groups", *CLUSTER)),
        ("confluent_kafka", "cli,watch", ("watch", *CLUSTER)),
        ("prometheus_client", "cli,watch", ("watch", *CLUSTER, "--prometheus", ":0")),
    ],
)
def test_without_an_extra_the_command_says_what_to_install(
    module: str, extras: str, command: tuple[str, ...]
) -> None:
    assert_refused(run_without(module, *command), f'pip install "kafka-assignors[{extras}]"')


def test_strategies_are_listed_with_their_protocols(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["strategies"]) == 0
    rows = {row["name"]: row for row in map(json.loads, capsys.readouterr().out.splitlines())}
    ours = {"range", "roundrobin", "sticky", "cooperative-sticky", "rack-aware-sticky", "capacity"}
    assert ours <= rows.keys()
    assert rows["range"]["protocols"] == ["eager"]
    assert rows["cooperative-sticky"]["protocols"] == ["cooperative", "eager"]
    assert all(row["summary"] for row in rows.values())


def test_a_registered_strategy_that_does_not_load_is_named_beside_the_others(tmp_path: Path) -> None:
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[kafka_assignors.strategies]\nbroken = no_such_module:X\n")
    done = run("strategies", path=tmp_path)
    assert '"name": "range"' in done.stdout
    assert "strategy 'broken': there is no module 'no_such_module'" in done.stderr


def test_a_reader_that_stops_reading_ends_it_quietly() -> None:
    with subprocess.Popen(
        [*COMMAND, "assign", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stdin.write(GROUP.encode() * 500)
        process.stdin.close()
        assert process.wait(120) == 141
        assert without_progress(process.stderr.read().decode()) == ""


def test_help_into_a_closed_pipe_ends_like_any_output() -> None:
    reader, stdout = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [*COMMAND, "groups", "--help"], stdout=stdout, stderr=subprocess.PIPE, timeout=120, check=False
        )
    finally:
        os.close(stdout)
    assert (done.returncode, done.stderr) == (141, b"")


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


def test_progress_on_a_terminal_leaves_stdout_to_the_data(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    terminal, stderr = os.openpty()
    with subprocess.Popen(
        [*COMMAND, "assign", "-", "--strategy", "slow:Slow"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        cwd=tmp_path,
    ) as process:
        os.close(stderr)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(GROUP * 2)
        process.stdin.close()
        shown = read_all(terminal)
        out = process.stdout.read()
        assert process.wait(120) == 0
    assert [set(json.loads(line)) for line in out.splitlines()] == [{"assignment", "quality"}] * 2
    assert b"assigning" in shown


def test_progress_without_a_terminal_is_plain_lines(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    done = run("assign", "-", "--strategy", "slow:Slow", stdin=GROUP, cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.count("\n") == 1
    assert done.stderr.splitlines()[0] == "kafka-assignors: assigning: groups done …"
    assert "\x1b" not in done.stderr


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
