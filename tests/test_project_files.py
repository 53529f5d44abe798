"""The pages that a visitor of the repository or of an index sees first: links work, addresses agree."""

from __future__ import annotations

import ast
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "examples" / "README.md"])
_CODE = re.compile(r"^ *```.*?^ *```$|`[^`\n]*`", re.DOTALL | re.MULTILINE)
_CODE_BLOCK = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\((?!https?://|mailto:)([^)\s]+)\)")


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub and the site create for the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", _CODE_BLOCK.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in plain}


def test_the_pages_that_other_files_name_exist() -> None:
    """Plain text such as `docs/production.md` in a docstring or a comment is no link that a build checks."""
    names = ("src", "plugins", "spark_validation", "compat_tests", "tests", "benchmarks", "examples", "tools")
    files = [*ROOT.glob("*"), *(each for name in names for each in (ROOT / name).rglob("*"))]
    texts = {".py", ".md", ".yaml", ".yml", ".toml", ".ini", ""}
    missing = {
        f"{file.relative_to(ROOT)}: {page}"
        for file in files
        if file.suffix in texts and file.is_file()
        for page in re.findall(r"\bdocs/[\w/-]+\.md\b", file.read_text(encoding="utf-8", errors="replace"))
        if not (ROOT / page).is_file()
    }
    assert missing == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_within_the_repository_lead_to_a_file_and_a_heading(page: Path) -> None:
    for link in _LINK.findall(_CODE.sub("", page.read_text(encoding="utf-8"))):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name}: {link}"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{page.name}: {link}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_block_of_code_is_closed_and_fits_beside_the_menu_of_a_page(page: Path) -> None:
    """If a block is not closed, the site shows the text after it as code and reports no error."""
    text = page.read_text(encoding="utf-8")
    assert len(re.findall(r"^ *```", text, re.MULTILINE)) % 2 == 0
    assert [
        line for block in _CODE_BLOCK.findall(text) for line in block.splitlines() if len(line) > 120
    ] == []


def test_the_long_description_has_no_relative_links_and_names_one_repository() -> None:
    """Apply the substitutions of pyproject.toml to the README as the build does."""
    configuration = project()
    hook = configuration["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for substitution in hook["substitutions"]:
        text = re.sub(substitution["pattern"], substitution["replacement"], text)
    assert _LINK.findall(_CODE.sub("", text)) == []
    repository = configuration["project"]["urls"]["Repository"]
    assert f"]({repository}/blob/main/docs/migrate.md)" in text
    path = repository.removeprefix("https://github.com/")
    assert f"](https://raw.githubusercontent.com/{path}/main/docs/rebalance.svg)" in text
    for name in ("Changelog", "Issues"):
        assert configuration["project"]["urls"][name].startswith(f"{repository}/")


def test_no_text_that_a_user_of_the_wheel_sees_names_a_file_that_only_the_repository_has() -> None:
    found = []
    for folder in ("src", "plugins", "spark_validation/kafka_assignors_replay"):
        for file in (ROOT / folder).rglob("*.py"):
            tree = ast.parse(file.read_text(encoding="utf-8"))
            notes = {
                id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)
            }  # docstrings, for readers of the code
            found += [
                f"{file.relative_to(ROOT)}:{node.lineno}"
                for node in ast.walk(tree)
                if isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and id(node) not in notes
                and re.search(r"\bdocs/[\w-]+\.md", node.value)
            ]
    assert found == []


def test_an_old_python_is_refused_before_anything_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """pip asks the build backend first, which then must not need any package."""
    configuration = project()
    assert configuration["build-system"]["requires"] == []
    (folder,) = configuration["build-system"]["backend-path"]
    backend = ROOT / folder / f"{configuration['build-system']['build-backend']}.py"
    oldest = configuration["project"]["requires-python"].removeprefix(">=")
    assert runpy.run_path(str(backend))["OLDEST"] == tuple(map(int, oldest.split(".")))
    assert f"version_info >= ({oldest.replace('.', ', ')})" in (ROOT / "Makefile").read_text("utf-8")
    monkeypatch.setattr(sys, "version_info", (3, 9, 18))
    with pytest.raises(SystemExit, match=f"needs Python {oldest} or newer; this is Python 3.9"):
        runpy.run_path(str(backend))
