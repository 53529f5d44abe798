"""The wheel: typed packages, a core without dependencies, the correct version."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import kafka_assignors

ROOT = Path(__file__).resolve().parent.parent


def test_every_package_is_typed() -> None:
    packages = {each.parent for each in ROOT.glob("*/kafka_assignors*/__init__.py")}
    assert len(packages) > 8
    assert [each.name for each in packages if not (each / "py.typed").is_file()] == []


def test_the_version_is_the_installed_one() -> None:
    assert metadata.version("kafka-assignors") == kafka_assignors.__version__


def test_nothing_is_required_without_an_extra() -> None:
    requirements = metadata.requires("kafka-assignors") or []
    assert [line for line in requirements if "extra ==" not in line] == []


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="a source release has its own files alone")
def test_git_has_what_a_source_release_has_and_its_own_settings_alone() -> None:
    listing = ["git", "-c", "safe.directory=*", "ls-files"]  # A CI may check out as another user.
    listed = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    tops = {path.partition("/")[0] for path in listed.splitlines()}
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (released,) = re.findall(r"targets\.sdist\]\ninclude = \[(.*?)\]", project, re.DOTALL)
    assert tops - set(re.findall(r'"/(.+?)"', released)) == {
        *(".ci", ".github", ".gitignore", ".pre-commit-config.yaml", "pyproject.toml")
    }


def loaded_by(program: str) -> set[str]:
    """The modules that a program loads."""
    command = [
        sys.executable,
        "-c",
        f"import sys\nbefore = {{*sys.modules}}\n{program}\nprint(*{{*sys.modules}} - before)",
    ]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def test_the_core_imports_the_standard_library_alone() -> None:
    loaded = loaded_by("""
import importlib, pkgutil, kafka_assignors
for module in pkgutil.walk_packages(kafka_assignors.__path__, "kafka_assignors."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
""")
    packages = {name.partition(".")[0] for name in loaded}
    assert packages - set(sys.stdlib_module_names) == {"kafka_assignors"}


def test_an_assignor_imports_no_other_strategy_and_no_registry() -> None:
    loaded = loaded_by("import kafka_assignors.assignor")
    assert "kafka_assignors.strategies.sticky" in loaded
    others = {name for name in loaded if name.startswith("kafka_assignors_strategies")}
    assert not others | loaded & {"kafka_assignors.strategies.registry", "kafka_assignors.loads"}


def test_a_command_starts_without_reports_engines_and_clients() -> None:
    commands = ("archive", "replay", "validate")
    loaded = loaded_by("import " + ", ".join(f"kafka_assignors_replay.{name}_command" for name in commands))
    of_replay = {f"kafka_assignors_replay.{name}" for name in ("replay_tables", "report.findings", "engine")}
    assert "kafka_assignors_replay.policy" in loaded
    assert not loaded & {*of_replay, "pyarrow", "jinja2", "confluent_kafka", "pyspark"}
