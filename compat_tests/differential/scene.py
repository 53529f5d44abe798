"""What the scenes of both clients have in common: names, arguments, and what was observed."""

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
"""For what certainly comes, on however slow a machine."""

HOLDERS_LEAVE_S = 5.0
"""What holders are given to leave, which they cannot while the group waits for a consumer."""

ATTEMPTS = 3
"""To reach a state: the stock consumer of kafka-python may stop for good on the way."""

READING = ("getone", "getmany", "__anext__", "poll", "__next__")
"""Of which partition records come first depends on the moment, and so do the positions afterwards."""


@dataclass
class Stage:
    """A broker with the topics of all scenarios.

    Attributes:
        topics: by role.
        run: part of the names of groups.
        patience_s: what a call is given that may wait for ever.
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
        """`protocol`: what the group votes on."""
        self.stage, self.kind, self.scenario, self.protocol = stage, kind, scenario, protocol
        self.group = f"g-{stage.run}-{number}-{kind.__name__}"
        self.names = Names(stage.topics, self.group)
        self.told: list[str] = []
        self.observed: Observations = {}
        self.consumer: Any = None
        self.unobserved: set[str] = set()
        """What depends on the moment in this state."""

    @property
    def orders(self) -> str:
        """The topic of the scenario."""
        return self.stage.topics["orders"]

    @property
    def is_stock(self) -> bool:
        """Whether the consumer is the client's own."""
        return not self.kind.__name__.startswith("Cooperative")

    def holder(self, *topics: str, name: str = "holder") -> Holder:
        """A member that reads these topics; without any, what it does takes nothing from the consumer."""
        return Holder(
            self.stage.kafka.bootstrap,
            self.group,
            metadata=subscription_to(*topics),
            client_id=name,
            protocol=self.protocol,
            session_timeout_ms=60_000,
            # As long as the calls wait altogether: who does not rejoin for so long is removed.
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
        """What only a scene has."""
        return {"pattern": f"^{self.orders}$"}[name]

    # ---- what is observed

    def observe(self, what: str, text: str) -> None:
        """Something about the end of the scenario."""
        self.observed.setdefault(self.scenario.end, {})[what] = text

    @property
    def is_reached(self) -> bool:
        """Whether the consumer came into the state."""
        return "state" not in self.observed.get(self.scenario.end, {})

    def told_since(self, told: int) -> str:
        """What the listener was told after it had been told so much."""
        return "; ".join(self.told[told:]) or "nothing"

    def seen(self) -> dict[str, str]:
        """What can be seen of the consumer without waiting."""
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
        """A position if there is one, without looking it up."""
        raise NotImplementedError

    def by_partition(self, offsets: Mapping[Any, int | None]) -> str:
        """Offsets of partitions of `orders`."""
        shown = {
            self.names.shown_number(tp.partition): at for tp, at in offsets.items() if tp.topic == self.orders
        }
        return " ".join(f"{number}@{at}" for number, at in sorted(shown.items())) or "nothing"

    def note(self, call: Any, result: str, told: int, before: Mapping[str, str]) -> dict[str, str]:
        """Note what came of a call, and return what is seen now."""
        seen = self.seen()
        changes = {what: text if text != before[what] else "as before" for what, text in seen.items()}
        if call.method in READING:
            changes.pop("positions", None)
        self.observed[str(call)] = {"result": result, "listener": self.told_since(told), **changes}
        return seen

    def begin(self) -> dict[str, str]:
        """What is seen before the first call."""
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
        """A returned value."""
        if only_type:
            return "returns an object" if returned is not None else "returns None"
        return "returns the consumer" if returned is self.consumer else f"returns {self.names.text(returned)}"
