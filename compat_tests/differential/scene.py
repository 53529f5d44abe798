"""One consumer in one scenario: what states are made of, its calls, and what is observed.

A scene runs in an event loop and a thread of its own. What a client does differently is in `aiokafka_scene`
and `kafka_python_scene`.
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from compat_tests.differential import language
from compat_tests.differential.holder import Holder, committed, expel
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors.wire import Subscription, encode_subscription

HANG_S = 60.0
"""The limit for events that must happen, even on a slow machine."""

HOLDERS_LEAVE_S = 5.0
"""The time for holders to leave. They cannot leave while the group waits for a consumer."""

ATTEMPTS = 3
"""Attempts to reach a state, because the stock consumer of kafka-python may hang on the way."""

READING = ("getone", "getmany", "__anext__", "poll", "__next__")
"""Methods whose first records come from a random partition, which makes the positions random too."""


@dataclass
class Stage:
    """A broker with the topics of all scenarios.

    Attributes:
        topics: the topics by role.
        run: a part of the group names.
        patience_s: the time limit of a call that may wait forever.
    """

    kafka: Kafka
    topics: Mapping[str, str]
    run: str
    patience_s: float


class Scene(abc.ABC):
    """A consumer, from its construction to the check of the resources that it left.

    Attributes:
        ending: the methods that close the consumer.
        stock_protocol: the protocol that a group with the stock consumer votes for.
        wire: counts its requests, and holds them if a state requires it.
        calls_in_listener: whether the first revocation makes the calls.
        unobserved: the observations that depend on timing in this state.
    """

    ending: ClassVar[tuple[str, ...]]
    stock_protocol: ClassVar[str]
    partition: ClassVar[Callable[[str, int], Any]]
    offset: ClassVar[Callable[..., Any]]
    listener_class: ClassVar[Callable[..., Any]]
    own_settings: ClassVar[Mapping[str, Any]]
    wire: Any

    def __init__(self, stage: Stage, kind: Any, scenario: language.Scenario, number: int) -> None:
        self.stage, self.kind, self.scenario = stage, kind, scenario
        self.protocol = self.stock_protocol if self.is_stock else "cooperative-sticky"
        self.group = f"g-{stage.run}-{number}-{kind.__name__}"
        self.names = language.Names(stage.topics, self.group)
        self.listener = type(self).listener_class(self.tell)
        self.told: list[str] = []
        self.observed: language.Observations = {}
        self.consumer: Any = None
        self.closing: asyncio.Future[str] | None = None
        """A call under way that closes the consumer."""
        self.calls_in_listener = self.has_called_in_listener = False
        self.unobserved: set[str] = set()

    @property
    def orders(self) -> str:
        """The topic of the scenario."""
        return self.stage.topics["orders"]

    @property
    def is_stock(self) -> bool:
        """Whether the consumer is the client's own."""
        return not self.kind.__name__.startswith("Cooperative")

    def holder(self, *topics: str, name: str = "holder") -> Holder:
        """A member that reads these topics; without topics, it takes no partition from the consumer."""
        return Holder(
            self.stage.kafka.bootstrap,
            self.group,
            metadata=encode_subscription(Subscription(0, topics)),
            client_id=name,
            protocol=self.protocol,
            session_timeout_ms=60_000,
            # As long as all calls may wait together; a member that does not rejoin by then is removed.
            rebalance_timeout_ms=1_800_000,
        )

    # ---- what states are made of

    @property
    @abc.abstractmethod
    def membership(self) -> tuple[str, int]:
        """The id of the member, and its generation."""

    @abc.abstractmethod
    def tell(self, what: str, partitions: Any, name: str = "") -> Any:
        """Record a call of the listener; the first revocation makes the calls if the state requires it."""

    def must_call(self, what: str, partitions: Any, name: str) -> bool:
        """Record a call of the listener; returns whether it has to make the calls."""
        self.told.append(f"{name}{what} {self.names.text(set(partitions))}")
        if not (what == "revoked" and partitions and self.calls_in_listener):
            return False
        self.calls_in_listener = False
        self.names.first = min(tp.partition for tp in partitions)
        return True

    def settings(self, **settings: Any) -> dict[str, Any]:
        return {
            "bootstrap_servers": self.stage.kafka.bootstrap,
            "group_id": self.group,
            "client_id": "member",
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "heartbeat_interval_ms": 100,
            "max_poll_interval_ms": 600_000,
            "metadata_max_age_ms": 1_000,
            "retry_backoff_ms": 20,
            **type(self).own_settings,
            **settings,
        }

    @abc.abstractmethod
    def construct(self, *topics: str, **settings: Any) -> None:
        """Make the consumer, which does not connect before its start."""

    @abc.abstractmethod
    async def constructed(self, call: language.Call) -> str:
        """The outcome of a construction."""

    @abc.abstractmethod
    async def start(self) -> None:
        """Start the consumer, if it has to be started."""

    def subscribe(self, *topics: str, **options: Any) -> None:
        self.consumer.subscribe(*([list(topics)] if topics else []), listener=self.listener, **options)

    async def own(self, **settings: Any) -> None:
        """Own all of `orders`, and read all records."""
        self.construct(**settings)
        self.subscribe(self.orders)
        await self.start()
        await self.read_all()

    @abc.abstractmethod
    async def read(self) -> Mapping[Any, list[Any]]:
        """Some records, or none."""

    async def read_all(self) -> None:
        wanted = Counter(
            {self.resolve(language.Part(number)): language.RECORDS for number in range(language.PARTITIONS)}
        )
        read: Counter[Any] = Counter()
        deadline = time.monotonic() + HANG_S
        while read != wanted:
            for tp, records in (await self.read()).items():
                read[tp] += len(records)
                assert read[tp] <= language.RECORDS, read
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.scenario}: {self.kind.__name__} did not read it all")

    @contextlib.asynccontextmanager
    async def held_by(self, *holders: Holder) -> AsyncIterator[None]:
        """These members join one after the other, and leave together at the end of the block."""
        for holder in holders:
            holder.__enter__()
        try:
            yield
        finally:
            loop = asyncio.get_running_loop()
            for holder in holders:
                holder.ask_to_end()
            leaving = [loop.run_in_executor(None, holder.__exit__, None, None, None) for holder in holders]
            deadline = time.monotonic() + max(HOLDERS_LEAVE_S, self.stage.patience_s)

            def have_left() -> bool:
                if time.monotonic() > deadline:
                    for holder in holders:
                        holder.abandon()
                return all(each.done() for each in leaving)

            await self.polling_until(have_left)

    async def expel(self) -> None:
        """Remove the consumer from its group."""
        await asyncio.to_thread(expel, self.stage.kafka.bootstrap, self.group, self.membership[0])

    async def settled_beside(self, holder: Holder) -> None:
        """Wait until the consumer and the holder share a generation, and each partition has a position."""
        await self.polling_until(
            lambda: (
                holder.generations
                and self.membership[1] == holder.generations[-1]
                and self.told[-1].startswith("assigned")
                and self.consumer.assignment()
                and all(self.position(tp) is not None for tp in self.consumer.assignment())
            )
        )

    def joins(self) -> Callable[[int], Awaitable[None]]:
        """A function that waits until so many further JoinGroup requests were sent."""
        sent = self.wire.sent["JoinGroup"]

        async def join(count: int) -> None:
            await self.polling_until(lambda: self.wire.sent["JoinGroup"] >= sent + count)

        return join

    def rejoins(self) -> Callable[[int], Awaitable[None]]:
        """As `joins`, where what the order of other requests would change has to be the same each time."""
        return self.joins()

    async def has_left(self) -> None:
        """Wait until the consumer has left its group because it was not polled."""
        left = self.wire.answered["LeaveGroup"]  # On a busy machine it may have left and rejoined before.
        await self.until(lambda: self.wire.answered["LeaveGroup"] > left)

    async def until(self, what: Callable[[], object], hang_s: float = HANG_S) -> None:
        deadline = time.monotonic() + hang_s
        while not what():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.scenario}: {self.kind.__name__} did not get there")
            await asyncio.sleep(0.01)

    async def polling_until(self, what: Callable[[], object]) -> None:
        """As `until`; a consumer that has to be polled for a rebalance is polled."""
        await self.until(what)

    # ---- calls

    async def perform(self) -> None:
        """Make the calls, and observe each."""
        seen = self.begin()
        for call in self.scenario.calls:
            told = len(self.told)
            making = self.outcome(
                partial(self.make, call), only_type=call.only_type, ends=call.method in self.ending
            )
            seen = self.note(call, await making, told, seen)

    def make(self, call: language.Call) -> Any:
        """Make a call; an awaitable that it returns is awaited."""
        arguments = [self.resolve(argument) for argument in call.arguments]
        options = {name: self.resolve(value) for name, value in call.options.items()}
        attribute = getattr(self.consumer, call.method)
        return attribute(*arguments, **options) if callable(attribute) else attribute

    async def outcome(
        self,
        what: Callable[[], Any],
        *,
        only_type: bool = False,
        ends: bool = False,
        patience_s: float | None = None,
    ) -> str:
        """The result or the error of a call, or that it waits. Only one that `ends` the consumer goes on."""
        call = self.begun(what, only_type=only_type)
        await asyncio.wait([call], timeout=patience_s or self.stage.patience_s)
        if call.done():
            return call.result()
        if ends:
            self.closing, self.told_before_close = call, len(self.told)
        else:
            await self.give_up(call)
        return "waits"

    @abc.abstractmethod
    def begun(self, what: Callable[[], Any], *, only_type: bool) -> asyncio.Future[str]:
        """The future result or error of a call."""

    @abc.abstractmethod
    async def give_up(self, call: asyncio.Future[str]) -> None:
        """A call waits for too long."""

    def resolve(self, argument: Any) -> Any:
        """An argument with the names of this run."""
        match argument:
            case language.Part(role=role):
                return type(self).partition(self.stage.topics[role], self.names.number(argument))
            case language.TopicName(role):
                return self.stage.topics[role]
            case language.Offset(offset, metadata):
                return type(self).offset(offset, metadata)
            case language.Given(name):
                return self.given(name)
            case dict():
                return {self.resolve(key): self.resolve(value) for key, value in argument.items()}
            case list() | tuple():
                return type(argument)(map(self.resolve, argument))
        return argument

    def given(self, name: str) -> Any:
        """A value that only a scene has."""
        if name == "another listener":
            return type(self).listener_class(partial(self.tell, name="another: "))
        return {"pattern": f"^{self.orders}$"}[name]

    # ---- what is observed

    def observe(self, what: str, text: str) -> None:
        """Record an observation of the end of the scenario."""
        self.observed.setdefault(self.scenario.end, {})[what] = text

    @property
    def is_reached(self) -> bool:
        """Whether the consumer reached the state."""
        return "state" not in self.observed.get(self.scenario.end, {})

    def told_since(self, told: int) -> str:
        """The listener calls after the first `told` ones."""
        return "; ".join(self.told[told:]) or "nothing"

    def seen(self) -> dict[str, str]:
        """The observations of the consumer that need no waiting."""
        consumer = self.consumer
        seen = {
            "assignment": self._shown(lambda: self.names.text(consumer.assignment())),
            "subscription": self._shown(lambda: self.names.text(consumer.subscription())),
            "paused": self._shown(lambda: self.names.text(consumer.paused())),
            "positions": self._shown(
                lambda: self.by_partition({tp: self.position(tp) for tp in consumer.assignment()})
            ),
        }
        return {what: text for what, text in seen.items() if what not in self.unobserved}

    @abc.abstractmethod
    def position(self, tp: Any) -> int | None:
        """A known position; it is not looked up."""

    def by_partition(self, offsets: Mapping[tuple[str, int], int | None]) -> str:
        """The offsets of the partitions of `orders`, as text."""
        shown = {
            self.names.shown_number(number): at
            for (topic, number), at in offsets.items()
            if topic == self.orders
        }
        return " ".join(f"{number}@{at}" for number, at in sorted(shown.items())) or "nothing"

    def note(self, call: Any, result: str, told: int, before: Mapping[str, str]) -> dict[str, str]:
        """Record the observations of a call, and return the present ones."""
        seen = self.seen()
        changes = {what: text if text != before[what] else "as before" for what, text in seen.items()}
        if call.method in READING:
            changes.pop("positions", None)
        self.observed[str(call)] = {"result": result, "listener": self.told_since(told), **changes}
        return seen

    def begin(self) -> dict[str, str]:
        """The observations before the first call."""
        seen = self.seen()
        if self.scenario.name:
            self.observed[language.THE_STATE] = dict(seen)
        return seen

    def _shown(self, look: Callable[[], str]) -> str:
        try:
            return look()
        except Exception as error:
            return f"raises {type(error).__name__}"

    def text_of(self, returned: Any, *, only_type: bool) -> str:
        """A returned value as text."""
        if only_type:
            return "returns an object" if returned is not None else "returns None"
        return "returns the consumer" if returned is self.consumer else f"returns {self.names.text(returned)}"

    # ---- the end

    @abc.abstractmethod
    async def deliver(self) -> str:
        """Whether the consumer delivers records, once no partition is paused."""

    async def observe_delivery(self, *, after_join: bool = False) -> None:
        """Observe `then`; polls may have ended during a join before it."""
        self.observe("then", await self.deliver())

    async def closed(self, patience_s: float = HANG_S) -> str:
        """The outcome of closing the consumer."""
        return await self.outcome(getattr(self.consumer, self.ending[0]), patience_s=patience_s)

    async def close(self) -> None:
        if self.closing is None:
            self.told_before_close = len(self.told)
            closed = await self.closed(self.close_s)
        else:
            await asyncio.wait([self.closing], timeout=HANG_S)
            closed = self.closing.result() if self.closing.done() else "waits"
        self.observe("close", closed)
        if self.scenario.calls[-1].method in self.ending:
            self.observe("listener at close", self.told_since(self.told_before_close))

    @property
    def close_s(self) -> float:
        """How long closing the consumer may take."""
        return HANG_S

    async def look_around(self) -> None:
        """Observe the resources that are left, after a time in which they may end."""
        deadline = time.monotonic() + self.stage.patience_s
        while (left := self.left()) and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        self.observe("left", left or "nothing")

    @abc.abstractmethod
    def left(self) -> str:
        """The resources that are left."""

    @abc.abstractmethod
    async def clean_up(self) -> None:
        """End what is left."""

    async def look_up_committed(self) -> None:
        """Observe the group's committed offsets, as read by another client."""
        found = await asyncio.to_thread(committed, self.stage.kafka, self.group)
        self.observe("committed", self.by_partition(found))
