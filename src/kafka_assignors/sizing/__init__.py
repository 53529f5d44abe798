"""How many members a group needs.

- `size`: the fewest members that keep every load within a limit, with a certificate, the way there from the
  present members, and what one member less would cost;
- `packing`, `moves`: the algorithms behind it;
- `autoscaling`: what partitions cost, from two looks at a running group, and a number of members that follows
  the size and does not flap.

`kafka_assignors.certificate.size` checks the certificate, and shares no code with this package.
"""

from __future__ import annotations

from kafka_assignors.sizing.autoscaling import (
    Look,
    Needed,
    Rates,
    Recommendation,
    ScalingPolicy,
    rates_from,
    recommend,
)
from kafka_assignors.sizing.size import (
    Change,
    PartitionCost,
    Size,
    SizeError,
    StepDown,
    kinds_of,
    of_kind,
    size_group,
)

__all__ = [
    "Change",
    "Look",
    "Needed",
    "PartitionCost",
    "Rates",
    "Recommendation",
    "ScalingPolicy",
    "Size",
    "SizeError",
    "StepDown",
    "kinds_of",
    "of_kind",
    "rates_from",
    "recommend",
    "size_group",
]
