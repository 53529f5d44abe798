"""`Assignor`: one strategy in the consumers of a process, and the last assignment of each consumer.

The adapter of a client adds the interface that the client calls; findings go to its logger.

The protocols of a strategy decide which consumers it runs in: a stock consumer is eager and needs
`RebalanceProtocol.EAGER` (`require_eager`); a cooperative consumer follows the protocol that all of its
strategies have (`require_cooperative`).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from logging import Logger
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict, cast
from weakref import WeakKeyDictionary

from kafka_assignors.arguments import optional_name
from kafka_assignors.group import Topic, TopicPartitions, Warmth
from kafka_assignors.messages import (
    NEVER_ASSIGNED,
    DecodedMembers,
    EncodedAssignments,
    JoinedMember,
    LastAssignment,
    encode_assignments,
    read_members,
)
from kafka_assignors.strategies.sticky import CooperativeSticky, Sticky
from kafka_assignors.strategy import (
    SHARED_NAMES,
    MemberContext,
    RebalanceProtocol,
    Strategy,
    contract_problem,
    how_to_run,
    is_ours,
    runs_on_broker,
)
from kafka_assignors.wire import encode_member

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from kafka_assignors.weights import WeightSource


class AssignorOptions(TypedDict, total=False):
    """The arguments that the assignor of every strategy takes.

    `rack` is the rack of this process, for strategies that use racks; the default is the `client_rack` of a
    cooperative consumer. `instance_id` is passed to the strategy's `member_data`; the default is the
    consumer's `group_instance_id`.

    `stay_classic`: a broker of Kafka 4 refuses to convert a group that this member leads to KIP-848, and
    refuses the member with `group.protocol=consumer` that would cause it. The default (None) is True, except
    for `range`, `roundrobin`, `sticky` and `cooperative-sticky`: other clients have these strategies too.
    """

    rack: str | None
    instance_id: str | None
    stay_classic: bool | None


class Assignor:
    """One strategy in the consumers of a process.

    It keeps the last assignment of each stock consumer, by the consumer's coordinator object, and drops it
    with that object. So one instance may serve several consumers.
    """

    log: ClassVar[Logger]
    """The adapter's logger, which gets the findings about members, weights and assignments. It
    is named after the adapter's package."""

    strategy: Strategy
    weights: WeightSource | None
    """What a leader asks for the weights of partitions; None if there is none."""
    stay_classic: bool
    """Whether a broker refuses to convert a group that this assignor leads to KIP-848."""

    def __init__(
        self,
        strategy: Strategy,
        *,
        rack: str | None = None,
        instance_id: str | None = None,
        weights: Callable[[Mapping[str, int]], Any] | None = None,
        weights_timeout_s: float = 2.0,
        stay_classic: bool | None = None,
        shared_name: bool = False,
    ) -> None:
        """Raise TypeError or ValueError for arguments that would fail at the first rebalance.

        `AssignorOptions` says what the arguments mean.

        A strategy of your own is refused under one of the `SHARED_NAMES` (ValueError), unless `shared_name`
        says that it sends, reads and assigns what those of other clients do.
        """
        if isinstance(strategy, Assignor):
            raise TypeError(f"{strategy!r} is an assignor already: pass it as it is")
        self.strategy = require_strategy(strategy)
        if not shared_name:
            _require_own_name(strategy)
        if runs_on_broker(strategy):
            raise ValueError(
                f"strategy {strategy.name!r} stands for an assignor of the broker (KIP-848), which no client "
                "runs: take a strategy that runs in the client, or a client that speaks KIP-848 and its "
                "group.remote.assignor"
            )
        self._rack = optional_name("rack", rack)
        self._instance_id = optional_name("instance_id", instance_id)
        self.weights = None
        if weights is not None:
            from kafka_assignors.weights import WeightSource  # late: few consumers have a source

            self.weights = WeightSource(weights, weights_timeout_s)
        if stay_classic is not None and not isinstance(stay_classic, bool):
            raise TypeError(f"stay_classic must be True, False or None, not {stay_classic!r}")
        self.stay_classic = strategy.name not in SHARED_NAMES if stay_classic is None else stay_classic
        self._last: WeakKeyDictionary[object, LastAssignment] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.strategy!r})"

    @property
    def name(self) -> str:
        """The name that the members of the group vote on."""
        return self.strategy.name

    def subscription_of(
        self,
        coordinator: object,
        topics: Iterable[str],
        instance_id: str | None,
        rack: str | None = None,
    ) -> bytes:
        """The bytes that a consumer joins with.

        `instance_id` and `rack` are the consumer's own settings; the assignor's arguments take precedence.
        """
        last = self._last.get(coordinator, NEVER_ASSIGNED)
        return self.subscription_with(last, topics, instance_id, rack, held=False)

    def subscription_with(
        self,
        last: LastAssignment,
        topics: Iterable[str],
        instance_id: str | None,
        rack: str | None = None,
        *,
        held: bool,
        warmth: Warmth | None = None,
    ) -> bytes:
        """The same for a consumer that tracks its last assignment and its warm-ups itself.

        `held`: it keeps the assignment while it joins. An eager consumer has revoked it: the claim counts for
        stickiness, and no member waits for the partitions.
        """
        subscribed = frozenset(topics)
        # The leader drops claims on topics that are no longer subscribed too, but it logs them.
        owned = {name: partitions for name, partitions in last.partitions.items() if name in subscribed}
        instance_id, rack = self._instance_id or instance_id, self._rack or rack
        context = MemberContext(subscribed, owned, last.generation, instance_id, rack)
        return encode_member(self.strategy, context, held=held, warmth=warmth)

    def remember(self, coordinator: object, partitions: TopicPartitions, generation: int) -> None:
        """Keep the assignment of a consumer: the consumer claims it when it joins again."""
        self._last[coordinator] = LastAssignment(partitions, generation)

    def read_members(self, joined: Iterable[JoinedMember]) -> DecodedMembers:
        """Decode the members' subscriptions; never raises for the bytes of a member."""
        return read_members(self.strategy, joined)

    def must_follow_racks(self, racks: Iterable[str | None]) -> bool:
        """Whether a consumer has to join again when replicas move to other racks.

        `racks` are the racks of all members if it leads the group, else its own setting alone.
        """
        return self.strategy.follows_racks() and any((self._rack, *racks))

    def encode_assignments(
        self, members: DecodedMembers, topics: Iterable[Topic], generation: int | None
    ) -> EncodedAssignments:
        """The bytes of every member's assignment, as the leader of `generation` (None if unknown)."""
        encoded = encode_assignments(
            self.strategy, members, topics, generation, stay_classic=self.stay_classic
        )
        for finding in encoded.findings:
            self.log.warning("%s: %s", self.name, finding)
        return encoded


# ---- one class for each strategy of this package
#
# An adapter derives and documents a class of its own from each; its `StrategyAssignor` adds the client's
# interface: `class StickyAssignor(RunsSticky, StrategyAssignor)`. A strategy that few consumers run is
# imported when its assignor is made.


class RunsRange(Assignor):
    def __init__(self, **options: Unpack[AssignorOptions]) -> None:
        from kafka_assignors.strategies import Range

        super().__init__(Range(), **options)


class RunsRoundRobin(Assignor):
    def __init__(self, **options: Unpack[AssignorOptions]) -> None:
        from kafka_assignors.strategies import RoundRobin

        super().__init__(RoundRobin(), **options)


class RunsSticky(Assignor):
    def __init__(self, **options: Unpack[AssignorOptions]) -> None:
        super().__init__(Sticky(), **options)


class RunsCooperativeSticky(Assignor):
    def __init__(self, **options: Unpack[AssignorOptions]) -> None:
        super().__init__(CooperativeSticky(), **options)


class RunsRackAwareSticky(Assignor):
    def __init__(
        self, *, moves_per_miss: Fraction | float | None = None, **options: Unpack[AssignorOptions]
    ) -> None:
        from kafka_assignors.strategies import RackAwareSticky

        super().__init__(RackAwareSticky(moves_per_miss), **options)


class RunsCapacity(Assignor):
    def __init__(self, *, capacity: int, **options: Unpack[AssignorOptions]) -> None:
        from kafka_assignors.strategies import Capacity

        super().__init__(Capacity(capacity), **options)


# ---- what a user passes as a strategy, or as a list of assignors


def require_strategy(strategy: object) -> Strategy:
    """The strategy itself; TypeError, which says what the caller passed, for anything else."""
    if isinstance(strategy, type):
        raise TypeError(
            f"{strategy.__name__} is a class and a strategy is an instance: pass {strategy.__name__}()"
        )
    if isinstance(strategy, str):
        raise TypeError(
            f"{strategy!r} is a name and a strategy is an object: "
            f"kafka_assignors.strategies.load_strategy({strategy!r}) finds the one of that name"
        )
    if problem := contract_problem(strategy):
        raise TypeError(
            f"{strategy!r} is not a strategy: {problem} (see kafka_assignors.strategies.Strategy)"
        )
    return cast("Strategy", strategy)


def _require_own_name(strategy: Strategy) -> None:
    """ValueError for a strategy that is not of this package under a name of Kafka's own."""
    kind = type(strategy)
    if strategy.name in SHARED_NAMES and not is_ours(kind):
        raise ValueError(
            f"the strategy {kind.__name__} has the name {strategy.name!r}, under which members of other "
            f"clients run Kafka's own strategy: a mixed group would be led by one or the other. Give it a "
            f"name of its own, such as 'my-{strategy.name}', or pass shared_name=True if it sends, reads and "
            "assigns what theirs do"
        )


CLASS_GIVEN = (
    "partition_assignment_strategy has a class of an assignor in it and needs an instance: pass "
    "[CooperativeStickyAssignor()], for example, and not [CooperativeStickyAssignor]"
)
"""What a user is told who passes a class, as clients take their own assignors."""


def require_unique_names(names: Iterable[str]) -> None:
    """Raise ValueError if two assignors of a consumer have one name: clients silently use one of them."""
    for name, count in Counter(names).items():
        if count > 1:
            raise ValueError(
                f"partition_assignment_strategy has {count} assignors with the name {name!r}: the group "
                "votes on names, so give one of them"
            )


def require_eager(assignors: Iterable[object], cooperative_consumer: str) -> None:
    """Raise ValueError if a stock consumer has an assignor that it cannot run.

    It is eager, and it cannot wait for weights. `cooperative_consumer` is the class to use instead. Assignors
    of other packages pass.
    """
    for one in assignors:
        if not isinstance(one, Assignor):
            continue
        if RebalanceProtocol.EAGER not in one.strategy.protocols:
            raise ValueError(
                f"strategy {one.name!r} runs under the cooperative protocol alone, and this consumer is "
                f"eager: use {cooperative_consumer}"
            )
        if one.weights is not None:
            raise ValueError(
                f"the assignor {one.name!r} has a source of weights, and this consumer cannot wait for them: "
                f"use {cooperative_consumer}"
            )


MIGRATION_PAGE = "https://kafka-assignors.github.io/kafka-assignors/migrate/"


def require_cooperative(assignors: Sequence[object], adapter: type[Assignor], group_id: str) -> None:
    """Raise TypeError or ValueError for a list of assignors that a cooperative consumer cannot run.

    `adapter` is the base of the assignors for this client. A list in which one strategy makes the others
    eager is logged as a warning of the logger `<package>.eager`: it is right in the first restart of a
    migration alone. A list that is eager altogether is a choice.
    """
    package = adapter.log.name
    if isinstance(assignors, str) or not isinstance(assignors, Sequence):
        raise TypeError(
            f"partition_assignment_strategy must be a list of assignors, not {assignors!r}: pass "
            "[CooperativeStickyAssignor()]"
        )
    usable = [_require_ours(one, adapter) for one in assignors]
    require_unique_names(one.name for one in usable)
    if not usable:
        raise ValueError("partition_assignment_strategy is empty: pass [CooperativeStickyAssignor()]")
    # With one strategy that is eager alone, the consumer follows the eager protocol for all strategies.
    eager_alone = [one.name for one in usable if RebalanceProtocol.COOPERATIVE not in one.strategy.protocols]
    cooperative_alone = [one.name for one in usable if RebalanceProtocol.EAGER not in one.strategy.protocols]
    if eager_alone and cooperative_alone:
        raise ValueError(
            f"strategy {cooperative_alone[0]!r} runs under the cooperative protocol alone and "
            f"{eager_alone[0]!r} under the eager one alone, and a consumer follows one protocol: leave one "
            "of them out of partition_assignment_strategy"
        )
    if eager_alone and len(eager_alone) < len(usable):
        logging.getLogger(f"{package}.eager").warning(
            "group %r: the consumer is eager because of %r, and each rebalance stops all its partitions. "
            "This is right in the first restart of a migration (%s): leave %r out of "
            "partition_assignment_strategy in the second. Until then, the level ERROR of the logger %s.eager "
            "quiets this line",
            group_id,
            eager_alone[0],
            MIGRATION_PAGE,
            eager_alone[0],
            package,
        )


def _require_ours(one: object, adapter: type[Assignor]) -> Assignor:
    if isinstance(one, adapter):
        return one
    package = adapter.log.name
    if isinstance(one, Assignor):
        raise TypeError(
            f"{one!r} in partition_assignment_strategy is an assignor for another client, of "
            f"{one.log.name}: import the one of {package}"
        )
    kind = one if isinstance(one, type) else type(one)
    if issubclass(kind, Assignor):
        raise TypeError(CLASS_GIVEN)
    if issubclass(kind, Strategy):
        raise TypeError(how_to_run(kind))
    raise TypeError(
        f"{one!r} in partition_assignment_strategy is not an assignor of {package}: others do not know about "
        "partitions that members hold while they join. Pass one of that package, such as "
        "CooperativeStickyAssignor()"
    )
