"""The common part of both clients' scenes: names, arguments, and observations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from compat_tests.differential.holder import Holder, subscription_to
from compat_tests.differential.language import (
    THE_STATE,
    Given,
    Names,
    Observations,
    Offset,
    Part,
    Scenario,
    TopicName,
)
from compat_tests.support.kafka_cluster import Kafka

__all__ = ["ATTEMPTS", "HANG_S", "HOLDERS_LEAVE_S", "READING", "Play", "Stage"]

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


class Play:
    """One scenario of one consumer."""

    ending: ClassVar[tuple[str, ...]]
    """The methods that close the consumer."""
    partition: ClassVar[Callable[[str, int], Any]]
    offset: ClassVar[Callable[..., Any]]

    def __init__(self, stage: Stage, kind: Any, scenario: Scenario, number: int, *, protocol: str) -> None:
        """`protocol`: the protocol that the group votes for."""
        self.stage, self.kind, self.scenario, self.protocol = stage, kind, scenario, protocol
        self.group = f"g-{stage.run}-{number}-{kind.__name__}"
        self.names = Names(stage.topics, self.group)
        self.told: list[str] = []
        self.observed: Observations = {}
        self.consumer: Any = None
        self.unobserved: set[str] = set()
        """The observations that depend on timing in this state."""

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
            metadata=subscription_to(*topics),
            client_id=name,
            protocol=self.protocol,
            session_timeout_ms=60_000,
            # As long as all calls may wait together; a member that does not rejoin by then is removed.
            rebalance_timeout_ms=1_800_000,
        )

    def resolve(self, argument: Any) -> Any:
        """An argument with the names of this run."""
        match argument:
            case Part(role=role):
                return type(self).partition(self.stage.topics[role], self.names.number(argument))
            case TopicName(role):
                return self.stage.topics[role]
            case Offset(offset, metadata):
                return type(self).offset(offset, metadata)
            case Given(name):
                return self.given(name)
            case dict():
                return {self.resolve(key): self.resolve(value) for key, value in argument.items()}
            case list() | tuple():
                return type(argument)(map(self.resolve, argument))
        return argument

    def given(self, name: str) -> Any:
        """A value that only a scene has."""
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

    def position(self, tp: Any) -> int | None:
        """A known position; it is not looked up."""
        raise NotImplementedError

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
            self.observed[THE_STATE] = dict(seen)
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
