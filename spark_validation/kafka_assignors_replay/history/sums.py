"""The sums of a group: counts and lists of bounded length, and the values of a result that follow from them.

Only the sums leave the process that folds a group. `docs/replay.md` defines every figure.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import partial
from typing import Any

from kafka_assignors_replay.history.accuracy import MUST_MATCH, CheckOutcome
from kafka_assignors_replay.history.culprits import Culprit
from kafka_assignors_replay.history.generations import Record
from kafka_assignors_replay.history.group_replay import Replayed
from kafka_assignors_replay.history.measures import Mode, Sums
from kafka_assignors_replay.history.rebalances import CLASSIC, CONSUMER, EAGER_STRATEGIES, Cause, Generation
from kafka_assignors_replay.history.records import (
    CONSUMER_PROTOCOL_TYPE,
    EAGER_CLIENTS,
    DecodedRecord,
    RecordKind,
    from_micros,
)
from kafka_assignors_replay.result import (
    RECORDED,
    ClientAgreement,
    Difference,
    GroupSummary,
    HistorySummary,
    TruthCheck,
    UndecodableRecord,
)

MOST_LISTED = 1_000
"""The most undecodable records and differences that are listed one by one; the rest is counted."""

_COUNTED = {
    RecordKind.GENERATION: "generations",
    RecordKind.EMPTY: "empty_generations",
    RecordKind.TOMBSTONE: "tombstones",
    RecordKind.KIP848: "kip848_records",
    RecordKind.OTHER: "other_records",
}
"""The counts in a `result.HistorySummary` by kind."""

_OF_CLASSIC = ("generations", "empty_generations", "tombstones")


@dataclass(slots=True)
class GroupFacts:
    """The facts in a group's generations. `replayable` counts those of consumers, empty ones too, and
    `memberships` their members."""

    seen: int = 0
    generations: int = 0
    incarnations: int = 0
    skipped_numbers: int = 0
    clock_jumps: int = 0
    protocol_type: str | None = None
    protocols: dict[str, bool] = field(default_factory=dict)  # whether a classic generation had it
    kip848: bool = False
    cooperative: set[str] = field(default_factory=set)  # clients with a member that kept partitions
    clients: set[str] = field(default_factory=set)
    topics: set[str] = field(default_factory=set)
    min_members: int | None = None
    max_members: int = 0
    first_timestamp: datetime | None = None
    last_timestamp: datetime | None = None
    partition: int = 0
    first_offset: int = 0
    last_offset: int = 0
    replayable: int = 0
    memberships: int = 0

    def add(self, record: Generation) -> None:
        if self.first_timestamp is None or self.last_timestamp is None:
            self.first_timestamp = self.last_timestamp = record.timestamp
            self.partition, self.first_offset = record.partition, record.offset
        self.seen += 1
        self.incarnations = record.incarnation
        self.skipped_numbers += record.skipped
        self.clock_jumps += record.clock_back
        self.first_timestamp = min(self.first_timestamp, record.timestamp)
        self.last_timestamp = max(self.last_timestamp, record.timestamp)
        self.partition = min(self.partition, record.partition)
        self.first_offset = min(self.first_offset, record.offset)
        self.last_offset = max(self.last_offset, record.offset)
        if record.protocol_type is not None:
            self.protocol_type = max(self.protocol_type or "", record.protocol_type)
        if record.is_of_consumers:
            self.replayable += 1
            self.memberships += len(record.members)
        if record.empty:
            return
        self.generations += not record.replacement
        self.kip848 = self.kip848 or record.type == CONSUMER
        count = len(record.members)
        self.min_members = count if self.min_members is None else min(self.min_members, count)
        self.max_members = max(self.max_members, count)
        self.protocols[record.protocol] = self.protocols.get(record.protocol, False) or record.type == CLASSIC
        for member in record.members.values():
            self.clients.add(member.client)
            if member.holds:
                self.cooperative.add(member.client)
            self.topics.update(member.topics)


_Outcome = tuple[CheckOutcome, "str | None"]


@dataclass(slots=True)
class GroupSums:
    """The sums of one group, or of the records that name no group.

    The fields from `rebalances` on are about its logical rebalances, and why some are not replayed.
    """

    group: str | None = None
    records: Counter[str] = field(default_factory=Counter)
    first_micros: int | None = None
    last_micros: int | None = None
    facts: GroupFacts = field(default_factory=GroupFacts)
    figures: defaultdict[tuple[str, str], Sums] = field(default_factory=partial(defaultdict, Sums))
    causes: Counter[Cause] = field(default_factory=Counter)
    culprits: list[Culprit] = field(default_factory=list)
    agreement: defaultdict[tuple[str, str], Counter[_Outcome]] = field(
        default_factory=partial(defaultdict, Counter)
    )  # by client and strategy
    differences: list[Difference] = field(default_factory=list)
    undecodable: list[tuple[int, int, str | None, str]] = field(default_factory=list)
    rebalances: int = 0
    replayed_rebalances: int = 0
    not_replayed: Counter[str] = field(default_factory=Counter)
    max_partitions: int = 0
    inferred_topics: set[str] = field(default_factory=set)

    def add_record(self, record: Record, event: DecodedRecord) -> None:
        counts, micros = self.records, record.micros
        counts["records"] += record.copies
        counts["duplicates"] += record.copies - 1
        counts["undecodable"] += event.reason is not None
        if (name := _COUNTED.get(event.kind)) is not None:
            counts[name] += 1
        if self.first_micros is None or micros < self.first_micros:
            self.first_micros = micros
        if self.last_micros is None or micros > self.last_micros:
            self.last_micros = micros
        if event.group is not None and event.kind is not RecordKind.OFFSET_COMMIT:
            self.group = event.group
        if event.reason is not None and len(self.undecodable) < MOST_LISTED:
            self.undecodable.append((record.partition, record.offset, event.group, event.reason))

    def add_row(self, row: Replayed, first_mode: str) -> None:
        if row.measures is not None:
            self.figures[row.mode, row.strategy].add(row.measures)
        elif row.strategy != RECORDED and row.problem is not None:
            # No strategy has failed where the recorded rebalance is unknown.
            self.figures[row.mode, row.strategy].fail(row.problem)
        if row.strategy == RECORDED and row.mode == first_mode:
            self.rebalances += 1
            self.inferred_topics.update(row.inferred_topics)
            if row.measures is not None:
                self.replayed_rebalances += 1
                self.max_partitions = max(self.max_partitions, row.measures.partitions)
            elif row.problem is not None:
                self.not_replayed[row.problem] += 1

    def add_checked(self, outcome: CheckOutcome, found: Difference) -> None:
        self.agreement[found.client, found.strategy][outcome, found.explanation] += 1
        if found.detail and len(self.differences) < MOST_LISTED:
            self.differences.append(found)


# The values of a result

_COUNTS = ("records", "duplicates", "undecodable", *_COUNTED.values())
_OF_FACTS = {each.name for each in fields(GroupFacts)} & {each.name for each in fields(GroupSummary)} - {
    *("protocols", "clients", "min_members", "topics")  # in another form there
}


def group_summary(sums: GroupSums) -> GroupSummary:
    """The summary of a group with at least one generation."""
    facts, not_replayed = sums.facts, dict(sums.not_replayed)
    if not sums.rebalances and facts.protocol_type not in (CONSUMER_PROTOCOL_TYPE, None, ""):
        reason = f"members of protocol type {facts.protocol_type!r} are no consumers"
        not_replayed[reason] = facts.generations
    classic_protocols = {name for name, classic in facts.protocols.items() if classic}
    eager = not (facts.cooperative or facts.kip848) or EAGER_STRATEGIES.intersection(classic_protocols)
    own: dict[str, Any] = {name: getattr(facts, name) for name in _OF_FACTS}
    return GroupSummary(
        **own,
        group=sums.group or "",
        rebalances=sums.rebalances or facts.generations,
        replayed_rebalances=sums.replayed_rebalances,
        not_replayed=not_replayed,
        causes={cause.value: count for cause, count in sums.causes.most_common()},
        protocols=tuple(name for name in facts.protocols if name),
        rebalance_protocols=(("eager",) if eager else ())
        + (("cooperative",) if facts.cooperative else ())
        + (("kip-848",) if facts.kip848 else ()),
        clients=tuple(sorted(facts.clients)),
        eager_clients=tuple(sorted(EAGER_CLIENTS & facts.clients - facts.cooperative)),
        min_members=facts.min_members or 0,
        topics=tuple(sorted(facts.topics)),
        max_partitions=sums.max_partitions,
        inferred_topics=tuple(sorted(sums.inferred_topics)),
    )


def history_of(source: str, everything: Sequence[GroupSums], others: int) -> HistorySummary:
    """The counts of the records; `everything` includes the sums of records that name no group, and there are
    `others` of other topics."""
    counts = [*(sums.records for sums in everything), Counter(records=others, other_records=others)]
    first = min((each.first_micros for each in everything if each.first_micros is not None), default=None)
    last = max((each.last_micros for each in everything if each.last_micros is not None), default=None)
    return HistorySummary(
        source=source,
        groups=sum(any(each[name] for name in _OF_CLASSIC) for each in counts),
        kip848_groups=sum(each["kip848_records"] > 0 for each in counts),
        **{name: sum(each[name] for each in counts) for name in _COUNTS},
        skipped_numbers=sum(sums.facts.skipped_numbers for sums in everything),
        clock_jumps=sum(sums.facts.clock_jumps for sums in everything),
        first_timestamp=None if first is None else from_micros(first),
        last_timestamp=None if last is None else from_micros(last),
    )


def values_of(groups: Sequence[GroupSums]) -> dict[str, Any]:
    """The fields of a `result.ReplayResult` about groups, which have at least one generation each."""
    return {
        "groups": tuple(map(group_summary, groups)),
        "verdicts": tuple(
            figures.verdict(sums.group or "", strategy, Mode(mode))
            for sums in groups
            for (mode, strategy), figures in sorted(sums.figures.items())
        ),
        "culprits": tuple(culprit for sums in groups for culprit in sums.culprits),
        "truth": truth_of(groups),
    }


def undecodable_of(everything: Iterable[GroupSums]) -> tuple[UndecodableRecord, ...]:
    """The first undecodable records, by partition and offset."""
    listed = [each for sums in everything for each in sums.undecodable]
    listed.sort(key=lambda each: (each[0], each[1], each[2] is not None, each[2] or "", each[3]))
    return tuple(UndecodableRecord(*each) for each in listed[:MOST_LISTED])


def truth_of(groups: Sequence[GroupSums]) -> TruthCheck:
    """How often the replay of range and roundrobin gives the recorded assignment, by client."""
    clients: defaultdict[tuple[str, str], Counter[_Outcome]] = defaultdict(Counter)
    for sums in groups:
        for key, counts in sums.agreement.items():
            clients[key].update(counts)
    differing = sorted(
        (each for sums in groups for each in sums.differences), key=lambda each: (each.partition, each.offset)
    )
    return TruthCheck(
        clients=tuple(_agreement(*key, counts) for key, counts in sorted(clients.items())),
        differences=tuple(differing[:MOST_LISTED]),
    )


def _agreement(client: str, strategy: str, counts: Counter[_Outcome]) -> ClientAgreement:
    def total(outcome: CheckOutcome) -> int:
        return sum(count for (each, _), count in counts.items() if each is outcome)

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
