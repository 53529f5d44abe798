"""Verdicts as JUnit XML and as annotations of GitHub Actions, with hostile names."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest

from kafka_assignors_cli import main
from kafka_assignors_cli.output_files import CiCase, CiOutcome, github_annotation, junit_xml
from kafka_assignors_replay import replay_command
from spark_validation.tests.report_sample import sample
from tests.hostile_names import NAMES

POLICY = """
[[rule]]
name = "moves little"
metric = "moved"
strategy = "cooperative-sticky"
groups = ["payments"]
max = 0.5
relative_to = "least"
"""

STEERING = [
    *NAMES.values(),
    "::error::evil",
    "  ::add-mask::payments",
    "##[error]evil",
    "100%25,title=evil::warning::x",
    "a\r\n::set-output name=x::y",
    "\ud800half",
    "\ufffe\uffff",
]


@pytest.fixture
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("a.properties").write_text("client=java\npartition.assignment.strategy=sticky\n")
    Path("b.properties").write_text("client=java\npartition.assignment.strategy=range\n")
    rule = POLICY.replace('"payments"', '"*"')
    Path("policy.toml").write_text(rule + POLICY.replace("payments", "none").replace("little", "nothing"))
    monkeypatch.setattr(replay_command, "run_replay_with_progress", lambda *_: sample())
    return tmp_path


COMMANDS = {
    "lint": ("lint", "a.properties", "b.properties"),
    "validate": ("validate", "history", "--policy", "policy.toml"),
}


@pytest.mark.parametrize(
    ("command", "tags"),
    [
        ("lint", {"no-common-strategy": "failure", "never-settles": "skipped"}),
        ("validate", {"moves little": "failure", "policy.toml": "error"}),
    ],
)
def test_junit_has_a_test_case_for_each_verdict_and_counts_them(
    command: str, tags: dict[str, str], inputs: Path
) -> None:
    ignored = ("--ignore", "never-settles") if command == "lint" else ()
    assert main([*COMMANDS[command], *ignored, "--junit", "new/verdicts.xml"]) == 1
    suite = ElementTree.parse("new/verdicts.xml").getroot().find("testsuite")
    assert suite is not None
    assert suite.get("name") == f"kafka-assignors {command}"
    cases = suite.findall("testcase")
    counts = {"tests": "testcase", "failures": "*/failure", "errors": "*/error", "skipped": "*/skipped"}
    assert {count: suite.get(count) for count in counts} == {
        count: str(len(suite.findall(path))) for count, path in counts.items()
    }
    assert all(case.get("name") and case.get("classname") for case in cases)
    found = {case.get("classname"): child.tag for case in cases for child in case}
    assert {rule: found[rule] for rule in tags} == tags


@pytest.mark.parametrize("outcome", CiOutcome)
def test_junit_of_hostile_names_is_well_formed(outcome: CiOutcome) -> None:
    verdicts = [CiCase(name, name, outcome, name) for name in STEERING]
    root = ElementTree.fromstring(junit_xml("suite", verdicts).encode("utf-8"))
    cases = root.findall("testsuite/testcase")
    assert len(cases) == len(STEERING)
    plain = cases[STEERING.index("::error::evil")]
    assert (plain.get("classname"), plain.get("name")) == ("::error::evil", "::error::evil")


def parsed(line: str) -> tuple[str, dict[str, str], str]:
    """The level, properties and message of an annotation, as GitHub's runner parses it."""
    match = re.fullmatch(r"::(\w+) (.*?)::(.*)", line)
    assert match is not None, line
    unescaped = {"%0D": "\r", "%0A": "\n", "%3A": ":", "%2C": ",", "%25": "%"}

    def unescape(text: str) -> str:
        return re.sub(r"%(0D|0A|3A|2C|25)", lambda found: unescaped[found[0]], text)

    properties = dict(part.split("=", 1) for part in match[2].split(","))
    return match[1], {name: unescape(value) for name, value in properties.items()}, unescape(match[3])


@pytest.mark.parametrize("name", STEERING)
def test_an_annotation_is_one_line_that_says_what_the_verdict_says(name: str) -> None:
    line = github_annotation(CiCase(name, name, CiOutcome.FAILED, name, name, 3))
    assert line is not None
    assert len(line.splitlines()) == 1
    level, properties, message = parsed(line)
    assert level == "error"
    assert properties.keys() == {"file", "line", "title"}
    if "\r" not in name and name.isprintable():
        assert (properties["file"], properties["line"]) == (name, "3")
        assert properties["title"] == f"{name}: {name}"
        assert message == name


def commands_of(out: str) -> list[str]:
    """The workflow commands in this output that GitHub's runner executes, since its version 2.

    A command line begins with `::` after spaces, or contains `##[` anywhere. Between `::stop-commands::TOKEN`
    and `::TOKEN::` the runner executes no commands.
    """
    found = []
    token = None
    for line in out.split("\n"):
        text = line.strip()
        if token is not None:
            token = None if text == f"::{token}::" else token
        elif text.startswith("::stop-commands::"):
            token = text.removeprefix("::stop-commands::")
        elif text.startswith("::") or "##[" in text:
            found.append(text)
    assert token is None
    return found


@pytest.mark.parametrize("command", COMMANDS)
def test_github_prints_annotations_after_the_text(
    command: str, inputs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*COMMANDS[command], "--github"]) == 1
    with_annotations = capsys.readouterr().out
    assert any(line.startswith("::error ") for line in commands_of(with_annotations))
    assert re.search(r"^[^:\n].*\n.*::\w{32}::\n::", with_annotations, re.DOTALL | re.MULTILINE)


def test_a_hostile_group_injects_no_command(
    inputs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile, result = "::error::evil ##[error]evil", sample()
    first = result.groups[0]
    verdicts = tuple(replace(one, group=hostile) for one in result.verdicts if one.group == first.group)
    result = replace(result, groups=(replace(first, group=hostile),), verdicts=verdicts)
    monkeypatch.setattr(replay_command, "run_replay_with_progress", lambda *_: result)
    policy = inputs / "policy.toml"
    policy.write_text(policy.read_text().replace("moves little", "::add-mask::moves"))
    assert main([*COMMANDS["validate"], "--github"]) == 1
    shown = capsys.readouterr()
    said = commands_of(shown.out)
    assert commands_of(shown.err) == []
    assert all(line.startswith("::error file=policy.toml,title=") for line in said)
    assert any("evil" in line for line in said)
