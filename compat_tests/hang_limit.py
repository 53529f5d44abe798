"""How long a test waits for what must happen.

A limit for hangs and no measure of speed: a test reaches it only if the condition never holds, also on a
machine that is busy with other work. A whole test may take longer (`timeout` in pyproject.toml).
"""

from __future__ import annotations

__all__ = ["HANG_S"]

HANG_S = 240.0
