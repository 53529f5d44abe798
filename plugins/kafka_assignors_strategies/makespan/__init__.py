"""Makespan: partitions have weights, and the greatest load of any member should be as low as possible.

That is scheduling on machines, for which no exact method is fast in general. So this is a heuristic with two
bounds: a factor of the optimum that is proved beforehand, and a lower bound that `kafka_assignors.loads`
reports with each assignment.

- `jobs`: the group in numbers, unknown weights included;
- `local_search`: an assignment that is improved step by step;
- `balance`: all of these in turn, and which improvements are worth their moves.
"""

from __future__ import annotations

from kafka_assignors_strategies.makespan.balance import balance_loads

__all__ = ["balance_loads"]
