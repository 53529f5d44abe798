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
    return with_part(page, "rules", "".join(map(_section, RULES.values())))


def _section(rule: LintRule) -> str:
    severity = rule.severity.value.capitalize()
    text = textwrap.fill(f"{severity}. {rule.happens} **Do:** {rule.to_do}", _WIDTH, break_on_hyphens=False)
    return f"### `{rule.id}`\n\n{text}\n\n"


if __name__ == "__main__":
    PAGE.write_text(page_with_rules(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
