"""The package that is sent to a cluster, and a Python without it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

__all__ = ["bare_python", "py_files"]

_ROOT = Path(__file__).parents[2]
_OURS = ("kafka_assignors", "_kafka_assignors", "__editable__")


def py_files(folder: Path) -> Path:
    """The tested wheel (tox's, or one built here) as a copy in `folder`, with a name that Spark accepts.

    PySpark adds only files with the suffixes .zip, .egg and .jar from `--py-files` to the path of its
    workers.
    """
    given = [Path(each) for each in os.environ.get("TOX_PACKAGE", "").split(os.pathsep) if each]
    if not given:
        built = folder / "built"
        command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(built), str(_ROOT)]
        subprocess.run(command, check=True, timeout=300)
        given = list(built.glob("*.whl"))
    (wheel,) = given
    return Path(shutil.copyfile(wheel, folder / "kafka_assignors.zip"))


def bare_python(folder: Path) -> Path:
    """A Python in `folder` that has all installed packages except ours."""
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for each in Path(sysconfig.get_path("purelib")).iterdir():
        if not each.name.startswith(_OURS):
            (packages / each.name).symlink_to(each)
    python = folder / "bin" / "python"
    found = subprocess.run(
        [python, "-I", "-c", "import pyspark, pyarrow, typer\nimport kafka_assignors"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if "No module named 'kafka_assignors'" not in found.stderr:
        raise RuntimeError(f"{python} is to have our dependencies and not our package: {found.stderr}")
    return python
