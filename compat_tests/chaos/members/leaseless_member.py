"""A faulty member program: our member on aiokafka, whose lease never ends."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from aiokafka import TopicPartition

from compat_tests.chaos.members import aiokafka_member
from compat_tests.support.member_reports import MemberSpec
from kafka_assignors.rebalance import Settings
from kafka_assignors_aiokafka.cooperative import coordinator

_A_DAY_S = 86_400.0


def _endless(**settings: Any) -> Settings:
    return dataclasses.replace(
        Settings(**settings),
        session_timeout=_A_DAY_S,
        rebalance_timeout=_A_DAY_S,
        # A member also stops when it finds that it was frozen for longer than this.
        max_poll_interval=_A_DAY_S,
    )


class LeaselessMember(aiokafka_member.Member):
    """A member that freezes with records in its buffer, and delivers them as soon as it goes on."""

    rest_between_polls_s = 0.3

    def __init__(self, spec: MemberSpec) -> None:
        super().__init__(spec)
        self._positions: dict[TopicPartition, int] = {}

    async def _process(self, batch: dict[TopicPartition, Sequence[Any]]) -> None:
        await super()._process(batch)
        self._positions.update((tp, records[-1].offset + 1) for tp, records in batch.items())

    def _freeze(self, stand_still: Callable[[], object]) -> None:
        if self._has_records_in_hand():
            stand_still()
        else:
            asyncio.get_running_loop().call_later(0.01, self._freeze, stand_still)

    def _has_records_in_hand(self) -> bool:
        # The response that reveals the end of a partition has brought the records before it.
        return any(
            tp in self._positions and (self._consumer.highwater(tp) or 0) > self._positions[tp]
            for tp in self._consumer.assignment()
        )


if __name__ == "__main__":
    # The coordinator reads the member state, which reads these settings; requests carry the real ones.
    setattr(coordinator, "Settings", _endless)  # noqa: B010  # mypy takes it for a class
    aiokafka_member.main(LeaselessMember)
