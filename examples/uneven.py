"""Whether a member carries so much more than the mean of its group that it asks for a rebalance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

LIMIT = 1.5
"""How many times its fair share a member may carry: `weighted` promises at most 1.39 times the optimum."""

LOOKS = 10
"""The least number of looks between two requests of a member: no assignment may be better than the present
one, and a leader that has looked once knows no rate yet."""


def too_much(owned: Iterable[int], weights: Sequence[int | None], members: int) -> str | None:
    """The reason to ask for a rebalance; None without one.

    `owned` are the member's partitions of the topic, and `weights` those of all its partitions.
    """
    known = [weight or 0 for weight in weights]
    mine = sum(known[partition] for partition in owned)
    # In every assignment, some member has the heaviest partition: it is no less than a fair share.
    fair = max([sum(known) / max(members, 1), *known])
    return f"its load of {mine} is above {LIMIT} times {fair:.0f}" if mine > LIMIT * fair else None
