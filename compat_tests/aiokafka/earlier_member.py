"""A member program: `cooperative_member` of the release before warm handoff."""

from __future__ import annotations

from compat_tests.support.earlier_release import run

if __name__ == "__main__":
    run("compat_tests.aiokafka.cooperative_member")
