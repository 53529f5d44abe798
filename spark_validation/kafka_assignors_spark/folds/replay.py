"""One group replayed: each of its rebalances, under each strategy, measured.

Each strategy is replayed in two modes, with the facts that a leader of the strategy would have had:

* **one-step**: each rebalance starts from the recorded owners before it.
* **steady-state**: each rebalance starts from the strategy's own last assignment, as if it had been in use
  from the start. After a rebalance that cannot be judged, it starts again from the recorded owners.

A strategy that can run cooperatively does. Its rounds are then played out one after the other, each with the
partitions that members really own at that moment, until nothing is withheld: what is measured is the settled
assignment. A strategy that stands for an assignor of the broker (KIP-848) has one target and no rounds.

Pure Python without Spark, one record at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from datetime import datetime
from typing import Any

from kafka_assignors.group import NO_GENERATION, Assignment, Group, Member, Topic, TopicPartitions
from kafka_assignors.leader import lead
from kafka_assignors.pause_model import Consumption, PauseModel
from kafka_assignors.quality import Quality, least_moved, least_rack_misses, measure
from kafka_assignors.strategy import MemberContext, RebalanceProtocol, Strategy
from kafka_assignors_spark.catalogue import Catalogue
from kafka_assignors_spark.folds.consumption import consumptions, partitions_of, recorded_consumptions
from kafka_assignors_spark.folds.leader_view import leader_view
from kafka_assignors_spark.folds.rebalances import Generation, Rebalance, RebalanceFold, Replacement
from kafka_assignors_spark.folds.replay_state import read_state, write_state
from kafka_assignors_spark.options import RECORDED, Mode
from kafka_assignors_spark.timestamps import to_micros

__all__ = ["GroupReplay", "Replayed", "replay_group"]

_DEFAULT_PAUSES = PauseModel()

MOST_ROUNDS = 4
"""KIP-429 needs two. A strategy that has not settled after four rounds changes its assignment every time."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """A row of `schemas.REPLAYED`: a rebalance under one strategy. With a `problem` it has no measures."""

    group: str
    offset: int
    generation: int
    timestamp: datetime
    strategy: str
    mode: str
    generations: int
    members: int
    partitions: int | None = None
    moved: int | None = None
    least_moved: int | None = None
    could_stay: int | None = None
    min_load: int | None = None
    max_load: int | None = None
    max_over_mean: float | None = None
    load_stddev: float | None = None
    rounds: int | None = None
    rack_misses: int | None = None
    least_rack_misses: int | None = None
    vacated: int | None = None
    paused_s: float | None = None
    paused_eager_s: float | None = None
    paused_cooperative_s: float | None = None
    inferred_topics: Sequence[str] = ()
    problem: str | None = None

    def row(self) -> tuple[Any, ...]:
        """The values in the order of `schemas.REPLAYED`, the timestamp in microseconds."""
        group, offset, generation, timestamp, *rest = astuple(self)
        return (group, offset, generation, to_micros(timestamp), *rest)


def replay_group(
    records: Iterable[Generation],
    catalogue: Catalogue,
    strategies: Mapping[str, Strategy],
    modes: Iterable[Mode] = tuple(Mode),
    pauses: PauseModel = _DEFAULT_PAUSES,
) -> Iterator[Replayed]:
    """Replay one group from its records in order. `strategies` by the name under which they are reported."""
    group = GroupReplay(catalogue, strategies, modes, pauses)
    for record in records:
        yield from group.feed(record)
    yield from group.finish()


@dataclass(frozen=True, slots=True)
class _Prior:
    """What members had, by member id, as of a generation."""

    members: Mapping[str, TopicPartitions]
    generation: int


@dataclass(slots=True)
class _State:
    """All that the replay of a group remembers; `own` has each strategy's own last assignment
    (steady-state)."""

    rebalances: RebalanceFold = field(default_factory=RebalanceFold)
    own: dict[str, _Prior] = field(default_factory=dict)


class GroupReplay:
    """The replay of one group: `feed` each record in order, then `finish`.

    It may pause after any record: a new one made in the same way goes on where `state` was taken, once that
    has been `restore`d. What production did is left out unless `recorded`.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        strategies: Mapping[str, Strategy],
        modes: Iterable[Mode],
        pauses: PauseModel = _DEFAULT_PAUSES,
        *,
        recorded: bool = True,
    ) -> None:
        self._catalogue = catalogue
        self._strategies = strategies
        self._modes = tuple(modes)
        self._pauses = pauses
        self._recorded = recorded
        self._state = _State()

    def state(self) -> bytes:
        """What is remembered of the records so far; its size is that of a few generations."""
        return write_state(self._state)

    def restore(self, state: bytes) -> None:
        """Go on from a `state` that the same version of this package gave. `StateError` if it is none."""
        self._state = read_state(_State, state)

    def feed(self, record: Generation) -> Iterator[Replayed]:
        """The rebalance that this record completes, if it does, under every strategy."""
        yield from self._replay(self._state.rebalances.feed(record))

    def finish(self) -> Iterator[Replayed]:
        """What is left when there are no more records."""
        yield from self._replay(self._state.rebalances.finish())

    def _replay(self, items: Iterable[Rebalance | Replacement]) -> Iterator[Replayed]:
        for item in items:
            if isinstance(item, Replacement):
                self._rename(item.new_ids)
            else:
                yield from self._rebalance(item)

    def _rename(self, new_ids: Mapping[str, str]) -> None:
        for name, prior in self._state.own.items():
            renamed = {new_ids.get(member_id, member_id): had for member_id, had in prior.members.items()}
            self._state.own[name] = replace(prior, members=renamed)

    def _rebalance(self, rebalance: Rebalance) -> Iterator[Replayed]:
        subscribed = {topic for member in rebalance.members.values() for topic in member.topics}
        view = leader_view(self._catalogue, rebalance.timestamp, subscribed, rebalance.recorded)
        problem = rebalance.problem or view.problem
        production = _Prior(rebalance.prior, rebalance.prior_generation)
        after = _Prior(rebalance.recorded, rebalance.generation)

        group = None if problem else _group(rebalance, view.topics, production)
        # It depends on nothing that members own, so it is the same for all strategies in both modes.
        least_misses = None if group is None else least_rack_misses(group)
        # Costly, and the same in both modes.
        least = None if group is None else self._least_moved(group)
        for mode in self._modes:
            head = Replayed(
                group=rebalance.group,
                offset=rebalance.offset,
                generation=rebalance.generation,
                timestamp=rebalance.timestamp,
                strategy=RECORDED,
                mode=mode.value,
                generations=rebalance.generations,
                members=len(rebalance.members),
                least_rack_misses=least_misses,
                inferred_topics=view.inferred,
                problem=problem,
            )
            if group is None:
                if self._recorded:
                    yield head
                continue
            if self._recorded and least is not None:
                recorded = measure(group, Assignment(rebalance.recorded))
                row = _measured(head, recorded, least, rebalance.generations)
                yield self._paused(row, group, production, recorded_consumptions(rebalance))
            for name, strategy in self._strategies.items():
                row = replace(head, strategy=name)
                if mode is Mode.ONE_STEP:
                    row, _ = _led(row, strategy, group, least)
                    yield self._paused(row, group, production, consumptions(strategy))
                    continue
                had = self._state.own.get(name, production) if rebalance.prior else production
                own = _group(rebalance, view.topics, had)
                row, settled = _led(row, strategy, own, None)
                yield self._paused(row, own, had, consumptions(strategy))
                self._state.own[name] = (
                    had if settled is None else _Prior(settled.members, rebalance.generation)
                )
        if group is None:
            self._state.own = dict.fromkeys(self._strategies, after)

    def _least_moved(self, group: Group) -> int | None:
        """None if no row needs it: a steady-state replay has other starting points."""
        return least_moved(group) if self._recorded or Mode.ONE_STEP in self._modes else None

    def _paused(self, row: Replayed, group: Group, prior: _Prior, ways: tuple[Consumption, ...]) -> Replayed:
        """The row with what it pauses; `ways` are those in which the group can consume, its own first."""
        if row.problem is not None or row.moved is None or row.could_stay is None:
            return row
        vacated = partitions_of(prior.members.values(), group.topics) - row.could_stay
        paused = {
            each: self._pauses.paused_s(
                each, members=row.members, could_stay=row.could_stay, moved=row.moved, vacated=vacated
            )
            for each in ways
        }
        return replace(
            row,
            vacated=vacated,
            paused_s=paused[ways[0]],
            paused_eager_s=paused.get(Consumption.EAGER),
            paused_cooperative_s=paused.get(Consumption.COOPERATIVE),
        )


def _group(rebalance: Rebalance, topics: Iterable[Topic], prior: _Prior) -> Group:
    """The group as a leader sees it whose members had `prior` and go on having it while they join."""
    members = []
    for member in rebalance.members.values():
        had = prior.members.get(member.member_id)
        # A member revokes what it no longer subscribes to before it joins.
        owned = {topic: had[topic] for topic in member.topics if had.get(topic)} if had else {}
        members.append(
            Member(
                id=member.member_id,
                topics=frozenset(member.topics),
                instance_id=member.instance_id,
                rack=member.rack,
                owned=owned,
                generation=NO_GENERATION if had is None else prior.generation,
            )
        )
    return Group.of(topics, members, rebalance.generation)


def _led(
    row: Replayed, strategy: Strategy, group: Group, least: int | None
) -> tuple[Replayed, Assignment | None]:
    """The measured row and the settled assignment, or a row that says how the strategy failed."""
    try:
        settled, rounds = settle(strategy, group)
    except Exception as error:  # a strategy of the user may raise any error, which is a finding about it
        problem = f"{type(error).__name__}: {error}"
        return replace(row, least_rack_misses=None, problem=problem), None
    least = least_moved(group) if least is None else least
    return _measured(row, measure(group, settled), least, rounds), settled


def _measured(row: Replayed, quality: Quality, least: int, rounds: int) -> Replayed:
    return replace(
        row,
        partitions=quality.partitions,
        moved=quality.moved,
        least_moved=least,
        could_stay=quality.moved + quality.kept,
        min_load=quality.min_load,
        max_load=quality.max_load,
        max_over_mean=quality.max_over_mean,
        load_stddev=quality.load_stddev,
        rounds=rounds,
        rack_misses=quality.rack_misses,
    )


class NotSettledError(RuntimeError):
    """A cooperative strategy still moves partitions although the group does not change any more."""


def settle(strategy: Strategy, group: Group) -> tuple[Assignment, int]:
    """The stable assignment of the group under the strategy, and the rounds to it.

    A strategy that knows only the eager protocol takes one round, and so does one that stands for an assignor
    of the broker: KIP-848 has one target for the change, towards which every member goes on its own, without
    a second round for any member. `group` has what members own before the first.
    """
    if strategy.runs_on_broker:
        return lead(strategy, _with_data(strategy, group), RebalanceProtocol.CONSUMER).assignment, 1
    if RebalanceProtocol.COOPERATIVE not in strategy.protocols:
        revoked = {
            member_id: replace(member, revoked=True) if member.owned else member
            for member_id, member in group.members.items()
        }
        eager = _with_data(strategy, replace(group, members=revoked))
        return lead(strategy, eager, RebalanceProtocol.EAGER).assignment, 1

    for rounds in range(1, MOST_ROUNDS + 1):
        led = lead(strategy, _with_data(strategy, group), RebalanceProtocol.COOPERATIVE)
        if not led.withheld:
            return led.assignment, rounds
        group = _next_round(group, led.assignment)
    raise NotSettledError(f"still moving partitions in round {MOST_ROUNDS} of one rebalance")


def _next_round(group: Group, assignment: Assignment) -> Group:
    """The group as it rejoins after an assignment that withheld something."""
    generation = group.generation if group.generation is not None else 0
    members = {
        member_id: replace(member, owned=assignment.members[member_id], generation=generation)
        for member_id, member in group.members.items()
    }
    return Group(group.topics, members, generation + 1)


def _with_data(strategy: Strategy, group: Group) -> Group:
    """The group with the member data that each member would send to a leader of this strategy."""
    if type(strategy).member_data is Strategy.member_data:
        return group
    members = {}
    for member_id, member in group.members.items():
        context = MemberContext(
            member.topics, member.owned, member.generation, member.instance_id, member.rack
        )
        members[member_id] = replace(member, data=strategy.member_data(context))
    return replace(group, members=members)
