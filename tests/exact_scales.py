"""Random capacities, and partitions that members have already, for any group.

The common multiple of a group's capacities is at most 10,000, so the exact solver can count in floating-point
numbers without error.
"""

from __future__ import annotations

import random

from kafka_assignors.criteria import Scale
from kafka_assignors.group import Group

PALETTES: tuple[tuple[int, ...], ...] = (
    (1, 2),
    (1, 2, 4, 8),
    (2, 3),
    (3, 4, 5),
    tuple(range(1, 11)),
    (7, 11, 13),
    (1, 100, 10_000),
    (97, 100),
    (1, 997),
)


def random_scale(rng: random.Random, group: Group) -> Scale:
    """A random scale for the group; it leaves some members out."""
    palette = rng.choice(PALETTES)
    named = [member_id for member_id in sorted(group.members) if rng.random() < 0.9]
    most = rng.choice((0, 0, 1, 3, 20))
    return Scale(
        capacities={member_id: rng.choice(palette) for member_id in named},
        already={member_id: rng.randint(0, most) for member_id in named} if most else {},
    )
