"""The files and formats of a result: `--json`, the same in every command, `--junit` and `--github`.

Sources: the JUnit schema of Jenkins' xUnit plugin (testsuites, testsuite, testcase with failure, error or
skipped), XML 1.0 section 2.2 (the characters that it allows), and GitHub's "Workflow commands for GitHub
Actions" (`::error file=…,line=…,title=…::message`, `::stop-commands::`).

A group, a member or a file may have any name. In XML each character that is not printable is replaced. In an
annotation `%`, line ends, `:` and `,` are escaped. GitHub reads commands from every line of stdout, so the
text that is printed beside the annotations is put between `::stop-commands::` and the token that ends it.
"""

from __future__ import annotations

import contextlib
import enum
import errno
import json
import os
import secrets
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from rich.console import RenderableType

from kafka_assignors.arguments import UserError
from kafka_assignors_cli.console import emit, emit_renderable, note, printable

# ---- files


def require_files(*files: Path | None) -> None:
    """Fail before minutes of work if a file cannot be written, or two results would go to one file."""
    seen = set[str]()
    for file in files:
        if file is None or is_stdout(file):
            continue
        _require_writable(file)
        real = os.path.realpath(file)
        if real in seen and not _is_special(file):
            raise UserError(f"{file}: given for two results, and one would replace the other")
        seen.add(real)


def _require_writable(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if _is_special(path):
            return
        with tempfile.TemporaryFile(dir=os.path.dirname(os.path.realpath(path))):
            pass
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from None


def _is_special(path: Path) -> bool:
    """Whether the path is a device or a pipe, such as /dev/null, or /dev/fd/63 of a shell's `>(jq .)`."""
    return path.exists() and not path.is_file()


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[TextIO]:
    """A stream whose text replaces the file at once, so that a reader never sees half a report.

    After an error in the block the file is as before. A device or a pipe is written to, and stays.
    """
    try:
        if _is_special(path):
            with path.open("w", encoding="utf-8") as stream:
                yield stream
            return
        file = Path(os.path.realpath(path))  # A link stays, too.
        part = file.with_name(f"{file.name}.{os.getpid()}.part")  # Others may write the same report.
        try:
            with part.open("w", encoding="utf-8") as stream:
                yield stream
            part.replace(file)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from None


def write_file(path: Path, text: str) -> None:
    """Replace the whole file at once."""
    with replacing(path) as stream:
        stream.write(text)


# ---- JSON

_STDOUT = Path("-")


def is_stdout(file: Path | None) -> bool:
    """Whether the JSON goes to stdout, which then shows no text."""
    return file == _STDOUT


def json_unless_terminal(file: Path | None) -> Path | None:
    """`file`; if it is not given and stdout is not a terminal, stdout."""
    return _STDOUT if file is None and not sys.stdout.isatty() else file


def write_document(file: Path | None, text: str) -> None:
    """Write `text`, the whole result, to `file`; a file is replaced at once."""
    write_lines(file, (text.rstrip("\n"),) if text else ())


def write_lines(file: Path | None, lines: Iterable[str]) -> None:
    """Write lines, which have no end of line, to `file` as they come; a file is replaced at once."""
    with _writer(file) as write:
        for line in lines:
            write(line)


@contextlib.contextmanager
def json_lines(file: Path | None) -> Iterator[Callable[[object], None]]:
    """A function that writes a value as one line of JSON, nowhere if `file` is None.

    Stdout has each line at once. A file is replaced when the block ends without an error.
    """
    with _writer(file) as write:
        yield lambda value: write(json.dumps(value))


@contextlib.contextmanager
def _writer(file: Path | None) -> Iterator[Callable[[str], None]]:
    if file is None:
        yield lambda line: None
    elif is_stdout(file):
        yield emit
    else:
        require_files(file)
        with replacing(file) as stream:
            yield lambda line: print(line, file=stream)
        note(f"wrote {file}")


# ---- checks in CI


class CiOutcome(enum.Enum):
    """The outcome of one check: the tag of its testcase in JUnit XML, and the level of its annotation."""

    PASSED = ("", "")
    FAILED = ("failure", "error")
    WARNED = ("system-out", "warning")
    """Something to correct that does not fail the command."""
    NOT_JUDGED = ("error", "error")
    """The check cannot be judged, which fails the command."""
    SKIPPED = ("skipped", "notice")
    """The check cannot be judged, or was not asked for; the command does not fail."""


@dataclass(frozen=True, slots=True)
class CiCase:
    """The outcome of one check: `name` within `area`, and why; `file` and `line` (from 1) say where."""

    area: str
    name: str
    outcome: CiOutcome
    message: str = ""
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class CiFormats:
    """The formats that `--junit` and `--github` ask for; `json_file` is the file of `--json`."""

    junit: Path | None
    github: bool
    json_file: Path | None

    def require(self) -> None:
        """Refuse files that cannot be written, and two formats on stdout."""
        require_files(self.json_file, self.junit)
        if self.github and is_stdout(self.json_file):
            raise UserError("--github and --json - both write to stdout: give --json a file")

    @contextlib.contextmanager
    def text(self) -> Iterator[None]:
        """Keep GitHub from reading commands in the text that the block prints."""
        token = secrets.token_hex(16)
        if self.github:
            emit(f"::stop-commands::{token}")
        try:
            yield
        finally:
            if self.github:
                emit(f"::{token}::")

    def write_result(
        self, command: str, shown: Iterable[RenderableType], document: str, cases: Sequence[CiCase]
    ) -> None:
        """Show the result of `command` as text, write its JSON `document`, and the checks."""
        if not is_stdout(self.json_file):
            with self.text():
                emit_renderable(*shown)
        write_document(self.json_file, document)
        if self.github:
            for annotation in filter(None, map(github_annotation, cases)):
                emit(annotation)
        if self.junit is not None:
            write_file(self.junit, junit_xml(f"kafka-assignors {command}", cases))
            note(f"wrote {self.junit}")


def junit_xml(suite: str, cases: Sequence[CiCase]) -> str:
    """A JUnit document of one test suite, with a test case for each check."""
    outcomes = [case.outcome for case in cases]
    counts = {
        "tests": len(outcomes),
        "failures": outcomes.count(CiOutcome.FAILED),
        "errors": outcomes.count(CiOutcome.NOT_JUDGED),
        "skipped": outcomes.count(CiOutcome.SKIPPED),
    }
    root = ElementTree.Element("testsuites")
    attributes = {"name": suite, **{name: str(count) for name, count in counts.items()}}
    element = ElementTree.SubElement(root, "testsuite", attributes)
    for case in cases:
        testcase = ElementTree.SubElement(
            element, "testcase", classname=printable(case.area), name=printable(case.name)
        )
        tag, _ = case.outcome.value
        if tag == "system-out":
            ElementTree.SubElement(testcase, tag).text = printable(case.message)
        elif tag:
            ElementTree.SubElement(testcase, tag, message=printable(case.message))
    ElementTree.indent(root)
    text: str = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def github_annotation(case: CiCase) -> str | None:
    """The workflow command that shows the check; None for one that passed."""
    _, level = case.outcome.value
    if not level:
        return None
    properties = {"file": case.file, "line": case.line, "title": f"{case.area}: {case.name}"}
    given = ",".join(
        f"{name}={_escaped(str(value)).replace(':', '%3A').replace(',', '%2C')}"
        for name, value in properties.items()
        if value is not None
    )
    return f"::{level} {given}::{_escaped(case.message)}"


def _escaped(text: str) -> str:
    escaped = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return printable(escaped)
