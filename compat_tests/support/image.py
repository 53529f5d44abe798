"""The image of a Dockerfile, built by a container engine, or its commands run directly in a folder.

Without an engine, the absolute paths of the Dockerfile map to the folder, `python` is the interpreter that
runs the test, and the user is that of the test.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from compat_tests.support.hang_limit import HANG_S


@dataclass(frozen=True, slots=True)
class Image:
    """`command` runs the image in `folder`, with arguments for its program appended."""

    command: tuple[str, ...]
    folder: Path
    environment: dict[str, str]


def instructions(dockerfile: Path) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile with their arguments, without comments."""
    lines = [line for line in dockerfile.read_text("utf-8").splitlines() if not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    parts = (line.partition(" ") for line in joined.split("\n"))
    return [(name.upper(), rest.strip()) for name, _, rest in parts if name]


def find_engine() -> str | None:
    """The name of a container engine that works."""
    for name in ("docker", "podman"):
        if shutil.which(name):
            done = subprocess.run([name, "info"], capture_output=True, timeout=HANG_S, check=False)
            if done.returncode == 0:
                return name
    return None


def build(dockerfile: Path, context: Path, folder: Path, state: Path) -> Image:
    """Build the image in the empty `folder`; `state`, a new folder, becomes `/state` in the container."""
    engine = find_engine()
    if engine is None:
        return _run(instructions(dockerfile), context, folder, state)
    name = "kafka-assignors-example"
    subprocess.run([engine, "build", "-q", "-f", str(dockerfile), "-t", name, str(context)], check=True)
    state.mkdir()
    state.chmod(0o777)
    container = (engine, "run", "--rm", "--network", "host", "-v", f"{state}:/state")
    passed = ("KAFKA_BOOTSTRAP_SERVERS", "LOG_LEVEL", "HEALTH_PORT", "WORK_S")
    variables = [part for variable in passed for part in ("-e", variable)]
    return Image((*container, *variables, name), folder, {})


def _run(steps: list[tuple[str, str]], context: Path, folder: Path, state: Path) -> Image:
    work, environment, entrypoint = folder, dict[str, str](), list[str]()
    for name, rest in steps:
        here = re.sub(r"(?<![\w.])/(build|venv|app)\b", rf"{folder}/\1", rest)
        here = re.sub(r"(?<![\w.])/state\b", str(state), here)
        if name == "COPY":
            *sources, target = (part for part in here.split() if not part.startswith("--"))
            for source in () if "--from=" in rest else sources:
                _copy(context / source, Path(target))
        elif name == "RUN":
            subprocess.run(
                ["sh", "-ec", f'python() {{ "{sys.executable}" "$@"; }}\n{here}'], check=True, timeout=HANG_S
            )
        elif name == "WORKDIR":
            work = Path(here)
        elif name == "ENV":
            variable, _, value = here.partition("=")
            environment[variable] = value
        elif name == "ENTRYPOINT":
            entrypoint = json.loads(here)
        elif name not in ("FROM", "USER", "EXPOSE", "CMD"):
            raise ValueError(f"{name}: no instruction that is known here")
    return Image(tuple(entrypoint), work, environment)


def _copy(source: Path, target: Path) -> None:
    """Copy as COPY does: a folder by its contents."""
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)
