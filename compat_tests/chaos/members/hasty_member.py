"""A faulty member program: our member on aiokafka, which hands partitions over at once when it leads."""

from __future__ import annotations

import asyncio
from typing import Any

from compat_tests.chaos.members import aiokafka_member
from kafka_assignors import leader


def _nothing(*_: Any) -> dict[str, Any]:
    return {}


if __name__ == "__main__":
    setattr(leader, "_still_held", _nothing)  # noqa: B010  # mypy wants the same signature
    asyncio.run(aiokafka_member.main())
