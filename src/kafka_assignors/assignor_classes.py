"""What the assignor classes of all adapters have in common: one class for each strategy of the core.

An adapter derives and documents a class of its own from each; its `StrategyAssignor` adds the client's
interface:

    class StickyAssignor(RunsSticky, StrategyAssignor): ...
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from kafka_assignors.assignor import Assignor, AssignorOptions
from kafka_assignors.strategies.range_roundrobin import Range, RoundRobin
from kafka_assignors.strategies.sticky import Capacity, CooperativeSticky, RackAwareSticky, Sticky

if TYPE_CHECKING:
    from typing_extensions import Unpack


class RunsRange(Assignor):
    def __init__(self, **options: Unpack[AssignorOptions]) -> None:
        super().__init__(Range(), **options)


class RunsRoundRobin(Assignor):
    def __init__(self, **options: Unpack[AssignorOptions]) -> None:
        super().__init__(RoundRobin(), **options)


class RunsSticky(Assignor):
    def __init__(self, **options: Unpack[AssignorOptions]) -> None:
        super().__init__(Sticky(), **options)


class RunsCooperativeSticky(Assignor):
    def __init__(self, **options: Unpack[AssignorOptions]) -> None:
        super().__init__(CooperativeSticky(), **options)


class RunsRackAwareSticky(Assignor):
    def __init__(
        self, *, moves_per_miss: Fraction | float | None = None, **options: Unpack[AssignorOptions]
    ) -> None:
        super().__init__(RackAwareSticky(moves_per_miss), **options)


class RunsCapacity(Assignor):
    def __init__(self, *, capacity: int, **options: Unpack[AssignorOptions]) -> None:
        super().__init__(Capacity(capacity), **options)
