"""A faulty member program: our member on aiokafka, which hands partitions over at once when it leads."""

from __future__ import annotations

import asyncio
from typing import Any

from compat_tests.chaos.members import aiokafka_member
from kafka_assignors import leader

_REVOKES_S = 3.0
"""It owns for so long what another member got."""


class HastyMember(aiokafka_member.Member):
    async def on_partitions_revoked(self, revoked: set[Any]) -> None:
        await asyncio.sleep(_REVOKES_S)
        await super().on_partitions_revoked(revoked)


if __name__ == "__main__":
    setattr(leader, "_still_held", lambda *_: {})  # noqa: B010  # mypy wants the same signature
    aiokafka_member.main(HastyMember)
