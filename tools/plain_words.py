"""Fails on words that hide the subject of a sentence, such as "nobody", in the code and in the pages.

python -m tools.plain_words

Every docstring, comment, error and help text names its subject instead: the member, the group, the caller.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("src", "plugins", "spark_validation", "compat_tests", "tests", "benchmarks", "examples", "docs")
SUFFIXES = (".py", ".md", ".html", ".j2", ".css", ".js")

ADVICE = {
    "anybody": "name who: any member, every client, a third party",
    "everybody": "name who: every member, all consumers",
    "nobody": "name who: no member, no client, not known",
    "nought": "write: zero, none",
    "somebody": "name who: a member, another client, the user",
    "what is to be": "name the thing: the quantity to balance, the planned assignment",
    "whatever": "name the thing, or write: any, every, regardless of",
    "whoever": "name who: the member that, the caller",
    "whomever": "name who: the member that, the caller",
    "who is to": "name who: the member that gets, the next owner",
}
"""The advice that is printed for each word or phrase."""

# The words of a phrase may be separated by the end of a line, a comment sign, or the quotes of a string.
_BETWEEN = r"[\s#\"']+"
_PATTERN = re.compile(
    rf"(?<![a-z])(?:{'|'.join(phrase.replace(' ', _BETWEEN) for phrase in ADVICE)})(?=s?(?![a-z]))",
    re.IGNORECASE,
)


def problems(text: str) -> Iterator[tuple[int, str]]:
    """The line number and the advice for each such word in `text`, also within names."""
    for match in _PATTERN.finditer(text):
        phrase = " ".join(re.split(_BETWEEN, match[0].lower()))
        yield text.count("\n", 0, match.start()) + 1, f"{phrase!r}: {ADVICE[phrase]}"


def main(folders: tuple[str, ...] = FOLDERS) -> int:
    """Check the folders, print a line for each problem, and return the exit code."""
    files = sorted(
        path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES
    )
    found = [
        f"{path.relative_to(ROOT)}:{line}: {problem}"
        for path in files
        for line, problem in problems(path.read_text(encoding="utf-8"))
    ]
    if not files:
        found.append(f"there are no files in {', '.join(folders)}")
    print("\n".join(found) or f"plain words: {len(files)} files, no problem")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(tuple(sys.argv[1:]) or FOLDERS))
