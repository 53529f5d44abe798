"""Makespan: partitions have weights, and the greatest load of any member should be as low as possible.

That is scheduling on machines, for which no exact method is fast in general. So this package is a heuristic
with bounds: one is proved beforehand, and one is reported for each assignment.

- `default_weights`: the weights of partitions whose weight is unknown;
- `jobs`: the group in numbers;
- `lower_bound`: a load that no assignment can stay below;
- `initial`: an assignment that looks at no owner, within a proved factor of the optimum;
- `local_search`: an assignment that is improved step by step;
- `balance`: all of it in turn, and which improvements are worth their moves;
- `report`: how good an assignment is.
"""

from __future__ import annotations

from kafka_assignors.makespan.balance import Terms, balance_loads
from kafka_assignors.makespan.report import LoadReport, measure_loads

__all__ = ["LoadReport", "Terms", "balance_loads", "measure_loads"]
