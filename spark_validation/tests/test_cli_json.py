"""`--json FILE` works the same in every command; two commands print JSON by default into a pipe."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import typer

from compat_tests.support.hang_limit import HANG_S
from kafka_assignors_cli import main
from kafka_assignors_cli.app import command_line
from kafka_assignors_ops import groups_command
from kafka_assignors_replay import archive_command
from kafka_assignors_replay.archive.run import ArchiveResult
from spark_validation.tests.groups import Log, write_history
from spark_validation.tests.replaying import folding_here
from tests.test_cli import COMMAND, GROUP, read_all, refusal
from tests.test_cli_ci_formats import POLICY
from tests.test_cli_groups import LIVE

pytestmark = pytest.mark.exhaustive  # the same with every PySpark

CLUSTER = ("--bootstrap-server", "b:1")


def archived(_: object) -> ArchiveResult:
    return ArchiveResult("to", "id", "topic", 50, batches=1, lag_offsets=0)


@pytest.fixture
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory with an input for each command, and a cluster with one group at any address."""
    monkeypatch.setattr(groups_command, "_connection", lambda _: None)
    monkeypatch.setattr(groups_command, "list_groups", lambda _: (["g"], []))
    monkeypatch.setattr(groups_command, "read_groups", lambda *_, **options: [LIVE])
    monkeypatch.setattr(groups_command, "unreadable", lambda *_: None)
    monkeypatch.setattr(archive_command, "_run", archived)
    monkeypatch.chdir(tmp_path)
    Path("group.json").write_text(GROUP)
    Path("consumer.toml").write_text('client = "aiokafka"\npartition_assignment_strategy = ["range"]\n')
    Path("policy.toml").write_text(POLICY)
    write_history(tmp_path / "history", Log().three_generations("payments"), {"orders": 4})
    with folding_here():
        yield tmp_path


ARGUMENTS: dict[str, Sequence[str]] = {
    "archive": ("--to", "to", "--once", *CLUSTER),
    "assign": ("group.json",),
    "groups": CLUSTER,
    "groups describe": ("g", *CLUSTER),
    "lint": ("consumer.toml",),
    "replay": ("history", "--engine", "local", "--strategy", "range"),
    "strategies": (),
    "validate": ("history", "--engine", "local", "--policy", "policy.toml"),
}

FOLLOWS = "watch"
"""This command reads a topic, not a cluster of these tests; tests/test_cli_watch.py covers it."""


def values(text: str) -> list[Any]:
    """The JSON document in the text, or one document per line, without the duration of the command."""
    try:
        found = [json.loads(text)]
    except ValueError:
        found = [json.loads(line) for line in text.splitlines()]
    return [{key: value for key, value in each.items() if key != "seconds"} for each in found]


def is_json(text: str) -> bool:
    try:
        return bool(values(text))
    except ValueError:
        return False


def commands(group: Any, prefix: str = "") -> Iterator[str]:
    """The full name of each command."""
    for name, command in group.commands.items():
        yield f"{prefix}{name}"
        if hasattr(command, "commands"):
            yield from commands(command, f"{prefix}{name} ")


def test_every_command_is_run_here() -> None:
    assert {*commands(typer.main.get_command(command_line()))} == {*ARGUMENTS, FOLLOWS}


@pytest.mark.parametrize("command", ARGUMENTS)
def test_json_is_written_to_the_file_beside_the_text_or_alone_to_stdout_or_refused(
    command: str, inputs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [*command.split(), *ARGUMENTS[command]]
    file = inputs / "new" / "out.json"
    code = main([*arguments, "--json", str(file)])
    shown = capsys.readouterr()
    assert code in (0, 1), shown.err
    assert shown.out
    assert not is_json(shown.out)
    assert f"wrote {file}" in shown.err
    assert main([*arguments, "--json", "-"]) == code
    alone = capsys.readouterr().out
    assert values(alone) == values(file.read_text(encoding="utf-8"))
    # A file that cannot be written is refused before the work.
    assert f"cannot write {inputs}: Is a directory" in refusal(*arguments, "--json", inputs)


@pytest.mark.parametrize(
    ("command", "option"),
    [("lint", "--junit"), ("replay", "--report"), ("validate", "--junit"), ("validate", "--report")],
)
def test_two_results_go_to_two_files(
    command: str, option: str, inputs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (inputs / "link").symlink_to("out")
    assert main([command, *ARGUMENTS[command], "--json", "out", option, "link"]) == 2
    assert capsys.readouterr().err.endswith("given for two results, and one would replace the other\n")
    assert main([command, *ARGUMENTS[command], "--json", "/dev/null", option, "/dev/null"]) in (0, 1)


def test_a_pipe_and_a_link_are_written_to_and_stay(inputs: Path) -> None:
    """So does a device, such as /dev/null, which root may replace."""
    link, elsewhere, pipe = inputs / "link", inputs / "elsewhere", inputs / "pipe"
    link.symlink_to(elsewhere)
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    for file in (link, pipe):
        assert main(["assign", "group.json", "--json", str(file)]) == 0
    assert is_json(os.read(reader, 1 << 16).decode())
    os.close(reader)
    assert link.is_symlink()
    assert is_json(elsewhere.read_text())
    assert not list(inputs.glob("*.part"))


TALKS = """
from kafka_assignors.strategies import Sticky

class Talks(Sticky):
    def __init__(self):
        print("made")
        super().__init__()

    def assign(self, group):
        print("assigns")
        return super().assign(group)

print("imported")
"""


@pytest.mark.parametrize(
    ("command", "strategy"),
    [
        ("assign", ("--strategy", "talks.py:Talks")),
        ("groups describe", ("--strategy", "talks.py:Talks")),
        ("lint", ("talks.toml",)),
        ("lint", ("--change-to", "talks.py:Talks")),
        ("replay", ("--strategy", "talks.py:Talks")),
        ("validate", ("--policy", "policy.toml")),
    ],
)
def test_what_a_strategy_prints_is_not_among_the_json(
    command: str, strategy: Sequence[str], inputs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("talks.py").write_text(TALKS)
    Path("talks.toml").write_text('client = "aiokafka"\npartition_assignment_strategy = ["talks.py:Talks"]\n')
    Path("policy.toml").write_text(POLICY.replace("cooperative-sticky", "talks.py:Talks"))
    assert main([*command.split(), *ARGUMENTS[command], *strategy, "--json", "-"]) in (0, 1, 2)
    shown = capsys.readouterr()
    assert "imported\nmade\n" in shown.err
    assert is_json(shown.out)


def test_an_error_leaves_the_file_as_it_was(inputs: Path) -> None:
    file = inputs / "out.jsonl"
    file.write_text("before")
    (inputs / "group.json").write_text(f"{GROUP}not JSON")
    assert main(["assign", "group.json", "--json", str(file)]) == 2
    assert file.read_text() == "before"
    assert not list(inputs.glob("*.part"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("assign", "group.json", "--settle"), "a second run from this result moves nothing"),
        (("strategies",), "cooperative-sticky"),
    ],
)
def test_a_terminal_shows_text_and_a_pipe_gets_json(
    arguments: Sequence[str], words: str, inputs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal, stdout = os.openpty()
    with subprocess.Popen(
        [*COMMAND, *arguments], stdout=stdout, stderr=subprocess.PIPE, env={**os.environ, "COLUMNS": "80"}
    ) as process:
        os.close(stdout)
        shown = read_all(terminal).decode()
        assert process.wait(HANG_S) == 0
    assert words in " ".join(shown.split())
    assert not is_json(shown)
    assert main(arguments) == 0
    piped = capsys.readouterr().out
    assert is_json(piped)
    assert main([*arguments, "--json", "-"]) == 0
    assert capsys.readouterr().out == piped


def test_bash_completes_strategies() -> None:
    words = "kafka-assignors replay history -s range,stic"
    completion = {"_KAFKA_ASSIGNORS_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": "4"}
    done = subprocess.run(
        COMMAND, env={**os.environ, **completion}, capture_output=True, text=True, timeout=HANG_S, check=False
    )
    assert (done.returncode, done.stderr, done.stdout.split()) == (0, "", ["range,sticky"])


def test_validate_writes_the_report_of_the_replay_that_it_judges(inputs: Path) -> None:
    html = inputs / "replay.html"
    assert main(["validate", *ARGUMENTS["validate"], "--report", str(html)]) in (0, 1)
    assert "<html" in html.read_text(encoding="utf-8")


def test_a_replay_is_of_the_mode_and_the_group_that_are_asked_for(
    inputs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["replay", "history", "--engine", "local", "-s", "sticky", "--mode", "one-step"]
    assert main([*asked, "-g", "payments"]) == 0
    out = capsys.readouterr().out
    assert "one-step" in out
    assert "steady-state" not in out
    assert main([*asked, "-g", "missing"]) == 2
    assert "there are no records of group 'missing'" in capsys.readouterr().err
