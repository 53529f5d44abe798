"""Invalid files: every command refuses them with one line, and no error looks like a verdict."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kafka_assignors_cli import files, main
from tests.test_cli import GROUP, assert_one_error

DEEP, DIGITS = 50_000, 5_000
HOSTILE_TEXTS: dict[str, bytes] = {
    "nothing": b"",
    "zero bytes": bytes(100),
    "not UTF-8": b"\xff\xfe\x00x",
    "arrays in JSON": b"[" * DEEP + b"]" * DEEP,
    "objects in JSON": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "digits in JSON": b'{"rule": ' + b"9" * DIGITS + b"}",
    "digits in properties": b"client = java\nsession.timeout.ms = " + b"9" * DIGITS,
    "a version in properties": b"client = java\nclient_version = " + b"9" * DIGITS,
    "a key twice in JSON": b'{"rule": 1, "rule": 1}',
    "arrays in TOML": b"x = " + b"[" * DEEP + b"]" * DEEP,
    "tables in TOML": b"x = " + b"{a = " * DEEP + b"1" + b"}" * DEEP,
    "dots in TOML": b"rule" + b".a" * 3000 + b" = 1",
    "a hexadecimal number in TOML": b"rule = 0x" + b"f" * DIGITS,
    "a long line": b"x" * 1_000_000,
    "an escape": b"x = \x1b[2J",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one valid file of each kind; the commands reach neither a cluster nor Spark."""
    for module in ("pyspark", "confluent_kafka"):
        monkeypatch.setitem(sys.modules, module, None)
    for module in [*sys.modules]:
        if module.startswith(("kafka_assignors_replay", "kafka_assignors_con")):
            monkeypatch.delitem(sys.modules, module)  # The module may hold imports of an earlier test.
    (tmp_path / "group.json").write_text(GROUP)
    monkeypatch.chdir(tmp_path)
    return tmp_path


CLUSTER = ("--bootstrap-server", "127.0.0.1:1", "--timeout", "0.1")
COMMANDS = {
    "assign a group": ("assign", "x"),
    "assign by a strategy": ("assign", "group.json", "--strategy", "x.py:Mine"),
    "lint properties": ("lint", "x.properties"),
    "lint TOML": ("lint", "x.toml"),
    "lint JSON": ("lint", "x.json", "--before", "x.json"),
    "lint a strategy": ("lint", "--change-to", "x.py:Mine", "x.properties"),
    "lint a cluster": ("lint", "--group", "g", "--command-config", "x", *CLUSTER),
    "groups": ("groups", "--command-config", "x", *CLUSTER),
    "groups describe": ("groups", "describe", "g", "--command-config", "x", *CLUSTER),
    "groups describe by a strategy": ("groups", "describe", "g", "--strategy", "x.py:Mine", *CLUSTER),
    "archive": ("archive", "--to", "archive", "--command-config", "x", *CLUSTER),
    "replay": ("replay", "--command-config", "x", *CLUSTER),
    "replay by a strategy": ("replay", "history", "--strategy", "x.py:Mine"),
    "validate by a policy": ("validate", "history", "--policy", "x.toml"),
}


def names(command: tuple[str, ...]) -> set[str]:
    """The hostile files that a command reads."""
    return {word for word in command if word.partition(".")[0] == "x"}


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> int:
    """Run the command and return its exit code. Assert that no error looks like a verdict."""
    code = main(arguments)
    said = capsys.readouterr()
    assert code in (0, 1, 2), said.err
    if code == 2 and not said.out:
        assert_one_error(said.err)
    if code == 1:
        assert said.out, "a verdict is always on stdout"
    return code


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_file_that_is_nothing_of_the_kind_is_refused(
    command: tuple[str, ...], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for content in HOSTILE_TEXTS.values():
        for name in names(command):
            (folder / name).write_bytes(content)
        code = run(capsys, *command)
        # A consumer's properties may be empty, and may contain unknown settings.
        assert code == 2 or command[0] == "lint", content[:100]


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs /dev/zero")
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_file_that_never_ends_is_refused(
    command: tuple[str, ...], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in names(command):
        (folder / name).symlink_to("/dev/zero")
    assert run(capsys, *command) == 2


def test_lines_that_never_end_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOST_OBJECT_BYTES", 1000)
    group = b'{"topics": {}, "members": []}\n'
    for content in (b"[" * 1001, b"[\n" * 501, group + b"[" * 1001):
        (folder / "x").write_bytes(content)
        assert main(["assign", "x"]) == 2
        assert "larger than" in capsys.readouterr().err
