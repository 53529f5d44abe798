"""The commands in the pages: each exists, with the options that the page shows; so does each module."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from kafka_assignors_cli.app import command_line
from tests.test_project_files import PAGES, ROOT

_CONSOLE = re.compile(r"^ *```console\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
_NAME = "kafka-assignors"


def commands(text: str) -> Iterator[list[str]]:
    """The words after `kafka-assignors` in each call in a page's console blocks."""
    for block in _CONSOLE.findall(text):
        typed = re.sub(r"\\\n", " ", block)
        for line in re.findall(r"^ *\$ (.*)$", typed, re.MULTILINE):
            # An ellipsis stands for the reader's own arguments.
            words = shlex.split(line.replace("…", " "), comments=True)
            for index, word in enumerate(words):
                if Path(word).name == _NAME:
                    rest = words[index + 1 :]
                    ends = (place for place, part in enumerate(rest) if part in ("|", "&&", ">", ";"))
                    yield rest[: next(ends, len(rest))]


def refused(words: list[str]) -> str | None:
    """The part of a call that does not exist; None if the call is valid."""
    command: Any = typer.main.get_command(command_line())
    known = {"--help", "--install-completion", "--show-completion"}
    for word in words:
        known |= {name for parameter in command.params for name in parameter.opts + parameter.secondary_opts}
        children = getattr(command, "commands", {})
        if word.startswith("-") and word != "-":
            name = word.partition("=")[0]
            if name not in known:
                return name
        elif word in children:
            command = children[word]
        elif children and not getattr(command, "invoke_without_command", False):
            return word
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_commands_of_a_page_exist_with_their_options(page: Path) -> None:
    wrong = {
        " ".join(words): found for words in commands(page.read_text("utf-8")) if (found := refused(words))
    }
    assert wrong == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_modules_that_a_page_runs_exist(page: Path) -> None:
    """A figure names the command that measures it: the command must be there."""
    named = re.findall(r"\bpython -m ([\w.]+)", page.read_text("utf-8"))
    paths = {name: ROOT.joinpath(*name.split(".")) for name in named if (ROOT / name.split(".")[0]).is_dir()}
    there = (f"{path}.py" for path in paths.values()), (path / "__main__.py" for path in paths.values())
    found = [Path(one).is_file() or other.is_file() for one, other in zip(*there, strict=True)]
    assert all(found), paths


def test_a_command_or_an_option_that_does_not_exist_is_found() -> None:
    assert refused(["groups", "describe", "billing", "--json", "-"]) is None
    assert refused(["groups", "describe", "billing", "--jsn", "-"]) == "--jsn"
    assert refused(["grups"]) == "grups"
    text = "```console\n$ kafka-assignors lint --group g \\\n      --from a | tee x    # why\n```\n"
    assert list(commands(text)) == [["lint", "--group", "g", "--from", "a"]]
