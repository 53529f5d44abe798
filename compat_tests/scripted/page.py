"""The tables of docs/error-answers.md, from the data that the tests judge by.

`python -m compat_tests.scripted.page` writes them into the page, between its two marks.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from compat_tests.scripted.error_codes import ERRORS
from compat_tests.scripted.expected import BROKEN, CLIENTS, DIFFERENCES, JAVA, allowed, cells, sample
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
    """Everything between the marks."""
    return "\n".join([*_counts(), *_java(), *_differences()])


def _code(name: str) -> str:
    return _NAMES.get(name, f"`{name}`")


def _counts() -> list[str]:
    every = list(cells())
    outcomes = Counter(
        (", ".join(sorted(allowed(cell).must)) or "retried", cell.client)
        for cell in every
        if cell.label not in BROKEN
    )
    return [
        "## Counts",
        "",
        f"{len(SCENES)} pairs of a request and one of {len({scene.phase for scene in SCENES})} phases, "
        f"{len(ERRORS)} error codes and {len(BROKEN)} broken answers, {len(CLIENTS)} clients: "
        f"**{len(every):,} cells**, {len(list(sample()))} of them in the default run.",
        "",
        "| outcome of an error code | " + " | ".join(CLIENTS) + " |",
        "|---|" + "---|" * len(CLIENTS),
        *(
            f"| {outcome} | " + " | ".join(str(outcomes[outcome, client]) for client in CLIENTS) + " |"
            for outcome in sorted({outcome for outcome, _ in outcomes})
        ),
        "",
        "| phase | requests |",
        "|---|---|",
        *(
            f"| {phase} | {', '.join(_request(scene.api, scene.in_partitions) for scene in SCENES if scene.phase == phase)} |"  # noqa: E501
            for phase in dict.fromkeys(scene.phase for scene in SCENES)
        ),
        "",
    ]


def _request(api: str, in_partitions: bool) -> str:
    return f"{api}, per partition" if in_partitions else api


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
