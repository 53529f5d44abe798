"""Runs a member program with the packages as they were before warm handoff.

`before_warm_handoff.zip` has them: an earlier state of the source, as there is no release on PyPI to install.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

_PACKAGES = Path(__file__).with_name("before_warm_handoff.zip")


def run(program: str) -> None:
    """Replace this process by one that runs `program` with the earlier packages, and the same arguments."""
    os.environ["PYTHONPATH"] = os.pathsep.join([str(_PACKAGES), os.environ.get("PYTHONPATH", "")])
    os.execv(sys.executable, [sys.executable, "-m", program, *sys.argv[1:]])
