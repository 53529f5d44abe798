"""A certificate, and its check by the two rules alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from kafka_assignors.criteria import PLAIN, AnyCriterion, Criteria, Scale, require_criteria
from kafka_assignors.group import Assignment, Group
from kafka_assignors.leader import check_assignment

Price = tuple[int | Fraction, ...]
"""A number for each criterion, compared like words in a dictionary; whole if all capacities are 1."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """Evidence that an assignment is the best by these criteria.

    `prices` has the price of every member that can get partitions; `scale` is the measure of balance.
    """

    criteria: Criteria
    prices: Mapping[str, Price]
    scale: Scale = PLAIN


class CertificateError(ValueError):
    """The certificate does not prove the assignment to be the best; the message says which rule it breaks.

    The assignment may be the best all the same: `prove` decides it.
    """


def check(group: Group, assignment: Assignment, certificate: Certificate) -> None:
    """Verify that no assignment of the group is better than this one by the certificate's criteria.

    Raises `InvalidAssignmentError` if the assignment is not valid for the group, and `CertificateError` if
    the certificate does not prove it to be the best. Cost: linear in partitions, subscriptions and claims.
    """
    criteria = require_criteria(certificate.criteria)
    check_assignment(group, assignment)
    prices = _prices_in_bounds(group, assignment, certificate)
    owners = _holders(group.claims.owners)
    cheapest = _Cheapest(group, prices)
    for name, holders in _holders(assignment.members).items():
        topic = group.topics[name]
        readers = cheapest.readers(name)
        owners_of_topic = owners.get(name, {})
        for partition, holder in holders.items():
            owner = owners_of_topic.get(partition)
            racks = topic.replica_racks[partition] if topic.replica_racks is not None else frozenset[str]()
            if (kind := (holder, owner, racks)) in readers.checked:
                continue
            readers.checked.add(kind)
            own = group.members[holder].rack
            paid = _sum(prices[holder], _cost(criteria, owner not in (None, holder), is_miss(own, racks)))
            for taker, rack in _takers(readers.by_rack, owner, group):
                cost = _cost(criteria, owner not in (None, taker), is_miss(rack, racks))
                if _sum(prices[taker], cost) < paid:
                    raise CertificateError(
                        f"by the certificate's own prices, partition {partition} of {name!r} costs "
                        f"{_shown(paid)} at {holder!r}, where it is, and "
                        f"{_shown(_sum(prices[taker], cost))} at {taker!r}"
                    )


def _prices_in_bounds(group: Group, assignment: Assignment, certificate: Certificate) -> Mapping[str, Price]:
    """The prices; `CertificateError` for a price that does not fit the load of its member (rule 1)."""
    digits = len(certificate.criteria)
    rest = (0,) * (digits - 1)
    scale = certificate.scale
    for what, named in (
        ("price", certificate.prices),
        ("capacity", scale.capacities),
        ("load from before", scale.already),
    ):
        if strangers := named.keys() - group.members.keys():
            raise CertificateError(
                f"there is a {what} of {min(strangers)!r}, who is not a member of the group"
            )
    for member_id, member in group.members.items():
        load = assignment.load(member_id)
        price = certificate.prices.get(member_id)
        if price is None:
            if any(topic in group.topics and group.topics[topic].partitions for topic in member.topics):
                raise CertificateError(f"there is no price of member {member_id!r}")
            continue
        if len(price) != digits:
            raise CertificateError(
                f"the price of {member_id!r} has {len(price)} numbers and there are {digits} criteria"
            )
        twice, capacity = 2 * (load + scale.has_already(member_id)), scale.capacity(member_id)
        least: Price = (Fraction(twice - 1, capacity), *rest)
        most: Price = (Fraction(twice + 1, capacity), *rest)
        if price > most or (load and price < least):
            raise CertificateError(
                f"the price of {member_id!r} is {_shown(price)}, and with {load} partitions"
                f"{_shown_scale(scale, member_id)} it must lie between {_shown(least)} and {_shown(most)}"
            )
    return certificate.prices


def _holders(members: Mapping[str, Mapping[str, Iterable[int]]]) -> dict[str, dict[int, str]]:
    """The member that has each partition, by topic and partition."""
    holders: dict[str, dict[int, str]] = {}
    for member_id, by_topic in members.items():
        for name, partitions in by_topic.items():
            holders.setdefault(name, {}).update(dict.fromkeys(partitions, member_id))
    return holders


@dataclass(frozen=True, slots=True)
class _Readers:
    """The subscriber of a topic with the lowest price, by rack.

    `checked` are the kinds of partitions that have passed, by member, owner and racks: partitions of one kind
    cost the same.
    """

    by_rack: Mapping[str | None, str]
    checked: set[tuple[str, str | None, frozenset[str]]] = field(default_factory=set)


class _Cheapest:
    """The readers of each topic; topics with the same subscribers share theirs."""

    def __init__(self, group: Group, prices: Mapping[str, Price]) -> None:
        alike: dict[frozenset[str], list[str]] = {}
        for member_id in prices:
            alike.setdefault(group.members[member_id].topics, []).append(member_id)
        self._members = list(alike.values())
        self._cohorts: dict[str, list[int]] = {}
        for cohort, topics in enumerate(alike):
            for name in topics:
                self._cohorts.setdefault(name, []).append(cohort)
        self._group, self._prices = group, prices
        self._readers: dict[tuple[int, ...], _Readers] = {}

    def readers(self, topic: str) -> _Readers:
        cohorts = tuple(self._cohorts[topic])
        if cohorts not in self._readers:
            by_rack: dict[str | None, str] = {}
            for member_id in (member_id for cohort in cohorts for member_id in self._members[cohort]):
                rack = self._group.members[member_id].rack or None
                if rack not in by_rack or self._prices[member_id] < self._prices[by_rack[rack]]:
                    by_rack[rack] = member_id
            self._readers[cohorts] = _Readers(by_rack)
        return self._readers[cohorts]


def _takers(
    by_rack: Mapping[str | None, str], owner: str | None, group: Group
) -> Iterator[tuple[str, str | None]]:
    """The members among which one has the lowest sum of price and cost.

    Within a rack the partition costs every member the same, except its owner.
    """
    for rack, member_id in by_rack.items():
        yield member_id, rack
    if owner is not None:
        yield owner, group.members[owner].rack or None


def is_miss(rack: str | None, racks: frozenset[str]) -> bool:
    """Whether a member in `rack` consumes a partition with replicas in `racks` from another rack."""
    return bool(rack) and bool(racks) and rack not in racks


def _cost(criteria: tuple[AnyCriterion, ...], moves: bool, misses: bool) -> Price:
    return tuple(criterion.count(int(moves), int(misses)) for criterion in criteria)


def _sum(one: Price, other: Price) -> Price:
    return tuple(map(sum, zip(one, other, strict=True)))


def _shown(price: Price) -> str:
    """`3/0/0`; with a fraction `7/4, 0, 0`."""
    return ("/" if all(number == int(number) for number in price) else ", ").join(map(str, price))


def _shown_scale(scale: Scale, member_id: str) -> str:
    """The member's earlier load and its capacity, as they follow "with 3 partitions"."""
    already, capacity = scale.has_already(member_id), scale.capacity(member_id)
    more = f", {already} from before" if already else ""
    return f"{more} and a capacity of {capacity}" if capacity > 1 else more
