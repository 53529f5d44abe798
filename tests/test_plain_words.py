"""The check for unclear words: what it finds. `make lint` runs it over the folders that it covers."""

from __future__ import annotations

import pytest

from tools.plain_words import ADVICE, main, problems


@pytest.mark.parametrize(
    "text", [*ADVICE, "what is\n# to be", '"what is to "\n    "be"', "def owned_by_nobody()"]
)
def test_a_phrase_is_found_also_across_lines_and_within_names(text: str) -> None:
    assert len(list(problems(f"# A sentence with {text} in it.\n"))) == 1


def test_other_words_are_no_problem() -> None:
    assert [*problems("The body of a member; what is told; to be; bright")] == []


def test_a_problem_names_file_and_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("tools",)) == 1
    assert "tools/plain_words.py:1: 'nobody'" in capsys.readouterr().out
