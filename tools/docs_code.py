"""Checks the Python code of README.md and docs/: every block parses, and mypy accepts it.

    python -m tools.docs_code

A block may be a fragment. Names that it uses and does not define stand for the reader's own code, and have
the type Any. mypy checks the imports, constructors and calls against the real packages, with the settings of
pyproject.toml.
"""

from __future__ import annotations

import ast
import builtins
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_BLOCK = re.compile(r"^(?P<indent> *)```python\n(?P<code>.*?)^ *```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """A code block: its page, the number of its first line of code, and the code without indentation."""

    page: Path
    line: int
    code: str

    @property
    def module(self) -> str:
        """The name of the module under which mypy checks the block."""
        return f"{re.sub(r'[^a-z0-9]', '_', self.page.stem.lower())}_line_{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    """The Python blocks of a page."""
    text = page.read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        line = text.count("\n", 0, found.start("code")) + 1
        yield Block(page, line, textwrap.dedent(found["code"]))


def module_of(block: Block) -> str:
    """The module that mypy checks: declarations of the undefined names, then the block.

    Raises:
        SyntaxError: The code does not parse.
    """
    tree = compile(
        block.code,
        block.module,
        "exec",
        ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
        dont_inherit=True,
    )
    assert isinstance(tree, ast.Module)
    missing = sorted(_used(tree) - _defined(tree) - set(dir(builtins)))
    head = "from typing import Any\n\n" + "".join(f"{name}: Any\n" for name in missing)
    awaits = any(isinstance(node, (ast.Await, ast.AsyncFor, ast.AsyncWith)) for node in _top_level(tree))
    if not awaits:
        return f"{head}\n{block.code}"
    return f"{head}\n\nasync def _block() -> None:\n{textwrap.indent(block.code, '    ')}"


def _top_level(tree: ast.Module) -> Iterator[ast.AST]:
    """The nodes outside functions."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            waiting.extend(ast.iter_child_nodes(node))


def _used(tree: ast.AST) -> set[str]:
    return {
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }


def _defined(tree: ast.AST) -> set[str]:
    names = {"__name__", "__file__"}
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.arg(arg=name) | ast.ExceptHandler(name=str(name)):
                names.add(name)
            case ast.Import(names=imported) | ast.ImportFrom(names=imported):
                names |= {(one.asname or one.name).partition(".")[0] for one in imported}
    return names


def main() -> int:
    """Check all pages, and return the exit code."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "examples" / "README.md"]
    found = [block for page in pages for block in blocks(page)]
    if not found:
        print("there is no Python code in README.md and docs/", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        for block in found:
            try:
                Path(folder, f"{block.module}.py").write_text(module_of(block), encoding="utf-8")
            except SyntaxError as error:
                print(f"{block.page.relative_to(ROOT)}:{block.line}: {error.msg}", file=sys.stderr)
                return 1
        # Fragments need no annotations. Everything else is as strict as the project.
        command = [
            *(sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml")),
            *(
                "--allow-untyped-defs",
                "--allow-untyped-calls",
                "--allow-incomplete-defs",
                "--no-warn-return-any",
            ),
            *(
                "--allow-subclassing-any",
                "--allow-untyped-decorators",
                "--no-warn-unused-ignores",
                "--disable-error-code",
                "type-arg",
                folder,
            ),
        ]
        checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    print(checked.stdout + checked.stderr, end="")
    print(f"{len(found)} blocks of Python in {len({block.page for block in found})} pages")
    return checked.returncode


if __name__ == "__main__":
    sys.exit(main())
