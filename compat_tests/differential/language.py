"""The language of the scenarios: calls with symbolic arguments, and the observations of one consumer.

A *scenario* is a state, some calls, and the observations of each call. It is written once, and performed by
the stock consumer and by ours; their observations are compared as text. Arguments and values are therefore
symbolic: `Part(0)` is the first partition of the scenario's topic, and a value with that partition reads
`orders-0` in every run, although each run has its own topic.

    seek(orders-0, 1)          a call: method and arguments, which name its row in the tables
    owning                     a state (`states`)
    result                     what the call returned or raised, or that it waits as long as the state lasts
    after                      assignment, subscription, paused partitions and positions right after the call
    listener                   the listener calls during the call
    then                       whether the consumer delivers records when the state has ended
    close                      what closing the consumer returned or raised
    left                       tasks, threads and sockets that closing the consumer has left behind
    committed                  the committed offsets of the group at the end
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

PARTITIONS, RECORDS = 4, 3
"""The partitions of the topic `orders`, and the records in each."""


THE_STATE = "the state itself"
"""The key of the observations before the first call."""

Observations = dict[str, dict[str, str]]
"""The observations of each call: field and text."""


class LongText(str):
    """A text that is too long to print."""

    def __repr__(self) -> str:
        return f"<{len(self)} characters>"


LONG_TEXT = LongText("m" * 40_000)


@dataclass(frozen=True)
class TopicName:
    """A topic by its role: `orders` is the scenario's topic, `elsewhere` exists too, `nowhere` does not."""

    role: str = "orders"

    def __repr__(self) -> str:
        return f"'{self.role}'"


@dataclass(frozen=True)
class Part:
    """A partition of a topic: `orders` has four; partitions with a greater number do not exist."""

    number: int
    role: str = "orders"

    def __repr__(self) -> str:
        return f"{self.role}-{self.number}"


@dataclass(frozen=True)
class Offset:
    """An offset with metadata, in the client's form."""

    offset: Any
    metadata: Any = ""

    def __repr__(self) -> str:
        return f"offset({self.offset!r}, {self.metadata!r})"


@dataclass(frozen=True)
class Given:
    """A value that only the scene has, such as its listener or its pattern."""

    name: str

    def __repr__(self) -> str:
        return f"<{self.name}>"


@dataclass(frozen=True)
class Call:
    """A call of a method, or a read of a property.

    Attributes:
        only_type: compare only the type of the returned value, because the value depends on timing.
    """

    method: str
    arguments: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    only_type: bool = False

    def __str__(self) -> str:
        options = (f"{name}={value!r}" for name, value in self.options.items())
        return f"{self.method}({', '.join([*map(repr, self.arguments), *options])})"


def of(method: str, *arguments: Any, only_type: bool = False, **options: Any) -> Call:
    return Call(method, arguments, options, only_type)


@dataclass(frozen=True)
class Scenario:
    """Calls in one state, in order, each observed; the end is observed after the last call.

    Attributes:
        name: the name of a scenario with several calls.
    """

    state: str
    calls: tuple[Call, ...]
    name: str = ""

    @property
    def end(self) -> str:
        """The key of the observations of the end."""
        return self.name or str(self.calls[0])

    def __str__(self) -> str:
        return f"{self.state}: {self.end}"


_MEMBER_ID = re.compile(r"member-[0-9a-f-]{36}")
_TIME_MS = re.compile(r"\b1[0-9]{12}\b")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


@dataclass
class Names:
    """The names of one run, and the roles that replace them in observations.

    Attributes:
        topics: the topic of each role.
        first: the partition that counts as the first of `orders`; the others follow cyclically.
    """

    topics: Mapping[str, str]
    group: str
    first: int = 0

    def number(self, part: Part) -> int:
        """The partition number on the broker."""
        exists = part.role == "orders" and part.number < PARTITIONS
        return (part.number + self.first) % PARTITIONS if exists else part.number

    def shown_number(self, number: int) -> int:
        """The partition number in observations."""
        return (number - self.first) % PARTITIONS if number < PARTITIONS else number

    def text(self, value: Any) -> str:
        """A value as text that is the same in every run."""
        if isinstance(value, BaseException):
            return type(value).__name__
        if isinstance(value, set | frozenset):
            return "{" + ", ".join(sorted(map(self.text, self._known(value)))) + "}"
        if isinstance(value, Mapping):
            items = sorted((self.text(key), self.text(of_key)) for key, of_key in value.items())
            return "{" + ", ".join(f"{key}: {of_key}" for key, of_key in items) + "}"
        if (topic := getattr(value, "topic", None)) is not None and hasattr(value, "partition"):
            role = next((role for role, name in self.topics.items() if name == topic), topic)
            if hasattr(value, "timestamp_type"):
                return f"a record of {role}"
            return f"{role}-{self.shown_number(value.partition) if role == 'orders' else value.partition}"
        if isinstance(value, list):
            # Records come in batches whose size depends on timing.
            texts = [self.text(each) for each in value]
            return (
                "records" if value and hasattr(value[0], "timestamp_type") else "[" + ", ".join(texts) + "]"
            )
        return self._plain(repr(value))

    def _known(self, values: Iterable[Any]) -> Iterable[Any]:
        # Other tests have their own topics on the broker.
        topics = set(self.topics.values())
        return (each for each in values if not isinstance(each, str) or each in topics)

    def _plain(self, text: str) -> str:
        for role, topic in self.topics.items():
            text = text.replace(topic, role)
        text = text.replace(self.group, "group")
        return _ADDRESS.sub("", _TIME_MS.sub("<time>", _MEMBER_ID.sub("<member>", text)))
