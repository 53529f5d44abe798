"""Writes the rules of `kafka-assignors lint` into docs/lint.md, generated from the rules.

python -m tools.lint_docs
"""

from __future__ import annotations

import textwrap
from pathlib import Path

from kafka_assignors_ops.lint import RULES
from kafka_assignors_ops.lint.rules import LintRule
from tools.generated_part import with_part

PAGE = Path(__file__).resolve().parent.parent / "docs" / "lint.md"
_WIDTH = 120


def page_with_rules(page: str) -> str:
    """The page, with the part between the two marks generated again."""
    return with_part(page, "rules", _table() + "".join(map(_section, RULES.values())))


def _table() -> str:
    rows = "".join(f"| [`{rule.id}`](#{rule.id}) | {rule.severity.value} |\n" for rule in RULES.values())
    return f"| rule | severity |\n|---|---|\n{rows}\n"


def _section(rule: LintRule) -> str:
    parts = {"What happens": rule.happens, "Why": rule.why, "What to do": rule.to_do}
    text = "\n\n".join(textwrap.fill(f"**{name}.** {words}", _WIDTH) for name, words in parts.items())
    return f"### `{rule.id}`\n\n{rule.severity.value.capitalize()}.\n\n{text}\n\n"


if __name__ == "__main__":
    PAGE.write_text(page_with_rules(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
