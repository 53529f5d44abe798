"""A certificate of how many members a group needs at least, and how many suffice; and its check.

Every partition has a cost, and no member may carry more than a limit. There are two ways to prove that fewer
members do not suffice:

- by a **bound**: a function that takes a cost to a value, such that costs that fit one member have values
  that fit one member too (a dual feasible function). If the values of all partitions exceed what n - 1
  members can have, then n members are needed. A `SizeBound` names one function of a family, and the check
  computes it anew.
- by a **search** that has tried all ways to use one member less. The check searches again, in another order:
  partition by partition, where the solver goes member by member.

The family, for a limit L and a cost c, after both are divided by a divisor of all costs (a member uses
multiples of it alone, so L is rounded down):

- `threshold` t, at most L / 2: c counts L if it is above L - t, and 0 if it is below t. Source: S. Martello,
  P. Toth, "Lower bounds and reduction procedures for the bin packing problem", Discrete Applied Mathematics
  28 (1990), bound L2.
- `parts` k, if it is not 0: c counts as it is if (k + 1) c is a multiple of L, and otherwise as many k-th
  parts of L as there are whole (k + 1)-th parts in c. Source: S. P. Fekete, J. Schepers, "New classes of fast
  lower bounds for bin packing problems", Mathematical Programming 91 (2001), function u(k) and theorem 1.

The check does not depend on the solver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafka_assignors.certificate.check import CertificateError
from kafka_assignors.group import TopicPartitions

CHECKED_NODES = 500_000
"""The most states that the check of a search visits before it gives up."""


@dataclass(frozen=True, slots=True)
class SizeBound:
    """A function of the family; all costs are multiples of `divisor`."""

    divisor: int = 1
    threshold: int = 0
    parts: int = 0


@dataclass(frozen=True, slots=True)
class SizeCertificate:
    """Evidence that at least `least` members are needed, and that `len(members)` suffice.

    If the two are equal, that number is the minimum.

    Attributes:
        limit: the most that a member may carry, in the unit of the costs.
        members: the partitions of each member.
        least: fewer members do not suffice.
        bound: the bound that proves `least`; None if a search proves it.
    """

    limit: int
    members: Sequence[TopicPartitions]
    least: int
    bound: SizeBound | None


def check_size(
    costs: Mapping[str, Sequence[int]], certificate: SizeCertificate, *, nodes: int = CHECKED_NODES
) -> None:
    """Verify the certificate for partitions with these costs.

    Args:
        costs: by topic, the cost of each partition from partition 0 on; integers of at least 0.
        nodes: the most states that the check of a search may visit.

    Raises `CertificateError`, which says what is wrong. Cost: linear in the partitions without a search.
    """
    _require_assignment(costs, certificate)
    everything = [cost for of_topic in costs.values() for cost in of_topic]
    least = certificate.least
    if least <= (1 if everything else 0):
        return
    if certificate.bound is not None:
        found = members_by(everything, certificate.limit, certificate.bound)
        if found < least:
            raise CertificateError(
                f"the bound {certificate.bound} shows that {found} members are needed, and not {least}"
            )
    elif _Search(certificate.limit, least - 1, nodes).fits(everything):
        raise CertificateError(f"{least - 1} members suffice")


def members_by(costs: Sequence[int], limit: int, bound: SizeBound) -> int:
    """How many members are needed by this bound; `CertificateError` if it is not a valid bound."""
    divisor, threshold, parts = bound.divisor, bound.threshold, bound.parts
    if divisor < 1 or any(cost % divisor for cost in costs):
        raise CertificateError(f"not all costs are multiples of {divisor}")
    whole = limit // divisor
    if not 0 <= 2 * threshold <= whole or parts < 0 or whole < 1:
        raise CertificateError(f"{bound} is no bound for a limit of {limit}")
    # Values are multiplied by `parts`, which makes them integers.
    total, times = 0, max(1, parts)
    for cost in costs:
        share = cost // divisor
        share = 0 if share < threshold else whole if share > whole - threshold else share
        if parts and (parts + 1) * share % whole:
            total += (parts + 1) * share // whole * whole
        else:
            total += times * share
    return -(-total // (times * whole))


def _require_assignment(costs: Mapping[str, Sequence[int]], certificate: SizeCertificate) -> None:
    """Raise unless every partition is with one member, and no member carries more than the limit."""
    seen: set[tuple[str, int]] = set()
    for number, member in enumerate(certificate.members):
        load = 0
        for topic, partitions in member.items():
            for partition in partitions:
                if not 0 <= partition < len(costs.get(topic, ())):
                    raise CertificateError(f"member {number} has {topic}-{partition}, which has no cost")
                if (topic, partition) in seen:
                    raise CertificateError(f"{topic}-{partition} is with two members")
                seen.add((topic, partition))
                load += costs[topic][partition]
        if load > certificate.limit:
            raise CertificateError(f"member {number} has {load}, above the limit of {certificate.limit}")
    if missing := sum(map(len, costs.values())) - len(seen):
        raise CertificateError(f"{missing} partitions are with no member")


class _Search:
    """Tries all members for each partition in turn, the costliest partition first.

    It tries only one of several members with equal loads, and no state twice.
    """

    def __init__(self, limit: int, members: int, nodes: int) -> None:
        self._limit, self._members, self._nodes = limit, members, nodes
        self._seen: set[tuple[int, ...]] = set()

    def fits(self, costs: Sequence[int]) -> bool:
        """Whether the members can carry these costs."""
        ordered = sorted((cost for cost in costs if cost), reverse=True)
        left = sum(ordered)
        waiting: list[tuple[int, tuple[int, ...]]] = [(0, (self._limit,) * self._members)]
        after = [left]
        for cost in ordered:
            after.append(after[-1] - cost)
        while waiting:
            at, rooms = waiting.pop()
            if at == len(ordered):
                return True
            # Room that is too small for the cheapest partition stays empty.
            if sum(room for room in rooms if room >= ordered[-1]) < after[at]:
                continue
            if (state := (at, *rooms)) in self._seen:
                continue
            self._seen.add(state)
            if len(self._seen) > self._nodes:
                raise CertificateError(
                    f"the check cannot confirm within {self._nodes} steps that {self._members} members do "
                    "not suffice"
                )
            cost = ordered[at]
            for place, room in enumerate(rooms):
                if room >= cost and (place == 0 or rooms[place - 1] != room):
                    rest = (*rooms[:place], room - cost, *rooms[place + 1 :])
                    waiting.append((at + 1, tuple(sorted(rest))))
        return False
