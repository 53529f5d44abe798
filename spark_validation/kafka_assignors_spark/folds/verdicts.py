"""From the sums of groups to the values of a result. `docs/replay.md` defines every figure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, fields
from typing import Any, TypeVar, cast

from kafka_assignors_spark.folds.rebalances import EAGER_STRATEGIES
from kafka_assignors_spark.folds.records import CONSUMER_PROTOCOL_TYPE, from_micros
from kafka_assignors_spark.folds.sums import MOST_LISTED, Figures, GroupSums, RecordCounts
from kafka_assignors_spark.folds.truth import MUST_MATCH, CheckOutcome
from kafka_assignors_spark.options import Mode
from kafka_assignors_spark.result import (
    Churn,
    ClientAgreement,
    Culprit,
    Difference,
    GroupSummary,
    HistorySummary,
    TruthCheck,
    UndecodableRecord,
    Verdict,
)

Made = TypeVar("Made")

_MOST_CULPRITS = 20
"""Of each group, those that made it rebalance most often; the table `faults` has all."""


_COUNTS = [each.name for each in fields(RecordCounts) if not each.name.endswith("_micros")]


def verdict_of(group: str, strategy: str, mode: str, sums: Figures) -> Verdict:
    """A strategy that failed every time has zeros for its figures."""
    judged = sums.rebalances or 1
    return _built(
        Verdict,
        sums,
        group=group,
        strategy=strategy,
        mode=Mode(mode),
        stickiness=1 - sums.moved / sums.could_stay if sums.could_stay else 1.0,
        max_over_mean=sums.max_over_mean / judged,
        max_minus_min=sums.spread / judged,
        worst_max_minus_min=sums.worst_spread,
        load_stddev=sums.load_stddev / judged,
        paused_eager_s=sums.paused_eager_s if sums.rebalances else None,
        paused_cooperative_s=sums.paused_cooperative_s if sums.rebalances else None,
        rate_over_bound=sums.rate_over_bound / sums.rated if sums.rated else None,
        worst_rate_over_bound=sums.worst_rate_over_bound if sums.rated else None,
        failures=tuple(
            text if count == 1 else f"{text} (and {count - 1} more of this kind)"
            for text, count in sums.failures.values()
        ),
    )


def _built(kind: Callable[..., Made], said_by: object, **own: Any) -> Made:
    """A value of the dataclass `kind`: its `own` fields, and those that `said_by` has under the same name."""
    names = (each.name for each in fields(cast(Any, kind)))
    return kind(**{**{name: getattr(said_by, name) for name in names if hasattr(said_by, name)}, **own})


def verdicts_of(groups: Iterable[GroupSums]) -> tuple[Verdict, ...]:
    """In the order of groups, modes and strategies."""
    return tuple(
        verdict_of(sums.group or "", strategy, mode, figures)
        for sums in groups
        for (mode, strategy), figures in sorted(sums.figures.items())
    )


def group_summary(sums: GroupSums) -> GroupSummary:
    """Of a group with at least one generation."""
    facts, judged = sums.facts, sums.judged
    assert facts.first_timestamp is not None
    assert facts.last_timestamp is not None
    not_replayed = dict(judged.not_replayed)
    if not judged.rebalances and facts.protocol_type not in (CONSUMER_PROTOCOL_TYPE, None, ""):
        reason = f"members of protocol type {facts.protocol_type!r} are no consumers"
        not_replayed[reason] = facts.generations
    classic_protocols = {name for name, classic in facts.protocols.items() if classic}
    eager = not (facts.cooperative or facts.kip848) or EAGER_STRATEGIES.intersection(classic_protocols)
    return _built(
        GroupSummary,
        facts,
        group=sums.group or "",
        rebalances=judged.rebalances or facts.generations,
        replayed_rebalances=judged.replayed,
        not_replayed=not_replayed,
        protocols=tuple(name for name in facts.protocols if name),
        rebalance_protocols=(("eager",) if eager else ())
        + (("cooperative",) if facts.cooperative else ())
        + (("kip-848",) if facts.kip848 else ()),
        clients=tuple(sorted(facts.clients)),
        min_members=facts.min_members or 0,
        topics=tuple(sorted(facts.topics)),
        max_partitions=judged.max_partitions,
        inferred_topics=tuple(sorted(judged.inferred_topics)),
    )


def history_of(source: str, everything: Sequence[GroupSums]) -> HistorySummary:
    """What was read; `everything` has the records that name no group, too."""
    counts = [sums.records for sums in everything]

    first = min((each.first_micros for each in counts if each.first_micros is not None), default=None)
    last = max((each.last_micros for each in counts if each.last_micros is not None), default=None)
    return HistorySummary(
        source=source,
        groups=sum(each.classic for each in counts),
        kip848_groups=sum(each.kip848_records > 0 for each in counts),
        **{name: sum(getattr(each, name) for each in counts) for name in _COUNTS},
        skipped_numbers=sum(sums.facts.skipped_numbers for sums in everything),
        clock_jumps=sum(sums.facts.clock_jumps for sums in everything),
        first_timestamp=None if first is None else from_micros(first),
        last_timestamp=None if last is None else from_micros(last),
    )


def undecodable_of(everything: Iterable[GroupSums]) -> tuple[UndecodableRecord, ...]:
    """The first ones, in the order of their places."""
    listed = [each for sums in everything for each in sums.undecodable]
    listed.sort(key=lambda each: (each[0], each[1], each[2] is not None, each[2] or "", each[3]))
    return tuple(UndecodableRecord(*each) for each in listed[:MOST_LISTED])


def churn_of(groups: Iterable[GroupSums]) -> tuple[Churn, ...]:
    """The most frequent cause of each group first."""
    return tuple(
        Churn(sums.group or "", cause.value, count)
        for sums in groups
        for cause, count in sorted(sums.churn.items(), key=lambda item: (-item[1], item[0].value))
    )


def culprits_of(groups: Iterable[GroupSums]) -> tuple[Culprit, ...]:
    """Of each group, those that made it rebalance most often."""
    found: list[Culprit] = []
    for sums in groups:
        ranked = sorted(
            sums.culprits.items(),
            key=lambda item: (
                -item[1].generations,
                item[0][0].value,
                item[1].first_timestamp,
                *((name is not None, name or "") for name in item[0][1:]),
            ),
        )
        found += (
            Culprit(sums.group or "", *who, **asdict(found_of)) for who, found_of in ranked[:_MOST_CULPRITS]
        )
    return tuple(found)


def truth_of(groups: Sequence[GroupSums]) -> TruthCheck:
    """How often the replay of range and roundrobin gives the recorded assignment, by client."""
    clients: dict[tuple[str, str], dict[tuple[str, str | None], int]] = {}
    for sums in groups:
        for (client, strategy, outcome, explanation), count in sums.agreement.items():
            by_outcome = clients.setdefault((client, strategy), {})
            by_outcome[outcome, explanation] = by_outcome.get((outcome, explanation), 0) + count
    differing = sorted(
        (each for sums in groups for each in sums.differences), key=lambda each: (each.partition, each.offset)
    )
    return TruthCheck(
        clients=tuple(_agreement(*key, counts) for key, counts in sorted(clients.items())),
        differences=tuple(_built(Difference, each) for each in differing[:MOST_LISTED]),
    )


def _agreement(client: str, strategy: str, counts: dict[tuple[str, str | None], int]) -> ClientAgreement:
    def total(outcome: CheckOutcome) -> int:
        return sum(count for (each, _), count in counts.items() if each == outcome.value)

    unchecked = total(CheckOutcome.UNCHECKED)
    return ClientAgreement(
        client=client,
        strategy=strategy,
        must_match=client in MUST_MATCH,
        checked=sum(counts.values()) - unchecked,
        matched=total(CheckOutcome.MATCHED),
        unchecked=unchecked,
        explained=dict(sorted((each, count) for (_, each), count in counts.items() if each)),
        unexplained=total(CheckOutcome.UNEXPLAINED),
    )
