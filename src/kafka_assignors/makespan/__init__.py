"""Loads: partitions have weights, and the greatest load of any member is to be as little as possible.

That is scheduling on machines, which nobody solves exactly in general. So this is a heuristic with bounds:
one is proved beforehand, and one is reported for each assignment. A file for each idea:

- `known`: what stands in for weights that nobody knows;
- `jobs`: the group in numbers;
- `bound`: what no assignment can be better than;
- `dealing`, `rounding`: an assignment from nothing, within a proved factor of the optimum;
- `placing`, `search`: an assignment that is changed step by step, for the better;
- `improving`: what of that is worth moving partitions for;
- `balancing`: all of it in turn;
- `report`: how good an assignment is, whoever made it.
"""

from __future__ import annotations

from kafka_assignors.makespan.balance import Terms
from kafka_assignors.makespan.balancing import balance_loads
from kafka_assignors.makespan.report import LoadReport, is_weighed, measure_loads, terms_of

__all__ = ["LoadReport", "Terms", "balance_loads", "is_weighed", "measure_loads", "terms_of"]
