"""The source of the two consumer plugins: catalogues of client internals, and common classes."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PLUGINS = Path(__file__).resolve().parent.parent / "plugins"
CATALOGUES = {
    "kafka_assignors_aiokafka": ("_client.py", "_stock.py"),
    "kafka_assignors_kafka_python": ("_assignor.py", "cooperative/inside.py"),
}
PRIVATE = re.compile(r"(?<![A-Za-z0-9_])_[a-z]\w*")


def modules(package: str) -> dict[str, ast.Module]:
    files = sorted((PLUGINS / package).rglob("*.py"))
    return {
        str(file.relative_to(PLUGINS / package)): ast.parse(file.read_text(encoding="utf-8"))
        for file in files
    }


def catalogued(package: str) -> set[str]:
    """The names in the module docstrings, and in the lists of internals that are checked at run time."""
    found = [modules(package)[name] for name in CATALOGUES[package]]
    texts = [ast.get_docstring(tree) or "" for tree in found]
    assigned = [node for tree in found for node in tree.body if isinstance(node, ast.Assign)]
    texts += [ast.unparse(n.value) for n in assigned if ast.unparse(n.targets[0]).startswith("_TOUCHED")]
    return {name for text in texts for name in PRIVATE.findall(text)}


def own_names(tree: ast.AST) -> set[str]:
    """The names that the plugin defines: functions, classes, and attributes of `self`."""
    names = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                names.add(name)
    return names


@pytest.mark.parametrize("package", CATALOGUES)
def test_every_private_attribute_of_the_client_is_in_the_catalogue(package: str) -> None:
    trees = modules(package)
    own = set().union(*map(own_names, trees.values()))
    used = {
        node.attr: f"{file}:{node.lineno}"
        for file, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and PRIVATE.fullmatch(node.attr)
    }
    # An attribute that the plugin adds to a client's object contains the project's name.
    missing = {name: place for name, place in used.items() if "kafka_assignors" not in name}
    for name in own | catalogued(package):
        missing.pop(name, None)
    assert not missing
