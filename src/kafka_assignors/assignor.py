"""`Assignor`: one strategy in the consumers of a process, and what each of them was last assigned.

The adapter of a client adds the interface that the client calls; what is the same for every client is here
and in `leader_bytes` and `member_bytes`. There is no I/O; findings go to the logger of the adapter.

The protocols of a strategy decide which consumers it runs in: a stock consumer is eager and needs
`RebalanceProtocol.EAGER` (`require_eager`); a cooperative consumer follows the protocol that all of its
strategies have (`require_cooperative`).

`RunsRange` and so on are what the assignor classes of all adapters have in common: one for each strategy.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from fractions import Fraction
from logging import Logger
from types import FrameType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypedDict, TypeVar, cast
from weakref import WeakKeyDictionary

from kafka_assignors.group import Topic, TopicPartitions
from kafka_assignors.leader_bytes import (
    DecodedMembers,
    EncodedAssignments,
    JoinedMember,
    encode_assignments,
    read_members,
)
from kafka_assignors.member_bytes import NEVER_ASSIGNED, LastAssignment, subscription_bytes
from kafka_assignors.strategies.composed import Priority, Rollout, Standby
from kafka_assignors.strategies.range_roundrobin import Range, RoundRobin
from kafka_assignors.strategies.registry import assignor_class, strategy_of_class
from kafka_assignors.strategies.sticky import Capacity, CooperativeSticky, RackAwareSticky, Sticky
from kafka_assignors.strategies.weighted import Weighted
from kafka_assignors.strategy import (
    LONGEST_NAME,
    SHARED_NAMES,
    RebalanceProtocol,
    Strategy,
    contract_problem,
    fits_kafka_string,
)
from kafka_assignors.weights import patience_s, require_source, weigh

if TYPE_CHECKING:
    from typing_extensions import Unpack

Caller = TypeVar("Caller")


class AssignorOptions(TypedDict, total=False):
    """The arguments that the assignor of every strategy takes.

    `rack` is where this process runs, for strategies that look at racks; by default the consumer's
    `client_rack`, in clients that have it. `instance_id` is what the strategy's `member_data` is told; by
    default the consumer's `group_instance_id`.

    `stay_classic`: a broker of Kafka 4 refuses to convert a group that this member leads to KIP-848, and
    refuses the member with `group.protocol=consumer` that would cause it. By default, and with None, this is
    so unless the strategy's name is `range`, `roundrobin`, `sticky` or `cooperative-sticky`, which other
    clients have too.
    """

    rack: str | None
    instance_id: str | None
    stay_classic: bool | None


class AskedWeights(Protocol):
    """A future, of a thread or of an event loop."""

    def done(self) -> bool: ...

    def cancelled(self) -> bool: ...

    def exception(self) -> BaseException | None: ...

    def result(self) -> object: ...


def ask_in_thread(
    function: Callable[..., Any], *arguments: Any, name: str = "kafka-assignors-weights"
) -> Future[Any]:
    """Call `function` in a thread of its own: a call that never returns would occupy a thread of a pool.

    The thread does not keep the process from ending, and cancelling the future does not stop it.
    """
    result: Future[Any] = Future()
    result.set_running_or_notify_cancel()

    def call() -> None:
        try:
            result.set_result(function(*arguments))
        except BaseException as error:  # the caller waits for the future, so every error goes there
            result.set_exception(error)

    threading.Thread(target=call, name=name, daemon=True).start()
    return result


def caller_of(kind: type[Caller]) -> Caller | None:
    """The nearest object of this kind, one of whose methods is in the call stack; None if there is none.

    Clients never tell an assignor for which consumer it is called.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        caller = frame.f_locals.get("self")
        if isinstance(caller, kind):
            return caller
        frame = frame.f_back
    return None


class Assignor:
    """One strategy in the consumers of a process.

    The state is what each consumer was last assigned and the weights that were last given for it. It is kept
    by the consumer's coordinator object and is dropped with that object, so one instance may serve several
    consumers.
    """

    log: ClassVar[Logger]
    """The adapter's logger, which gets the findings about members, weights and assignments."""

    def __init__(
        self,
        strategy: Strategy,
        *,
        rack: str | None = None,
        instance_id: str | None = None,
        weights: Callable[[Mapping[str, int]], Any] | None = None,
        weights_timeout_s: float = 2.0,
        stay_classic: bool | None = None,
    ) -> None:
        """Raise TypeError or ValueError for arguments that would fail at the first rebalance.

        `AssignorOptions` says what the arguments mean.
        """
        if isinstance(strategy, Assignor):
            raise TypeError(f"{strategy!r} is an assignor already: pass it as it is")
        self._strategy = require_strategy(strategy)
        if strategy.runs_on_broker:
            raise ValueError(
                f"strategy {strategy.name!r} stands for an assignor of the broker (KIP-848), which no client "
                "runs: take a strategy that runs in the client, or a client that speaks KIP-848 and its "
                "group.remote.assignor"
            )
        self._rack = optional_name("rack", rack)
        self._instance_id = optional_name("instance_id", instance_id)
        require_source(weights, weights_timeout_s)
        self._weights, self._weights_timeout_s = weights, weights_timeout_s
        if stay_classic is not None and not isinstance(stay_classic, bool):
            raise TypeError(f"stay_classic must be True, False or None, not {stay_classic!r}")
        self._stay_classic = strategy.name not in SHARED_NAMES if stay_classic is None else stay_classic
        self._last: WeakKeyDictionary[object, LastAssignment] = WeakKeyDictionary()
        self._last_weights: WeakKeyDictionary[object, object] = WeakKeyDictionary()
        self._asking: WeakKeyDictionary[object, Future[object]] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._strategy!r})"

    @property
    def name(self) -> str:
        """The name that the members of the group vote on."""
        return self._strategy.name

    @property
    def strategy(self) -> Strategy:
        """The strategy that assigns the partitions."""
        return self._strategy

    @property
    def stay_classic(self) -> bool:
        """Whether a broker refuses to convert a group that this assignor leads to KIP-848."""
        return self._stay_classic

    def subscription_of(
        self,
        coordinator: object,
        topics: Iterable[str],
        instance_id: str | None,
        rack: str | None = None,
    ) -> bytes:
        """The bytes that a consumer joins with.

        `instance_id` and `rack` are the consumer's own settings; what the assignor was given goes first.
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
    ) -> bytes:
        """The same for a consumer that knows itself what it was assigned, and whether it still holds that."""
        return subscription_bytes(
            self._strategy,
            topics,
            last,
            instance_id=self._instance_id or instance_id,
            rack=self._rack or rack,
            held=held,
        )

    def remember(self, coordinator: object, partitions: TopicPartitions, generation: int) -> None:
        """Keep what a consumer was assigned: it says so when it joins again."""
        self._last[coordinator] = LastAssignment(partitions, generation)

    def read_members(self, joined: Iterable[JoinedMember]) -> DecodedMembers:
        """Decode what the members sent; never fails because of one of them."""
        return read_members(self._strategy, joined)

    def must_follow_racks(self, racks: Iterable[str | None]) -> bool:
        """Whether a consumer has to join again when replicas move to other racks.

        `racks` are those of all members, if it leads them, else its own setting.
        """
        return self._strategy.follows_racks() and any((self._rack, *racks))

    @property
    def weights(self) -> Callable[[Mapping[str, int]], Any] | None:
        """The function that a leader asks for the weights of partitions; None if there is none."""
        return self._weights

    def weights_patience_s(self, session_timeout_ms: float) -> float:
        """How long a leader with this session timeout waits for weights."""
        return patience_s(self._weights_timeout_s, session_timeout_ms / 1000)

    def ask_for_weights(self, coordinator: object, topics: Sequence[Topic]) -> Future[object] | None:
        """Ask the source in a thread; None if it has not answered the last question yet."""
        assert self._weights is not None
        earlier = self._asking.get(coordinator)
        if earlier is not None and not earlier.done():
            return None
        counts = {topic.name: topic.partitions for topic in topics}
        asking = self._asking[coordinator] = ask_in_thread(self._weights, counts)
        return asking

    def weigh(self, coordinator: object, topics: Sequence[Topic], given: object) -> list[Topic]:
        """The topics with the weights that the source gave."""
        weighed, findings = weigh(topics, given)
        for finding in findings:
            self.log.warning("%s: %s", self.name, finding)
        self._last_weights[coordinator] = given
        return weighed

    def weigh_by(
        self, coordinator: object, topics: Sequence[Topic], asked: AskedWeights | None, patience_s: float
    ) -> list[Topic]:
        """The topics with the weights that the source has answered, after having been waited for so long.

        This never fails: it logs every error of the source.
        """
        if asked is None:
            why = "it has not answered the last question yet"
        elif not asked.done():
            why = f"it did not answer within {patience_s:g} s"
        elif asked.cancelled():
            why = "it was cancelled"
        elif (error := asked.exception()) is not None:
            why = f"it raised {type(error).__name__}: {error}"
        else:
            return self.weigh(coordinator, topics, asked.result())
        return self.weigh_without_answer(coordinator, topics, why)

    def weigh_without_answer(self, coordinator: object, topics: Sequence[Topic], why: str) -> list[Topic]:
        """The topics with the weights that the source gave last; with none if it never gave any."""
        last = self._last_weights.get(coordinator)
        instead = "all weights count as unknown" if last is None else "those it gave last are used"
        self.log.warning("%s: no weights from %r: %s; %s", self.name, self._weights, why, instead)
        return list(topics) if last is None else weigh(topics, last)[0]

    def encode_assignments(
        self, members: DecodedMembers, topics: Iterable[Topic], generation: int | None
    ) -> EncodedAssignments:
        """The bytes of every member's assignment, as the leader of `generation` (None if unknown)."""
        encoded = encode_assignments(
            self._strategy, members, topics, generation, stay_classic=self._stay_classic
        )
        for finding in encoded.findings:
            self.log.warning("%s: %s", self.name, finding)
        return encoded


def require_strategy(strategy: object) -> Strategy:
    """The strategy itself, or a TypeError that says what was handed over instead of one."""
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
        raise TypeError(f"{strategy!r} is not a strategy: {problem} (see kafka_assignors.strategy.Strategy)")
    return cast("Strategy", strategy)


def optional_name(argument: str, value: object) -> str | None:
    """The value of an argument that is a name or None; TypeError for anything else."""
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        raise TypeError(f"{argument} must be a non-empty str or None, not {value!r}")
    if not fits_kafka_string(value):
        raise TypeError(f"{argument} must be text of at most {LONGEST_NAME} bytes")
    return value


def require_eager(assignors: Iterable[object], cooperative_consumer: str) -> None:
    """Raise ValueError if a stock consumer, which is eager, has an assignor whose strategy is not.

    `cooperative_consumer` is the class that such a strategy needs. Assignors of other packages pass.
    """
    for one in assignors:
        if isinstance(one, Assignor) and RebalanceProtocol.EAGER not in one.strategy.protocols:
            raise ValueError(
                f"strategy {one.name!r} runs under the cooperative protocol alone, and this consumer is "
                f"eager: use {cooperative_consumer}"
            )


def require_cooperative(assignors: Sequence[object], package: str, stock_consumer: str) -> None:
    """Raise TypeError or ValueError for a list of assignors that a cooperative consumer cannot run.

    `package` provides the assignors for this client; `stock_consumer` is the eager class of the client.
    """
    usable = [_require_ours(one, package) for one in assignors]
    for name, count in Counter(one.name for one in usable).items():
        if count > 1:
            raise ValueError(
                f"partition_assignment_strategy has {count} assignors with the name {name!r}: the group "
                "votes on names, so leave one of them"
            )
    if not any(RebalanceProtocol.COOPERATIVE in one.strategy.protocols for one in usable):
        names = ", ".join(one.name for one in usable) or "none"
        raise ValueError(
            f"no strategy in partition_assignment_strategy is cooperative ({names}): add "
            f"CooperativeStickyAssignor(), or use {stock_consumer}"
        )
    # While one strategy is eager alone, the consumer follows the eager protocol with all of them.
    eager_alone = [one.name for one in usable if RebalanceProtocol.COOPERATIVE not in one.strategy.protocols]
    cooperative_alone = [one.name for one in usable if RebalanceProtocol.EAGER not in one.strategy.protocols]
    if eager_alone and cooperative_alone:
        raise ValueError(
            f"strategy {cooperative_alone[0]!r} runs under the cooperative protocol alone and "
            f"{eager_alone[0]!r} under the eager one alone, and a consumer follows one protocol: leave one "
            "of them out of partition_assignment_strategy"
        )


def _require_ours(one: object, package: str) -> Assignor:
    if isinstance(one, Assignor):
        return one
    if isinstance(one, type) and issubclass(one, Assignor):
        raise TypeError(
            f"{one.__name__} is a class and partition_assignment_strategy needs an instance: "
            f"pass [{one.__name__}()]"
        )
    raise TypeError(
        f"{one!r} in partition_assignment_strategy is not an assignor of {package}: others do not know about "
        f"partitions that members hold while they join; {_instead_of(one, package)}"
    )


def _instead_of(one: object, package: str) -> str:
    """What to pass in place of an assignor of another package."""
    kind = one if isinstance(one, type) else type(one)
    name = one if isinstance(one, str) else f"{kind.__module__}.{kind.__name__}"
    strategy = strategy_of_class(name) or name
    ours = assignor_class(strategy)
    if ours is None:
        return f"pass an assignor of {package}, such as CooperativeStickyAssignor()"
    first = "" if strategy == "cooperative-sticky" else ", after CooperativeStickyAssignor()"
    return f"pass {ours}() of {package}, which runs {strategy!r} as well{first}"


# ---- one class for each strategy
#
# An adapter makes its own of each, and documents it; its `StrategyAssignor` adds the client's interface:
#
#     class StickyAssignor(RunsSticky, StrategyAssignor): ...


class RunsRange(Assignor):
    def __init__(self, **options: Unpack[AssignorOptions]) -> None:
        super().__init__(Range(), **options)


class RunsRoundRobin(Assignor):
    def __init__(self, **options: Unpack[AssignorOptions]) -> None:
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
        super().__init__(RackAwareSticky(moves_per_miss), **options)


class RunsCapacity(Assignor):
    def __init__(self, *, capacity: int, **options: Unpack[AssignorOptions]) -> None:
        super().__init__(Capacity(capacity), **options)


class RunsStandby(Assignor):
    def __init__(
        self, *, standby: bool = False, active_at_least: int = 1, **options: Unpack[AssignorOptions]
    ) -> None:
        super().__init__(Standby(standby=standby, active_at_least=active_at_least), **options)


class RunsPriority(Assignor):
    def __init__(
        self,
        *,
        first: Iterable[Iterable[str | tuple[str, Iterable[int]]]],
        **options: Unpack[AssignorOptions],
    ) -> None:
        super().__init__(Priority(first), **options)


class RunsWeighted(Assignor):
    def __init__(
        self,
        weights: Callable[[Mapping[str, int]], Any],
        *,
        threshold: float = 0.1,
        budget: int | None = None,
        capacity: int | None = None,
        weights_timeout_s: float = 2.0,
        **options: Unpack[AssignorOptions],
    ) -> None:
        strategy = Weighted(threshold=threshold, budget=budget, capacity=capacity)
        super().__init__(strategy, weights=weights, weights_timeout_s=weights_timeout_s, **options)


class RunsRollout(Assignor):
    def __init__(
        self,
        *,
        release: str,
        share: float | None = None,
        draining: bool = False,
        **options: Unpack[AssignorOptions],
    ) -> None:
        self._rollout = Rollout(release, share, draining=draining)
        super().__init__(self._rollout, **options)

    def announce(self, *, share: float | None = None, draining: bool | None = None) -> None:
        """Announce something else from the next join on, for which `enforce_rebalance` asks."""
        self._rollout.announce(share=share, draining=draining)
