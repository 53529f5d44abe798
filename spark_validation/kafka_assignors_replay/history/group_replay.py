"""One group replayed: each of its rebalances, under each strategy, measured.

Each strategy is replayed in two modes, with the facts that a leader of the strategy would have had:

* **one-step**: each rebalance starts from the recorded owners before it.
* **steady-state**: each rebalance starts from the strategy's own last assignment, as if it had been in use
  from the start. After a rebalance that cannot be judged, it starts again from the recorded owners.

A strategy that can run cooperatively does, until nothing is withheld; the settled assignment is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

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

_DEFAULT_PAUSES = PauseModel()
_UNGUARDED = StrategyGuard()
_NO_CLAIMS = Claims({}, (), {})
_NOTHING: frozenset[int] = frozenset()

MOST_ROUNDS = 4
"""KIP-429 needs two rounds. A strategy that has not settled after four changes its assignment every time."""


class Replayed(NamedTuple):
    """A rebalance under one strategy.

    `problem` says why it could not be replayed, or how the strategy failed; `measures` is then None.
    `inferred_topics` are those whose partition count was taken from the recorded assignment itself.
    """

    group: str
    generation: int
    strategy: str
    mode: str
    measures: Measures | None = None
    inferred_topics: Sequence[str] = ()
    problem: str | None = None


class _Owned(NamedTuple):
    """The partitions of members, by member id, as of a generation."""

    members: Mapping[str, TopicPartitions]
    generation: int


class _Outcome(NamedTuple):
    """The measures of a rebalance under one strategy, or the problem.

    If it `hands_over`, a second round follows in which the partitions that move have no owner. It may place
    them in another way than the `target`, but its measures are the same.
    """

    measures: Measures | None = None
    target: Assignment | None = None
    hands_over: bool = False
    problem: str | None = None


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
        self.strategies, self.pauses = strategies, pauses
        self.rules = {name: _rule(each) for name, each in strategies.items()}
        self.ways = {name: _ways(each) for name, each in strategies.items()}
        self.least_movers = [name for name, each in strategies.items() if moves_least(each)]
        self._catalogue, self._modes, self._guard = catalogue, tuple(modes), guard
        self._rebalances = rebalances or RebalanceFold()
        # Of each strategy its own last assignment (steady-state).
        self._own: dict[str, _Owned] = {}
        # The offset of the rebalance at which a strategy exceeded its time: it is not run again in the group,
        # which may have thousands of rebalances.
        self._too_slow: dict[str, int] = {}

    def feed(self, record: Generation) -> Iterator[Replayed]:
        """The rebalance that this record completes, if any, under every strategy."""
        return self._replay(self._rebalances.feed(record))

    def finish(self) -> Iterator[Replayed]:
        """The rebalance that no record completes, if any, after the last record."""
        return self._replay(self._rebalances.finish())

    def _replay(self, items: Iterable[Rebalance | Replacement]) -> Iterator[Replayed]:
        for item in items:
            if isinstance(item, Rebalance):
                yield from self._rebalance(item)
                continue
            for name, own in self._own.items():
                renamed = {item.new_ids.get(old_id, old_id): had for old_id, had in own.members.items()}
                self._own[name] = _Owned(renamed, own.generation)

    def _rebalance(self, rebalance: Rebalance) -> Iterator[Replayed]:
        subscribed = {topic for member in rebalance.members.values() for topic in member.topics}
        recorded = rebalance.recorded
        view = leader_view(self._catalogue, rebalance.timestamp, subscribed, recorded)

        def row(strategy: str, mode: Mode, found: _Outcome) -> Replayed:
            named = rebalance.group, rebalance.generation, strategy, mode.value
            return Replayed(*named, found.measures, view.inferred, found.problem)

        if problem := rebalance.problem or view.problem:
            yield from (row(RECORDED, mode, _Outcome(problem=problem)) for mode in self._modes)
            self._own = dict.fromkeys(self.strategies, _Owned(recorded, rebalance.generation))
            return
        prior = _Owned(rebalance.prior, rebalance.prior_generation)
        starts = [_Start(self, rebalance, view.topics, prior)]
        as_recorded = starts[0].recorded()
        for mode in self._modes:
            yield row(RECORDED, mode, as_recorded)
            for name in self.strategies:
                found = starts[0].outcome(name) if mode is Mode.ONE_STEP else self._steady(name, starts)
                yield row(name, mode, found)

    def _steady(self, name: str, starts: list[_Start]) -> _Outcome:
        """The rebalance from the strategy's own last assignment. Of the `starts`, which strategies share, the
        first has the recorded owners."""
        recorded = starts[0]
        own = self._own.get(name, recorded.owned) if recorded.owned.members else recorded.owned
        start = next((each for each in starts if own == each.owned), None)
        if start is None:
            start = recorded.again(own)
            starts.append(start)
        if (settled := start.settled(name)) is not None:
            # As records have them: equal owners are found equal.
            own_now = {
                member_id: {topic: tuple(numbers) for topic, numbers in given.items() if numbers}
                for member_id, given in settled.members.items()
            }
            own = _Owned(own_now, recorded.rebalance.generation)
        self._own[name] = own
        return start.outcome(name)

    def run(self, name: str, rebalance: Rebalance, call: Callable[[], Any]) -> tuple[Any, str | None]:
        """The result of the call, which runs the strategy, or None and how it failed."""
        if name in self._too_slow:
            return None, f"not run: it exceeded its time at offset {self._too_slow[name]}"
        try:
            return self._guard.run(call), None
        except StrategyTimeout as error:
            self._too_slow[name] = rebalance.offset
            return None, failure_text(error)
        except BaseException as error:  # an error of the user's strategy is a finding about it
            return None, failure_text(error)


class _Start:
    """A rebalance from the partitions that members `owned` before it. Each strategy runs once."""

    def __init__(
        self,
        replay: GroupReplay,
        rebalance: Rebalance,
        topics: Sequence[Topic],
        owned: _Owned,
        first: _Start | None = None,
    ) -> None:
        self.rebalance, self.owned = rebalance, owned
        self._replay, self._topics = replay, topics
        self._group = group = _group(rebalance, topics, owned)
        self._could_stay = _partitions(group.claims.owners.values(), group)
        self._vacated = _partitions(owned.members.values(), group) - self._could_stay
        self._least_moved: int | None = None
        self._targets: dict[object, tuple[Assignment, Quality]] = {}
        self._outcomes: dict[str, _Outcome] = {}
        # With one topic and no free partition, a second round deals what moves as the first one does.
        one_topic = len(topics) == 1 and len({member.topics for member in group.members.values()}) == 1
        self._deals_alike = one_topic and not (group.claims.unowned or racks_matter(group))
        # These do not depend on the owners.
        self._least_rack_misses: int | None = first._least_rack_misses if first else least_rack_misses(group)
        self._without_claims: dict[object, Assignment] = first._without_claims if first else {}

    def again(self, owned: _Owned) -> _Start:
        return _Start(self._replay, self.rebalance, self._topics, owned, self)

    def recorded(self) -> _Outcome:
        """The recorded assignment, after the strategies that tell the fewest moves."""
        for name in self._replay.least_movers:
            self.outcome(name)
        target = Assignment(self.rebalance.recorded)
        ways, rounds = _recorded_ways(self.rebalance), self.rebalance.generations
        return _Outcome(self._measures(measure(self._group, target), rounds, ways), target)

    def outcome(self, name: str) -> _Outcome:
        found = self._outcomes.get(name)
        if found is None:
            found = self._outcomes[name] = self._run(name)
        return found

    def settled(self, name: str) -> Assignment | None:
        """The strategy's assignment after its last round; None if it failed."""
        found = self.outcome(name)
        if not found.hands_over or self._deals_alike or found.target is None:
            return found.target
        call = partial(_second_round, self._replay.strategies[name], self._group, found.target)
        settled: Assignment | None = self._replay.run(name, self.rebalance, call)[0]
        return settled

    def _run(self, name: str) -> _Outcome:
        strategy, rule = self._replay.strategies[name], self._replay.rules[name]
        cooperative = RebalanceProtocol.COOPERATIVE in strategy.protocols
        # Members wait for claims too that do not count.
        proven = rule is not None and not (cooperative and self._group.claims.dropped)
        call = partial(self._target, strategy, rule) if proven else partial(settle, strategy, self._group)
        answer, problem = self._replay.run(name, self.rebalance, call)
        if answer is None:
            return _Outcome(problem=problem)
        if proven:
            target, quality = answer
            hands_over = cooperative and quality.moved > 0
            rounds = 1 + hands_over
        else:
            (target, rounds), hands_over = answer, False
            quality = measure(self._group, target)
        if name in self._replay.least_movers:
            self._least_moved = quality.moved
        return _Outcome(self._measures(quality, rounds, self._replay.ways[name]), target, hands_over)

    def _target(self, strategy: Strategy, rule: object) -> tuple[Assignment, Quality]:
        """The target of a strategy with this rule, which needs no check, and its quality."""
        if rule not in self._targets:
            target = self._without_claims.get(rule)
            if target is None:
                target = strategy.assign(self._group)
            if isinstance(rule, type):
                self._without_claims[rule] = target
            self._targets[rule] = target, measure(self._group, target)
        return self._targets[rule]

    def _measures(self, quality: Quality, rounds: int, ways: tuple[Consumption, ...]) -> Measures:
        """The measures, pauses included; `ways` are those in which the group can consume, its own first."""
        if self._least_moved is None:
            self._least_moved = least_moved(self._group)
        counts = (quality.members, self._could_stay, quality.moved, self._vacated)
        paused_s = {each: self._replay.pauses.paused_s(each, *counts) for each in ways}
        return Measures(
            partitions=quality.partitions,
            moved=quality.moved,
            least_moved=self._least_moved,
            could_stay=self._could_stay,
            min_load=quality.min_load,
            max_load=quality.max_load,
            max_over_mean=quality.max_over_mean,
            load_stddev=quality.load_stddev,
            rounds=rounds,
            rack_misses=quality.rack_misses,
            least_rack_misses=self._least_rack_misses,
            vacated=self._vacated,
            paused_s=paused_s[ways[0]],
            paused_eager_s=paused_s.get(Consumption.EAGER),
            paused_cooperative_s=paused_s.get(Consumption.COOPERATIVE),
        )


# The strategies


def _rule(strategy: Strategy) -> object:
    """What a target depends on besides the group; None for a strategy whose answers the leader has to check.

    It is a type if the target does not depend on what members own.
    """
    kind = type(strategy)
    if kind in (Range, RoundRobin):
        return kind
    is_exact = (
        is_ours(kind)
        and isinstance(strategy, ExactStrategy)
        and kind.assign is ExactStrategy.assign
        and kind.balance_scale is Strategy.balance_scale
    )
    return strategy.criteria if is_exact else None


def moves_least(strategy: Strategy) -> bool:
    """Whether no assignment with the best balance moves fewer partitions than the strategy's."""
    rule = _rule(strategy)
    return isinstance(rule, tuple) and rule[:2] == FEWEST_MOVES


def _ways(strategy: Strategy) -> tuple[Consumption, ...]:
    """The ways in which a group can run the strategy; the first one is replayed."""
    if runs_on_broker(strategy):
        return (Consumption.BROKER_ASSIGNED,)
    if RebalanceProtocol.COOPERATIVE in strategy.protocols:
        return (Consumption.COOPERATIVE, Consumption.EAGER)
    return (Consumption.EAGER,)


def _recorded_ways(rebalance: Rebalance) -> tuple[Consumption, ...]:
    """The ways of production, its own first: a classic group is cooperative if a member joined without
    revoking its partitions.

    If no member had partitions to revoke, the records cannot show the protocol, and it makes no difference.
    """
    if rebalance.type != CLASSIC:
        return (Consumption.BROKER_ASSIGNED,)
    nothing_held = not any(rebalance.prior.get(member_id) for member_id in rebalance.members)
    cooperative = rebalance.protocol not in EAGER_STRATEGIES and (nothing_held or rebalance.holds)
    return (Consumption.COOPERATIVE, Consumption.EAGER) if cooperative else (Consumption.EAGER,)


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
    if RebalanceProtocol.COOPERATIVE not in strategy.protocols:
        # Members join under the eager protocol without partitions; the strategy may look at that.
        members = {id: replace(member, revoked=bool(member.owned)) for id, member in group.members.items()}
        eager = _with_data(strategy, replace(group, members=members))
        return lead(strategy, eager, RebalanceProtocol.EAGER).assignment, 1

    for rounds in range(1, MOST_ROUNDS + 1):
        led = lead(strategy, _with_data(strategy, group), RebalanceProtocol.COOPERATIVE)
        if not led.withheld:
            return led.assignment, rounds
        group = _next_round(group, led.assignment.members)
    raise NotSettledError(f"still moving partitions in round {MOST_ROUNDS} of one rebalance")


def _second_round(strategy: Strategy, group: Group, target: Assignment) -> Assignment:
    """The assignment of a proven strategy once members have given up what moves."""
    owners, unowned = group.claims.owners, group.claims.unowned
    free = {topic: set(numbers) for topic, numbers in unowned.items()}
    members: dict[str, TopicPartitions] = {}
    for member_id, assigned in target.members.items():
        owned = owners.get(member_id, {})
        members[member_id] = given = {}
        for topic, numbers in assigned.items():
            if numbers is not owned.get(topic):
                stays = free.get(topic, _NOTHING).union(owned.get(topic, ()))
                numbers = [number for number in numbers if number in stays]
            if numbers:
                given[topic] = numbers
    return strategy.assign(_next_round(group, members))


def _next_round(group: Group, given: Mapping[str, TopicPartitions]) -> Group:
    """The group as it rejoins after an assignment that withheld partitions."""
    generation = group.generation if group.generation is not None else 0
    members = {
        name: Member(m.id, m.topics, m.instance_id, m.rack, given[name], generation, m.revoked, m.data)
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


# The group


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


def _partitions(had: Iterable[TopicPartitions], group: Group) -> int:
    """How many partitions of the group's topics members had."""
    return sum(len(numbers) for each in had for topic, numbers in each.items() if topic in group.topics)


def _group(rebalance: Rebalance, topics: Iterable[Topic], owned: _Owned) -> Group:
    """The group as its leader sees it: the members own their partitions also while they join."""
    members = []
    subscriptions: dict[tuple[str, ...], frozenset[str]] = {}  # equal ones are the same object
    for member in rebalance.members.values():
        had = owned.members.get(member.member_id)
        if member.topics not in subscriptions:
            subscriptions[member.topics] = frozenset(member.topics)
        # A member revokes what it no longer subscribes to before it joins.
        kept = {topic: had[topic] for topic in member.topics if had.get(topic)} if had else {}
        generation = NO_GENERATION if had is None else owned.generation
        topics_of = subscriptions[member.topics]
        members.append(Member(member.member_id, topics_of, member.instance_id, member.rack, kept, generation))
    return Group.of(topics, members, rebalance.generation)
