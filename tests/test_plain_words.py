"""The check for unclear words: what it finds, and that the folders that it covers are clean."""

from __future__ import annotations

import pytest

from tools.plain_words import ADVICE, FOLDERS, ROOT, main, problems


@pytest.mark.parametrize("phrase", sorted(ADVICE))
def test_every_phrase_is_found_with_its_line(phrase: str) -> None:
    text = f"first line\n# A sentence with {phrase.capitalize()} in it.\n"
    assert [(line, advice.partition(":")[0]) for line, advice in problems(text)] == [(2, repr(phrase))]


@pytest.mark.parametrize(
    "text",
    [
        "# what is\n# to be balanced",
        '"what is to "\n    "be balanced"',
        "def owned_by_nobody() -> None: ...",
        "nobody's",
    ],
)
def test_phrases_are_found_across_lines_and_within_names(text: str) -> None:
    assert len(list(problems(text))) == 1


def test_other_words_are_no_problem() -> None:
    assert list(problems("The body of a member; what is told; to be; noughts_")) == [
        (1, f"'nought': {ADVICE['nought']}")
    ]


def test_the_covered_folders_exist_and_are_clean(capsys: pytest.CaptureFixture[str]) -> None:
    assert all((ROOT / folder).is_dir() for folder in FOLDERS)
    assert main() == 0, capsys.readouterr().out


def test_a_problem_names_file_and_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("tools",)) == 1
    out = capsys.readouterr().out
    assert "tools/plain_words.py:1: 'nobody'" in out
