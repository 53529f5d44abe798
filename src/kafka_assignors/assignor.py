"""`Assignor`: one strategy in the consumers of a process, and the last assignment of each consumer.

The adapter of a client adds the interface that the client calls; the code that all clients share is here and
in `messages`. There is no I/O; findings go to the logger of the adapter.

The protocols of a strategy decide which consumers it runs in: a stock consumer is eager and needs
`RebalanceProtocol.EAGER` (`require_eager`); a cooperative consumer follows the protocol that all of its
strategies have (`require_cooperative`).
"""

from __future__ import annotations

import inspect
import logging
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from logging import Logger
from types import CodeType, FrameType, ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypedDict, TypeVar, cast
from weakref import WeakKeyDictionary

from kafka_assignors.arguments import require_number
from kafka_assignors.group import Topic, TopicPartitions
from kafka_assignors.messages import (
    NEVER_ASSIGNED,
    DecodedMembers,
    EncodedAssignments,
    JoinedMember,
    LastAssignment,
    encode_assignments,
    read_members,
    subscription_bytes,
)
from kafka_assignors.strategy import (
    LONGEST_NAME,
    SHARED_NAMES,
    RebalanceProtocol,
    Strategy,
    contract_problem,
    fits_kafka_string,
    how_to_run,
    is_ours,
    runs_on_broker,
)
from kafka_assignors.weights import NoWeightsError, Weighed, weigh

if TYPE_CHECKING:
    import asyncio

Caller = TypeVar("Caller")


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


AskedWeights: TypeAlias = "Future[Any] | asyncio.Future[Any]"
"""The result of a source of weights that is being asked, in a thread or on an event loop."""


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
            failure = error
            if isinstance(error, StopIteration):  # Before Python 3.12, futures of asyncio refuse it.
                failure = RuntimeError(f"it raised {error!r}")
                failure.__cause__ = error
            result.set_exception(failure)

    threading.Thread(target=call, name=name, daemon=True).start()
    return result


def caller_of(kind: type[Caller]) -> Caller | None:
    """The nearest `self` of this type in the call stack; None if there is none.

    Clients do not tell an assignor which consumer calls it.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        caller = frame.f_locals.get("self")
        if isinstance(caller, kind):
            return caller
        frame = frame.f_back
    return None


def code_of(kind: type, method: str) -> CodeType | None:
    """The code of a method, also where another package has wrapped it; None for one that is not Python."""
    code: CodeType | None = getattr(inspect.unwrap(getattr(kind, method, None)), "__code__", None)  # type: ignore[arg-type]
    return code


def variables_of(code: CodeType | None) -> Mapping[str, Any] | None:
    """The variables of the nearest call in the stack that runs this code; None if there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return None if frame is None else frame.f_locals


class Assignor:
    """One strategy in the consumers of a process.

    It keeps the last assignment and the last weights of each consumer, by the consumer's coordinator object,
    and drops them with that object. So one instance may serve several consumers.
    """

    log: ClassVar[Logger]
    """The adapter's logger, which gets the findings about members, weights and assignments."""

    strategy: Strategy
    weights: Callable[[Mapping[str, int]], Any] | None
    """The function that a leader asks for the weights of partitions; None if there is none."""
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

        Members of other clients run `range`, `roundrobin`, `sticky` and `cooperative-sticky` under these
        names, so a strategy of your own is refused under one of them (ValueError), unless `shared_name` says
        that it sends, reads and assigns what theirs do.
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
        _require_source(weights)
        require_number("weights_timeout_s", weights_timeout_s, above_zero=True)
        self.weights, self._weights_timeout_s = weights, weights_timeout_s
        if stay_classic is not None and not isinstance(stay_classic, bool):
            raise TypeError(f"stay_classic must be True, False or None, not {stay_classic!r}")
        self.stay_classic = strategy.name not in SHARED_NAMES if stay_classic is None else stay_classic
        self._last: WeakKeyDictionary[object, LastAssignment] = WeakKeyDictionary()
        self._last_weights: WeakKeyDictionary[object, object] = WeakKeyDictionary()
        self._asking: WeakKeyDictionary[object, AskedWeights] = WeakKeyDictionary()

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
    ) -> bytes:
        """The same for a consumer that tracks its last assignment itself; `held` if it still holds it."""
        return subscription_bytes(
            self.strategy,
            topics,
            last,
            instance_id=self._instance_id or instance_id,
            rack=self._rack or rack,
            held=held,
        )

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

    def weights_patience_s(self, session_timeout_ms: float) -> float:
        """How long a leader waits for weights: `weights_timeout_s`, but at most a third of its session."""
        return min(self._weights_timeout_s, session_timeout_ms / 1000 / 3)

    def ask_for_weights(
        self,
        coordinator: object,
        topics: Sequence[Topic],
        ask: Callable[..., AskedWeights] = ask_in_thread,
    ) -> AskedWeights | None:
        """Ask the source, by default in a thread; None while its previous call still runs."""
        assert self.weights is not None
        earlier = self._asking.get(coordinator)
        if earlier is not None and not earlier.done():
            return None
        counts = {topic.name: topic.partitions for topic in topics}
        asking = self._asking[coordinator] = ask(self.weights, counts)
        return asking

    def weigh(self, coordinator: object, topics: Sequence[Topic], given: object) -> Weighed:
        """The topics with the weights that the source gave; they are kept until it gives others."""
        self._last_weights[coordinator] = given
        return weigh(topics, given)

    def weigh_by(
        self, coordinator: object, topics: Sequence[Topic], asked: AskedWeights | None, patience_s: float
    ) -> Weighed:
        """The topics with the weights in the answer `asked`, for which the caller has waited `patience_s`.

        Raises `NoWeightsError` without an answer, and for every error of the source.
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
        raise NoWeightsError(why)

    def weighed_for_join(
        self, coordinator: object, topics: Sequence[Topic], found: Weighed | NoWeightsError
    ) -> list[Topic]:
        """The topics with the weights for this rebalance: without an answer, the last ones of the source.

        If the source never gave any, the topics have no weights. Problems are logged.
        """
        if isinstance(found, Weighed):
            for finding in found.findings:
                self.log.warning("%s: %s", self.name, finding)
            return found.topics
        last = self._last_weights.get(coordinator)
        instead = "all weights count as unknown" if last is None else "those it gave last are used"
        self.log.warning("%s: no weights from %r: %s; %s", self.name, self.weights, found, instead)
        return list(topics) if last is None else weigh(topics, last).topics

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


def _require_source(source: object) -> None:
    """Raise TypeError for a value that cannot be asked for weights."""
    # A strategy can be called, in order to say what it is (`Strategy.__call__`).
    if source is not None and (not callable(source) or isinstance(source, type | Strategy)):
        raise TypeError(
            "weights must be a function (topics: partition counts by name) -> weights by name, "
            f"not {source!r}"
        )


def optional_name(argument: str, value: object) -> str | None:
    """The value of an argument that is a name or None; TypeError for anything else."""
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        raise TypeError(f"{argument} must be a non-empty str or None, not {value!r}")
    if not fits_kafka_string(value):
        raise TypeError(f"{argument} must be text of at most {LONGEST_NAME} bytes")
    return value


def require_client_rack(value: object) -> str | None:
    """The rack in a consumer's setting `client_rack`; clients take "" as no rack."""
    return optional_name("client_rack", None if value == "" else value)


def require_reason(value: object) -> str:
    """The reason that the user gives for a rebalance; TypeError for anything but a str or None."""
    if value is None or value == "":
        return "the application asked for it"
    if not isinstance(value, str):
        raise TypeError(f"reason must be a str or None, not {value!r}")
    return value.encode("utf-8", "replace").decode()  # A lone surrogate fits in no request.


def require_group(group_id: object, stock_consumer: str) -> None:
    """Raise TypeError for a cooperative consumer without a group; `stock_consumer` needs none."""
    if not isinstance(group_id, str) or not group_id:
        raise TypeError(
            f"group_id must be a non-empty str, not {group_id!r}: without a group, use {stock_consumer}"
        )


def class_given(kind: type) -> TypeError:
    """The error for an assignor's class where an instance is needed."""
    return TypeError(
        f"{kind.__name__} is a class and partition_assignment_strategy needs an instance: "
        f"pass [{kind.__name__}()]"
    )


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


def require_cooperative(assignors: Sequence[object], package: str, group_id: str) -> None:
    """Raise TypeError or ValueError for a list of assignors that a cooperative consumer cannot run.

    `package` provides the assignors for this client. A list in which one strategy makes the others eager is
    logged as a warning of the logger `<package>.eager`: it is right in the first restart of a migration
    alone. A list that is eager altogether is a choice.
    """
    if isinstance(assignors, str) or not isinstance(assignors, Sequence):
        remedy = "it in a list" if isinstance(assignors, Assignor) else "[CooperativeStickyAssignor()]"
        raise TypeError(
            _as_assignor(assignors)
            or f"partition_assignment_strategy must be a list of assignors, not {assignors!r}: pass {remedy}"
        )
    usable = [_require_ours(one, package) for one in assignors]
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


def _require_ours(one: object, package: str) -> Assignor:
    kind = one if isinstance(one, type) else type(one)
    if issubclass(kind, Assignor) and not _is_of_another_adapter(kind, package):
        if isinstance(one, Assignor):
            return one
        raise class_given(kind)
    if instead := _as_assignor(one):
        raise TypeError(instead)
    raise TypeError(
        f"{one!r} in partition_assignment_strategy is not an assignor of {package}: others do not know about "
        f"partitions that members hold while they join; {_instead_of(one, package)}"
    )


def _as_assignor(one: object) -> str | None:
    """What to pass in place of a strategy, its class or a module of strategies; None for anything else."""
    kind = one if isinstance(one, type) else type(one)
    if issubclass(kind, Strategy):
        return how_to_run(kind)
    if isinstance(one, ModuleType):
        found = [
            each
            for each in vars(one).values()
            if isinstance(each, type) and issubclass(each, Strategy) and not inspect.isabstract(each)
        ]
        found.sort(key=lambda each: each.__module__ != one.__name__)  # Its own before those it imports.
        return how_to_run(found[0]) if found else None
    return None


def _is_of_another_adapter(kind: type, package: str) -> bool:
    """Whether the class has the interface of another client."""
    packages = {base.__module__.partition(".")[0] for base in kind.__mro__}
    return any(each.startswith("kafka_assignors_") for each in packages) and package not in packages


def _instead_of(one: object, package: str) -> str:
    """What to pass in place of an assignor of another package."""
    from kafka_assignors.strategies.registry import assignor_class, strategy_of_class

    kind = one if isinstance(one, type) else type(one)
    name = one if isinstance(one, str) else f"{kind.__module__}.{kind.__name__}"
    strategy = one.name if isinstance(one, Assignor) else strategy_of_class(name) or name
    ours = assignor_class(strategy, package)
    if ours is None:
        return f"pass an assignor of {package}, such as CooperativeStickyAssignor()"
    first = "" if strategy == "cooperative-sticky" else ", after CooperativeStickyAssignor()"
    return f"pass {ours[0]}() of {ours[1]}, which runs {strategy!r} as well{first}"
