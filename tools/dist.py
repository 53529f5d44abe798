"""Build the files of a release in `dist`, check them, and try the wheel with each extra.

    make dist

- The source archive and the wheel are built twice, and are equal byte for byte.
- twine checks the metadata and the long description.
- Each extra is installed in an empty environment, together with the wheel; a short program uses it there.
  Nothing is installed beside the wheel that the requirements of the extra do not bring themselves.

The environments come from uv, as those of tox do.
"""

from __future__ import annotations

import filecmp
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
_UV = Path(sys.executable).with_name("uv")

_USES = {
    "": "from kafka_assignors.strategies import load_strategy; load_strategy('cooperative-sticky')",
    "aiokafka": "from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer",
    "kafka-python": "from kafka_assignors_kafka_python import CooperativeKafkaConsumer",
    "admin": "from kafka_assignors_confluent.connection import Connection; Connection('127.0.0.1:1', {}, 1)",
    "otel": "import kafka_assignors_opentelemetry",
    "watch": "from kafka_assignors_ops.watch import exporter",
    "cli": "from kafka_assignors_cli import main; raise SystemExit(main(['strategies']))",
    "replay": "from kafka_assignors_replay import local_engine",
    "spark": "from kafka_assignors_replay.spark import spark_engine",
}
"""What is tried with each extra of pyproject.toml."""


def main() -> int:
    shutil.rmtree(DIST, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        again = Path(folder) / "again"
        for where in (DIST, again):
            _run(str(_UV), "build", "-q", "--out-dir", str(where), str(ROOT))
        files = sorted(each.name for each in DIST.iterdir() if each.suffix in (".gz", ".whl"))
        same, *differing = filecmp.cmpfiles(DIST, again, files, shallow=False)
        if len(files) != 2 or same != files:
            print(f"two builds differ: {files}, {differing}", file=sys.stderr)
            return 1
        _run(
            str(_UV), "tool", "run", "-q", "twine", "check", "--strict", *(str(DIST / name) for name in files)
        )
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        extras = {"": [], **project["optional-dependencies"]}
        if extras.keys() != _USES.keys():
            print(f"tools/dist.py does not try the extras {extras.keys() ^ _USES.keys()}", file=sys.stderr)
            return 1
        (wheel,) = (DIST / name for name in files if name.endswith(".whl"))
        for extra, named in extras.items():
            requirements = [one for each in named for one in extras.get(_extra_of(each), [each])]
            added = _try(wheel, extra, requirements, Path(folder) / f"with-{extra}")
            if added != {"kafka-assignors"}:
                print(f"[{extra}] installs more than it needs: {sorted(added)}", file=sys.stderr)
                return 1
            print(f"installed and used: kafka-assignors[{extra}]", flush=True)
    print("\n".join(f"dist/{name}" for name in files))
    return 0


def _try(wheel: Path, extra: str, requirements: list[str], environment: Path) -> set[str]:
    """Install and use the wheel; the packages that came in addition to the requirements of the extra."""
    python = environment / "bin" / "python"
    _run(str(_UV), "venv", "-q", "--python", sys.executable, str(environment))
    install = (str(_UV), "pip", "install", "-q", "--python", str(python))
    if requirements:
        _run(*install, *requirements)
    before = _installed(python)
    _run(*install, f"{wheel}[{extra}]" if extra else str(wheel))
    _run(str(python), "-I", "-c", _USES[extra], cwd=environment)
    return _installed(python) - before


def _extra_of(requirement: str) -> str:
    """The extra of ours that a requirement names; the requirement itself if it is of another package."""
    return requirement.removeprefix("kafka-assignors[").removesuffix("]")


def _installed(python: Path) -> set[str]:
    listed = _run(str(_UV), "pip", "list", "-q", "--format", "freeze", "--python", str(python))
    return {line.partition("==")[0].partition(" @")[0] for line in listed.splitlines()}


def _run(*command: str, cwd: Path = ROOT) -> str:
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, text=True, timeout=900, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}\n{done.stdout}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
