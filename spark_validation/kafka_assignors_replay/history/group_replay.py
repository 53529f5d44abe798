"""One group replayed: each of its rebalances, under each strategy, measured.

Each strategy is replayed in two modes, with the facts that a leader of the strategy would have had:

* **one-step**: each rebalance starts from the recorded owners before it.
* **steady-state**: each rebalance starts from the strategy's own last assignment, as if it had been in use
  from the start. After a rebalance that cannot be judged, it starts again from the recorded owners.

A strategy that can run cooperatively does. Its rounds are run one after the other, each with the partitions
that members own at that moment, until nothing is withheld; the settled assignment is measured. A strategy
that stands for an assignor of the broker (KIP-848) has one target and no rounds.

Pure Python without Spark, one record at a time.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from kafka_assignors.claims import Claims
from kafka_assignors.criteria import FEWEST_MOVES, PLAIN, RACKS_THEN_MOVES
from kafka_assignors.group import (
    NO_GENERATION,
    Assignment,
    Group,
    Member,
    Topic,
    TopicPartitions,
    detached_partitions,
)
from kafka_assignors.leader import lead
from kafka_assignors.quality import Quality, measure
from kafka_assignors.solver import count, least_moved, racks_matter
from kafka_assignors.strategies.range_roundrobin import Range, RoundRobin
from kafka_assignors.strategies.sticky import ExactStrategy
from kafka_assignors.strategy import MemberContext, RebalanceProtocol, Strategy, is_ours, runs_on_broker
from kafka_assignors_replay.catalogue import Catalogue, leader_view
from kafka_assignors_replay.history.measures import Measures, Mode
from kafka_assignors_replay.history.pause_model import Consumption, PauseModel
from kafka_assignors_replay.history.rebalances import (
    CLASSIC,
    EAGER_STRATEGIES,
    Generation,
    Rebalance,
    RebalanceFold,
    Replacement,
)
from kafka_assignors_replay.history.strategy_guard import StrategyGuard, StrategyTimeout, failure_text
from kafka_assignors_replay.result import RECORDED


def moves_least(strategy: Strategy) -> bool:
    """Whether no assignment with the best balance moves fewer partitions than the strategy's.

    Then the fewest moves of a group are those of the strategy's assignment.
    """
    kind = type(strategy)
    return (
        isinstance(strategy, ExactStrategy)
        and kind.assign is ExactStrategy.assign
        and kind.balance_scale is Strategy.balance_scale
        and (strategy.criteria or ())[:2] == FEWEST_MOVES
    )


def least_rack_misses(group: Group) -> int | None:
    """The fewest rack misses of any assignment with the best balance, at any number of moves.

    None if no member names a rack or no topic's racks are known. `rack-aware-sticky` reaches it; here no
    partition is placed, and what members own does not matter.
    """
    if not racks_matter(group):
        return None
    classes, shares = count(group, _NO_CLAIMS, RACKS_THEN_MOVES, PLAIN)
    return sum(
        number
        for part, share in zip(classes.partition_classes, shares, strict=True)
        if part.racks is not None
        for member, number in share.items()
        if part.misses(classes.racks[member])
    )


_NO_CLAIMS = Claims({}, (), {})


def consumptions(strategy: Strategy) -> tuple[Consumption, ...]:
    """The ways in which a group can run the strategy; the first one is replayed."""
    if runs_on_broker(strategy):
        return (Consumption.BROKER_ASSIGNED,)
    if RebalanceProtocol.COOPERATIVE in strategy.protocols:
        return (Consumption.COOPERATIVE, Consumption.EAGER)
    return (Consumption.EAGER,)


def recorded_consumptions(rebalance: Rebalance) -> tuple[Consumption, ...]:
    """The ways of production, its own first: a classic group is cooperative if a member joined without
    revoking its partitions.

    If no member had partitions to revoke, the records cannot show the protocol, and it makes no difference.
    """
    if rebalance.type != CLASSIC:
        return (Consumption.BROKER_ASSIGNED,)
    nothing_held = not any(rebalance.prior.get(member_id) for member_id in rebalance.members)
    cooperative = rebalance.protocol not in EAGER_STRATEGIES and (nothing_held or rebalance.holds)
    return (Consumption.COOPERATIVE, Consumption.EAGER) if cooperative else (Consumption.EAGER,)


def count_partitions(had: Iterable[TopicPartitions], topics: Container[str]) -> int:
    """How many partitions of these topics members had."""
    return sum(len(numbers) for each in had for topic, numbers in each.items() if topic in topics)


_DEFAULT_PAUSES = PauseModel()
_UNGUARDED = StrategyGuard()

_WITHOUT_CLAIMS = (Range, RoundRobin)
"""Strategies whose assignment depends on nothing that members own."""

MOST_ROUNDS = 4
"""KIP-429 needs two rounds. A strategy that has not settled after four changes its assignment every time."""


class Replayed(NamedTuple):
    """A row of the table `replayed`: a rebalance under one strategy.

    `problem` says why it could not be replayed, or how the strategy failed; `measures` is then None, and a
    column of the table for each of its fields is null. `inferred_topics` are those whose partition count was
    taken from the recorded assignment itself.
    """

    group: str
    offset: int
    generation: int
    timestamp: datetime
    strategy: str
    mode: str
    generations: int
    members: int
    measures: Measures | None = None
    inferred_topics: Sequence[str] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class _Prior:
    """The partitions of members before a rebalance, by member id, as of a generation."""

    members: Mapping[str, TopicPartitions]
    generation: int


class _Led(NamedTuple):
    """The outcome of one rebalance under one strategy: the measures, or the problem."""

    measures: Measures | None = None
    settled: Assignment | None = None
    problem: str | None = None

    @property
    def moved(self) -> int | None:
        return None if self.measures is None else self.measures.moved


class GroupReplay:
    """The replay of one group: `feed` each record in order, then `finish`. It begins where `rebalances` ends,
    or anew."""

    def __init__(
        self,
        catalogue: Catalogue,
        strategies: Mapping[str, Strategy],
        modes: Iterable[Mode],
        pauses: PauseModel = _DEFAULT_PAUSES,
        guard: StrategyGuard = _UNGUARDED,
        rebalances: RebalanceFold | None = None,
    ) -> None:
        self._catalogue = catalogue
        self._strategies = strategies
        self.least_movers = tuple(name for name, each in strategies.items() if moves_least(each))
        self._modes = tuple(modes)
        self._pauses = pauses
        self._guard = guard
        self._rebalances = rebalances or RebalanceFold()
        # Of each strategy its own last assignment (steady-state).
        self._own: dict[str, _Prior] = {}
        # The offset of the rebalance at which a strategy exceeded its time: it is not run again in the group,
        # which may have thousands of rebalances.
        self._too_slow: dict[str, int] = {}

    def feed(self, record: Generation) -> Iterator[Replayed]:
        """The rebalance that this record completes, if any, under every strategy."""
        yield from self._replay(self._rebalances.feed(record))

    def finish(self) -> Iterator[Replayed]:
        """The rebalance that no record completes, if any, after the last record."""
        yield from self._replay(self._rebalances.finish())

    def _replay(self, items: Iterable[Rebalance | Replacement]) -> Iterator[Replayed]:
        for item in items:
            if isinstance(item, Replacement):
                self._rename(item.new_ids)
            else:
                yield from self._rebalance(item)

    def _rename(self, new_ids: Mapping[str, str]) -> None:
        for name, prior in self._own.items():
            renamed = {new_ids.get(member_id, member_id): had for member_id, had in prior.members.items()}
            self._own[name] = _Prior(renamed, prior.generation)

    def _rebalance(self, rebalance: Rebalance) -> Iterator[Replayed]:
        subscribed = {topic for member in rebalance.members.values() for topic in member.topics}
        view = leader_view(self._catalogue, rebalance.timestamp, subscribed, rebalance.recorded)
        problem = rebalance.problem or view.problem

        def row(strategy: str, mode: Mode, led: _Led) -> Replayed:
            place = (rebalance.group, rebalance.offset, rebalance.generation, rebalance.timestamp)
            what = (strategy, mode.value, rebalance.generations, len(rebalance.members))
            return Replayed._make((*place, *what, led.measures, view.inferred, led.problem))

        if problem:
            yield from (row(RECORDED, mode, _Led(problem=problem)) for mode in self._modes)
            self._own = dict.fromkeys(self._strategies, _Prior(rebalance.recorded, rebalance.generation))
            return
        topics = view.topics
        one_step = _OneStep(self, rebalance, topics)
        for mode in self._modes:
            yield row(RECORDED, mode, one_step.recorded())
            for name in self._strategies:
                if mode is Mode.ONE_STEP:
                    yield row(name, mode, one_step.led(name))
                else:
                    yield row(name, mode, self._steady(name, rebalance, topics, one_step))

    def _steady(self, name: str, rebalance: Rebalance, topics: Iterable[Topic], one_step: _OneStep) -> _Led:
        """The rebalance from the strategy's own last assignment."""
        production = one_step.prior
        had = self._own.get(name, production) if rebalance.prior else production
        if _same(had, production):
            led = one_step.led(name)
        else:
            group = _group(rebalance, topics, had)
            settled = one_step.led(name).settled if type(self._strategies[name]) in _WITHOUT_CLAIMS else None
            led = self._led(name, rebalance, group, had, one_step.least_rack_misses, None, settled)
        self._own[name] = had if led.settled is None else _Prior(led.settled.members, rebalance.generation)
        return led

    def _led(
        self,
        name: str,
        rebalance: Rebalance,
        group: Group,
        prior: _Prior,
        least_misses: int | None,
        least: int | None,
        settled: Assignment | None = None,
    ) -> _Led:
        """The group under the strategy, or how the strategy failed. `settled` is its assignment, if known."""
        if name in self._too_slow:
            return _Led(problem=f"not run: it exceeded its time at offset {self._too_slow[name]}")
        strategy, rounds = self._strategies[name], 1
        try:
            if settled is None:
                settled, rounds = self._guard.run(
                    name, rebalance.group, rebalance.offset, lambda: settle(strategy, group)
                )
        except StrategyTimeout as error:
            self._too_slow[name] = rebalance.offset
            return _Led(problem=failure_text(error))
        except BaseException as error:  # an error of the user's strategy is a finding about it
            return _Led(problem=failure_text(error))
        quality = measure(group, settled)
        if least is None:
            least = quality.moved if name in self.least_movers else least_moved(group)
        return self._measured(
            group, prior, settled, quality, least, least_misses, rounds, consumptions(strategy)
        )

    def _measured(
        self,
        group: Group,
        prior: _Prior,
        settled: Assignment,
        quality: Quality,
        least: int,
        least_misses: int | None,
        rounds: int,
        ways: tuple[Consumption, ...],
    ) -> _Led:
        """The measures, pauses included; `ways` are those in which the group can consume, its own first."""
        could_stay = quality.moved + quality.kept
        vacated = count_partitions(prior.members.values(), group.topics) - could_stay
        paused = {
            each: self._pauses.paused_s(
                each,
                members=len(group.members),
                could_stay=could_stay,
                moved=quality.moved,
                vacated=vacated,
            )
            for each in ways
        }
        measures = Measures(
            partitions=quality.partitions,
            moved=quality.moved,
            least_moved=least,
            could_stay=could_stay,
            min_load=quality.min_load,
            max_load=quality.max_load,
            max_over_mean=quality.max_over_mean,
            load_stddev=quality.load_stddev,
            rounds=rounds,
            rack_misses=quality.rack_misses,
            least_rack_misses=least_misses,
            vacated=vacated,
            paused_s=paused[ways[0]],
            paused_eager_s=paused.get(Consumption.EAGER),
            paused_cooperative_s=paused.get(Consumption.COOPERATIVE),
        )
        return _Led(measures, settled)


class _OneStep:
    """A rebalance from the recorded owners before it: as recorded, and under each strategy.

    Each strategy runs once, also if the other mode begins with the same owners.
    """

    def __init__(self, replay: GroupReplay, rebalance: Rebalance, topics: Iterable[Topic]) -> None:
        self._replay = replay
        self._rebalance = rebalance
        self.prior = _Prior(rebalance.prior, rebalance.prior_generation)
        self._group = _group(rebalance, topics, self.prior)
        # Independent of the owned partitions, so it is the same for all strategies in both modes.
        self.least_rack_misses = least_rack_misses(self._group)
        self._least: int | None = None
        self._led: dict[str, _Led] = {}

    def led(self, name: str) -> _Led:
        if name not in self._led:
            least = None if name in self._replay.least_movers else self._least_moved()
            self._led[name] = self._replay._led(
                name, self._rebalance, self._group, self.prior, self.least_rack_misses, least
            )
        return self._led[name]

    def recorded(self) -> _Led:
        if RECORDED not in self._led:
            settled = Assignment(self._rebalance.recorded)
            self._led[RECORDED] = self._replay._measured(
                self._group,
                self.prior,
                settled,
                measure(self._group, settled),
                self._least_moved(),
                self.least_rack_misses,
                self._rebalance.generations,
                recorded_consumptions(self._rebalance),
            )
        return self._led[RECORDED]

    def _least_moved(self) -> int:
        """The moves of a strategy that moves least; computed only if there is none."""
        if self._least is None:
            moves = (self.led(name).moved for name in self._replay.least_movers)
            least = next((each for each in moves if each is not None), None)
            self._least = least_moved(self._group) if least is None else least
        return self._least


def _same(one: _Prior, other: _Prior) -> bool:
    """Whether members have the same partitions as of the same generation."""
    if one is other:
        return True
    if one.generation != other.generation or one.members.keys() != other.members.keys():
        return False
    return all(_equal(had, other.members[member_id]) for member_id, had in one.members.items())


def _equal(one: TopicPartitions, other: TopicPartitions) -> bool:
    if one is other:
        return True
    if {topic for topic in one if one[topic]} != {topic for topic in other if other[topic]}:
        return False
    return all(list(numbers) == list(other[topic]) for topic, numbers in one.items() if numbers)


def _group(rebalance: Rebalance, topics: Iterable[Topic], prior: _Prior) -> Group:
    """The group as its leader sees it: the members own `prior`, also while they join."""
    members = []
    subscriptions: dict[tuple[str, ...], frozenset[str]] = {}  # equal ones are the same object
    for member in rebalance.members.values():
        had = prior.members.get(member.member_id)
        if member.topics not in subscriptions:
            subscriptions[member.topics] = frozenset(member.topics)
        # A member revokes what it no longer subscribes to before it joins.
        owned = {topic: had[topic] for topic in member.topics if had.get(topic)} if had else {}
        members.append(
            Member(
                id=member.member_id,
                topics=subscriptions[member.topics],
                instance_id=member.instance_id,
                rack=member.rack,
                owned=owned,
                generation=NO_GENERATION if had is None else prior.generation,
            )
        )
    return Group.of(topics, members, rebalance.generation)


class NotSettledError(RuntimeError):
    """A cooperative strategy still moves partitions although the group does not change any more."""


def settle(strategy: Strategy, group: Group) -> tuple[Assignment, int]:
    """The stable assignment of the group under the strategy, and the number of rounds.

    A strategy that knows only the eager protocol takes one round. So does a strategy that stands for an
    assignor of the broker: KIP-848 has one target, and every member moves to it on its own. `group` has the
    owned partitions before the first round.
    """
    if runs_on_broker(strategy):
        return lead(strategy, _with_data(strategy, group), RebalanceProtocol.CONSUMER).assignment, 1
    if type(strategy) in _WITHOUT_CLAIMS:
        return strategy.assign(group), 1  # ours: it needs no check, and sends nothing
    if RebalanceProtocol.COOPERATIVE not in strategy.protocols:
        eager = _with_data(strategy, group if is_ours(type(strategy)) else _all_revoked(group))
        return lead(strategy, eager, RebalanceProtocol.EAGER).assignment, 1

    for rounds in range(1, MOST_ROUNDS + 1):
        led = lead(strategy, _with_data(strategy, group), RebalanceProtocol.COOPERATIVE)
        if not led.withheld:
            return led.assignment, rounds
        group = _next_round(group, led.assignment)
    raise NotSettledError(f"still moving partitions in round {MOST_ROUNDS} of one rebalance")


def _all_revoked(group: Group) -> Group:
    """The group as its members join under the eager protocol, for strategies that may look at that."""
    members = {id: replace(member, revoked=bool(member.owned)) for id, member in group.members.items()}
    return replace(group, members=members)


def _next_round(group: Group, assignment: Assignment) -> Group:
    """The group as it rejoins after an assignment that withheld partitions."""
    generation = group.generation if group.generation is not None else 0
    members = {
        name: Member(
            m.id, m.topics, m.instance_id, m.rack, assignment.members[name], generation, m.revoked, m.data
        )
        for name, m in group.members.items()
    }
    return Group(group.topics, members, generation + 1)


def _with_data(strategy: Strategy, group: Group) -> Group:
    """The group with the member data that each member would send to a leader of this strategy."""
    if type(strategy).member_data is Strategy.member_data:
        return group
    members = {}
    for member_id, member in group.members.items():
        context = MemberContext(
            member.topics,
            detached_partitions(member.owned),  # A strategy may change what it is handed.
            member.generation,
            member.instance_id,
            member.rack,
        )
        members[member_id] = replace(member, data=strategy.member_data(context))
    return replace(group, members=members)
