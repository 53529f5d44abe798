"""What the assignor classes of both clients have in common: one class for each strategy of this package."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kafka_assignors.assignor import Assignor, AssignorOptions
from kafka_assignors_strategies.composed import Priority, Rollout, Standby
from kafka_assignors_strategies.weighted import THRESHOLD, Weighted

if TYPE_CHECKING:
    from typing_extensions import Unpack


class RunsStandby(Assignor):
    def __init__(
        self, *, standby: bool = False, active_at_least: int = 1, **options: Unpack[AssignorOptions]
    ) -> None:
        super().__init__(Standby(standby=standby, active_at_least=active_at_least), **options)


class RunsPriority(Assignor):
    def __init__(
        self,
        *,
        first: Iterable[Iterable[str | tuple[str, Iterable[int]]]],
        **options: Unpack[AssignorOptions],
    ) -> None:
        super().__init__(Priority(first), **options)


class RunsWeighted(Assignor):
    def __init__(
        self,
        weights: Callable[[Mapping[str, int]], Any],
        *,
        threshold: float = THRESHOLD,
        budget: int | None = None,
        weights_timeout_s: float = 2.0,
        **options: Unpack[AssignorOptions],
    ) -> None:
        strategy = Weighted(threshold=threshold, budget=budget)
        super().__init__(strategy, weights=weights, weights_timeout_s=weights_timeout_s, **options)


class RunsRollout(Assignor):
    def __init__(
        self,
        *,
        release: str,
        share: float | None = None,
        draining: bool = False,
        **options: Unpack[AssignorOptions],
    ) -> None:
        self._rollout = Rollout(release, share, draining=draining)
        super().__init__(self._rollout, **options)

    def announce(self, *, share: float | None = None, draining: bool | None = None) -> None:
        """Announce another share or `draining` from the next join on; `enforce_rebalance` asks for a join."""
        self._rollout.announce(share=share, draining=draining)
