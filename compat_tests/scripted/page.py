"""The tables of docs/error-answers.md, from the data that the tests check against.

`python -m compat_tests.scripted.page` writes them between the two markers of the page.
"""

from __future__ import annotations

from pathlib import Path

from compat_tests.scripted.error_codes import ERRORS
from compat_tests.scripted.expected import BROKEN, CLIENTS, DIFFERENCES, JAVA, cells, sample
from compat_tests.scripted.scenes import SCENES

PAGE = Path(__file__).parents[2] / "docs" / "error-answers.md"
BEGIN, END = "<!-- tables: python -m compat_tests.scripted.page -->\n", "<!-- end of the tables -->\n"

_NAMES = {
    "*": "all others",
    "retriable": "other retriable codes",
    "unnamed-retriable": "retriable codes that Java does not name",
    "unnamed-final": "codes that are not retriable and that Java does not name",
    "retriable-in-java-alone": "codes that are retriable for Java and not for the client",
}


def tables() -> str:
    """The text between the markers."""
    return "\n".join([*_java(), *_differences(), *_counts()])


def _code(name: str) -> str:
    return _NAMES.get(name, f"`{name}`")


def _counts() -> list[str]:
    phases = dict.fromkeys(scene.phase for scene in SCENES)
    return [
        "## What is tried",
        "",
        f"{len(SCENES)} pairs of a request and a phase ({', '.join(phases)}), {len(ERRORS)} error codes and "
        f"{len(BROKEN)} broken answers, {len(CLIENTS)} clients: **{len(list(cells())):,} cells**, "
        f"{len(list(sample()))} of them in the default run.",
        "",
    ]


def _java() -> list[str]:
    lines = ["## As in Java", "", "| request | error | outcome |", "|---|---|---|"]
    for line in JAVA.strip().splitlines():
        api, *codes, outcome = line.split()
        named = ", ".join(_code(code) for code in codes)
        api = "OffsetFetch, per partition" if api == "Partitions" else api
        lines.append(f"| {api} | {named} | {outcome.replace('-', ' ').replace(',', ', ')} |")
    return [*lines, ""]


def _differences() -> list[str]:
    lines = [
        "## Otherwise than in Java",
        "",
        "| request | error | where | outcome | why |",
        "|---|---|---|---|---|",
    ]
    for one in DIFFERENCES:
        api = one.api.replace(" ", ", ").replace("Partitions", "OffsetFetch per partition")
        where = ", ".join([*one.phases, *([one.client] if one.client else [])]) or "everywhere"
        named = ", ".join(_code(code) for code in one.codes.split())
        lines.append(f"| {api} | {named} | {where} | {one.outcome.replace('-', ' ')} | {one.reason} |")
    return [*lines, ""]


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    PAGE.write_text(before + BEGIN + tables() + END + rest.split(END)[1], encoding="utf-8")
