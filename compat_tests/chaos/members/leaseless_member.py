"""A member program with a fault: our member on aiokafka, whose lease never ends."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

from compat_tests.chaos.members import aiokafka_member
from kafka_assignors.rebalance import Settings
from kafka_assignors_aiokafka.cooperative import coordinator

_A_DAY_S = 86_400.0


def _endless(**settings: Any) -> Settings:
    return dataclasses.replace(
        Settings(**settings),
        session_timeout=_A_DAY_S,
        rebalance_timeout=_A_DAY_S,
        # A member that finds itself frozen for longer than this stops as well.
        max_poll_interval=_A_DAY_S,
    )


if __name__ == "__main__":
    # The coordinator asks the machine, and the machine asks its settings; requests have the true ones.
    setattr(coordinator, "Settings", _endless)  # noqa: B010  # mypy takes it for a class
    aiokafka_member.Member.rest_between_polls_s = 0.3
    asyncio.run(aiokafka_member.main())
