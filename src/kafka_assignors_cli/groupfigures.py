"""Figures of running groups, as tables and JSON show them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafka_assignors.jsonform import group_to_json
from kafka_assignors.livegroup import CONSUMER, LiveGroup, LiveMember, as_group, hidden_topics_problem
from kafka_assignors.outlook import Outlook

__all__ = [
    "Summary",
    "assumptions",
    "describe_json",
    "member_lag",
    "problems_of",
    "rack_misses",
    "summarize",
    "summary_json",
]


@dataclass(frozen=True, slots=True)
class Summary:
    """One line on a group. None is what is not known: loads, while it rebalances; the lag, without commits.

    `idle` members have no partition; `max_over_mean` is None as well where nobody has one.
    """

    group: str
    type: str
    state: str
    protocol: str | None
    members: int
    idle: int | None
    partitions: int | None
    max_over_mean: float | None
    lag: int | None


def summarize(live: LiveGroup) -> Summary:
    loads = live.loads
    total = sum(loads) if loads is not None else None
    return Summary(
        group=live.id,
        type=live.group_type,
        state=live.state,
        protocol=live.protocol,
        members=len(live.members),
        idle=None if loads is None else loads.count(0),
        partitions=total,
        max_over_mean=max(loads) * len(loads) / total if loads and total else None,
        lag=live.lag,
    )


def summary_json(live: LiveGroup) -> dict[str, Any]:
    return dataclasses.asdict(summarize(live))


def rack_misses(live: LiveGroup, member: LiveMember) -> int | None:
    """Partitions of the member without a replica in its rack; None where racks are unknown."""
    if member.rack is None or member.assigned is None or live.hidden_topics & member.assigned.keys():
        return None
    misses, known = 0, False
    for name, partitions in member.assigned.items():
        topic = (live.topics or {}).get(name)
        if topic is None or topic.replica_racks is None:
            continue
        known = True
        racks = topic.replica_racks
        misses += sum(
            1 for p in partitions if 0 <= p < len(racks) and racks[p] and member.rack not in racks[p]
        )
    return misses if known else None


def member_lag(live: LiveGroup, member: LiveMember) -> int | None:
    """The lag of the member's partitions; None where no commit or no end of any is known."""
    lags = [
        lag
        for topic, partitions in (member.assigned or {}).items()
        for partition in partitions
        if (lag := live.lag_of(topic, partition)) is not None
    ]
    return sum(lags) if lags else None


def assumptions(live: LiveGroup) -> tuple[str, ...]:
    """What is not known of the group, and what the figures assume for it, one sentence each."""
    found = []
    if live.group_type == CONSUMER:
        found.append(
            "KIP-848: the broker assigns and no strategy of a client runs; "
            "what strategies would do is for a group moved back to the classic protocol"
        )
    undecodable = [member for member in live.members if member.problem is not None]
    if undecodable:
        found.append(
            f"{len(undecodable)} members joined with bytes that do not decode, the first being "
            f"{undecodable[0].id!r}: {undecodable[0].problem}"
        )
    hidden = sum(member.subscription is None and member.problem is None for member in live.members)
    if hidden and live.settled:
        found.append(
            f"subscriptions and racks of {hidden} members are hidden: "
            "they are taken to subscribe to all topics of the group"
        )
    found += [f"topic {name!r} is not shown: {why}" for name, why in live.unknown_topics.items()]
    return tuple(found)


def problems_of(live: LiveGroup) -> tuple[str, ...]:
    """What could not be read of the group, and why, one sentence each."""
    return (*live.problems, hidden_topics_problem(live)) if live.hidden_topics else live.problems


def describe_json(live: LiveGroup, outlook: Outlook) -> dict[str, Any]:
    """The group in the form that `kafka-assignors assign` reads, with everything else under `about`.

    A group without members has no balance, and nothing for strategies to do: it has none of these keys.
    """
    about: dict[str, Any] = {
        **summary_json(live),
        "coordinator": None if live.coordinator is None else dataclasses.asdict(live.coordinator),
        "clients": {member.id: _client(live, member) for member in live.members},
        "offsets": _offsets(live),
        "notes": [*assumptions(live), *problems_of(live)],
    }
    if live.members:
        about["now"] = dataclasses.asdict(outlook.now)
        about["least_moved"] = outlook.least_moved
        about["strategies"] = {
            prospect.strategy: {"problem": prospect.problem}
            if prospect.quality is None
            else dataclasses.asdict(prospect.quality)
            for prospect in outlook.prospects
        }
    return {**group_to_json(as_group(live)), "about": about}


def _client(live: LiveGroup, member: LiveMember) -> dict[str, Any]:
    return {
        "client_id": member.client_id,
        "host": member.host,
        "partitions": member.load,
        "rack_misses": rack_misses(live, member),
        "lag": member_lag(live, member),
    }


def _offsets(live: LiveGroup) -> Mapping[str, Any] | None:
    """By topic and partition the committed offset and the end, which is null where it is unknown."""
    if live.committed is None:
        return None
    ends = live.ends or {}
    return {
        topic: {
            str(number): {"committed": offset, "end": ends.get(topic, {}).get(number)}
            for number, offset in sorted(partitions.items())
        }
        for topic, partitions in sorted(live.committed.items())
    }
