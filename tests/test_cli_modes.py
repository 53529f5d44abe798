"""An option without effect is refused: every option of every command, in every mode of the command."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import typer

from kafka_assignors_cli import main
from kafka_assignors_cli.app import command_line

EVERY = None
"""Stands for all parameters: each of them has an effect."""

CLUSTER = frozenset({"bootstrap_server", "command_config", "timeout"})
OUTPUT = frozenset({"json_file", "junit", "github"})
BROKER = ("--bootstrap-server", "127.0.0.1:1")
REPLAYED = frozenset({"group", "strict", "pause", "json_file", "engine", "strategy_timeout", "history"})
ON_DISK = frozenset({"skip_corrupt"})
"""The replay itself refuses these options for a running cluster, with an explanation."""
SPARK = frozenset({"master", "spark_config"})
WATCHED = CLUSTER | {"json_file", "matching", "max_groups", "state"}
LINTED = frozenset({"files", "before", "change_to", "ignore", "strict", *OUTPUT})


@dataclass(frozen=True)
class Mode:
    """A command with arguments, and the parameters that have an effect with them.

    The parameters `choosing` select another mode, in which other parameters have an effect.
    """

    command: str
    arguments: tuple[str, ...] = ()
    effect: frozenset[str] | None = EVERY
    choosing: frozenset[str] = field(default=frozenset())

    def __str__(self) -> str:
        return " ".join((self.command, *self.arguments))


MODES = (
    Mode("archive", (*BROKER, "--to", "a")),
    Mode("archive", (*BROKER, "--to", "a", "--once"), CLUSTER | {"to", "once", "max_offsets", "json_file"}),
    Mode("assign", ("group.json",)),
    Mode("groups", BROKER),
    Mode("groups describe", (*BROKER, "g")),
    Mode("lint", ("member.toml",), LINTED, frozenset({"bootstrap_server"})),
    Mode("lint", ("member.toml", *BROKER), LINTED | CLUSTER, frozenset({"group"})),
    Mode("lint", ("member.toml", *BROKER, "--group", "g")),
    Mode(
        "replay",
        ("h",),
        REPLAYED | ON_DISK | SPARK | {"strategy", "mode", "html", "tables", "fault"},
        frozenset({"bootstrap_server"}),
    ),
    Mode(
        "replay",
        ("h", "--engine", "local"),
        REPLAYED | ON_DISK | {"strategy", "mode", "html", "tables", "fault"},
        frozenset({"bootstrap_server"}),
    ),
    Mode("replay", BROKER),
    Mode("strategies"),
    Mode(
        "validate",
        ("h", "--policy", "p.toml"),
        REPLAYED | ON_DISK | SPARK | OUTPUT | {"policy", "html", "replay_json"},
        frozenset({"bootstrap_server"}),
    ),
    Mode(
        "validate",
        ("h", "--policy", "p.toml", "--engine", "local"),
        REPLAYED | ON_DISK | OUTPUT | {"policy", "html", "replay_json"},
        frozenset({"bootstrap_server"}),
    ),
    Mode("validate", (*BROKER, "--policy", "p.toml")),
    Mode("watch", BROKER),
    Mode("watch", (*BROKER, "--once"), WATCHED, frozenset({"once"})),
)

VALUES = {
    "--serve": ":0",
    "--engine": "local",
    "--timeout": "1",
    "--prometheus": ":0",
    "--criteria": "balance",
    "--strategy": "range",
    "--bootstrap-server": "127.0.0.1:1",
}
"""Values for the options that refuse "1"."""


def parameters(command: str) -> Iterator[Any]:
    """The parameters of a command, except those that show help or completions."""
    found: Any = typer.main.get_command(command_line())
    for name in command.split():
        found = found.commands[name]
    return (each for each in found.params if each.name not in ("help", "context"))


def without_effect() -> Iterator[Any]:
    for mode in MODES:
        if mode.effect is not None:
            for parameter in parameters(mode.command):
                if parameter.name not in mode.effect | mode.choosing:
                    yield pytest.param(mode, parameter, id=f"{mode}: {parameter.opts[0]}")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write valid files, so that no command fails for lack of one."""
    monkeypatch.chdir(tmp_path)
    group = {"topics": {"t": {"partitions": 1, "weights": [1]}}, "members": [{"id": "m", "topics": ["t"]}]}
    Path("group.json").write_text(json.dumps(group))
    Path("w.json").write_text('{"topics": {"t": [1]}}')
    Path("member.toml").write_text('client = "java"\n')
    Path("p.toml").write_text(
        '[[rule]]\nname = "r"\nmetric = "moved"\nstrategy = "range"\ngroups = ["*"]\nmax = 1\n'
    )


@pytest.mark.parametrize(("mode", "parameter"), [*without_effect()])
def test_an_option_without_effect_is_refused_in_one_line(
    mode: Mode, parameter: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    option = parameter.opts[0]
    if not option.startswith("-"):
        given, shown = ["group.json"], option.upper()
    else:
        given, shown = (
            [option] if getattr(parameter, "is_flag", False) else [option, VALUES.get(option, "1")],
            option,
        )
    assert main([*mode.command.split(), *mode.arguments, *given]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"kafka-assignors: error: {shown}: no effect ")
    assert captured.err.count("\n") == 1


def test_every_command_has_its_modes_in_the_table() -> None:
    found: Any = typer.main.get_command(command_line())
    names = {
        f"{name} {below}".rstrip()
        for name, command in found.commands.items()
        for below in ("", *getattr(command, "commands", ()))
    }
    assert {mode.command for mode in MODES} == names


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_the_table_names_parameters_of_the_command(mode: Mode) -> None:
    names = {each.name for each in parameters(mode.command)}
    assert (mode.effect or frozenset()) | mode.choosing <= names
