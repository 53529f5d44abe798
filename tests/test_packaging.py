"""The wheel: typed packages, a core without dependencies, the correct version."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata, resources

import pytest

import kafka_assignors

PACKAGES = (
    "kafka_assignors",
    "kafka_assignors_aiokafka",
    "kafka_assignors_cli",
    "kafka_assignors_confluent",
    "kafka_assignors_kafka_python",
    "kafka_assignors_opentelemetry",
    "kafka_assignors_ops",
    "kafka_assignors_replay",
    "kafka_assignors_strategies",
)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_is_typed(package: str) -> None:
    files = metadata.files("kafka-assignors") or []
    installed = {str(file) for file in files}
    editable = any(".pth" in name or "direct_url.json" in name for name in installed)
    assert f"{package}/py.typed" in installed or editable
    if package == "kafka_assignors":
        assert resources.files(package).joinpath("py.typed").is_file()


def test_the_version_is_the_installed_one() -> None:
    assert metadata.version("kafka-assignors") == kafka_assignors.__version__


def test_nothing_is_required_without_an_extra() -> None:
    requirements = metadata.requires("kafka-assignors") or []
    assert [line for line in requirements if "extra ==" not in line] == []


def test_the_core_imports_the_standard_library_alone() -> None:
    program = """
import importlib, json, pkgutil, sys
before = set(sys.modules)
import kafka_assignors
for module in pkgutil.walk_packages(kafka_assignors.__path__, "kafka_assignors."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
print(json.dumps(sorted({name.split(".")[0] for name in set(sys.modules) - before})))
"""
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    foreign = set(json.loads(out)) - set(sys.stdlib_module_names) - {"kafka_assignors"}
    assert foreign == set()


def test_an_assignor_imports_no_other_strategy_and_no_registry() -> None:
    program = "import sys, kafka_assignors.assignor; print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    loaded = set(out.split())
    assert "kafka_assignors.strategies.sticky" in loaded
    others = {name for name in loaded if name.startswith("kafka_assignors_strategies")}
    assert not others | loaded & {"kafka_assignors.strategies.registry", "kafka_assignors.loads"}
