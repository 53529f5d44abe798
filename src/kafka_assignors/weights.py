"""The weights of partitions: how a leader reads what a source gives.

A source of weights is a function of the user. It may be late, fail, or return nonsense, and none of that may
hold up the group. `WeightSource` asks it, with a timeout, and `weigh` interprets the result:

- an entry that is no weight (not a whole number from 0 to 2^63 - 1) counts as unknown, and so does a topic
  with too few or too many; the leader's log says so, once for each topic;
- without an answer the last one that this member got counts, however old: old weights are better than none.
  If it never got one, all weights are unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent import futures
from dataclasses import replace
from operator import index
from typing import Any, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

from kafka_assignors.arguments import require_number
from kafka_assignors.group import MOST_WEIGHT, Topic
from kafka_assignors.strategy import Strategy

GivenWeights: TypeAlias = Mapping[str, Sequence[int | None]]
"""By topic a weight for each partition, from 0 on; None where it is unknown."""


class Weighed(NamedTuple):
    """Topics with the weights that a source gave, and the problems in these weights."""

    topics: list[Topic]
    findings: list[str]


class WeightSource:
    """A source of weights, as the leaders of a process ask it: one source may serve several consumers."""

    def __init__(self, give: Callable[[Mapping[str, int]], Any], timeout_s: float) -> None:
        """`give` takes the partition counts of topics by name, and returns their weights by name.

        TypeError or ValueError for anything else, or a timeout that is not above 0.
        """
        # A strategy can be called, in order to say what it is (`Strategy.__call__`).
        if not callable(give) or isinstance(give, type | Strategy):
            raise TypeError(
                "weights must be a function (topics: partition counts by name) -> weights by name, "
                f"not {give!r}"
            )
        require_number("weights_timeout_s", timeout_s, above_zero=True)
        self._give = give
        self._timeout_s = timeout_s
        self._last: WeakKeyDictionary[object, object] = WeakKeyDictionary()
        self._asked: WeakKeyDictionary[object, futures.Future[Any]] = WeakKeyDictionary()

    def weigh(
        self,
        consumer: object,
        topics: Sequence[Topic],
        session_timeout_s: float,
        ask: Callable[[Callable[..., Any], Mapping[str, int]], futures.Future[Any]],
    ) -> Weighed:
        """The topics with their weights for a join of this consumer; blocks for the timeout at most.

        It waits no longer than a third of the session. `ask` calls the source with its argument.
        """
        patience_s = min(self._timeout_s, session_timeout_s / 3)
        earlier = self._asked.get(consumer)
        if earlier is not None and not earlier.done():
            return self._without(consumer, topics, "it has not answered the last question yet")
        asked = self._asked[consumer] = ask(self._give, {topic.name: topic.partitions for topic in topics})
        futures.wait([asked], timeout=patience_s)
        if not asked.done():
            asked.cancel()
            return self._without(consumer, topics, f"it did not answer within {patience_s:g} s")
        if asked.cancelled():
            return self._without(consumer, topics, "it was cancelled")
        if (error := asked.exception()) is not None:
            return self._without(consumer, topics, f"it raised {type(error).__name__}: {error}")
        self._last[consumer] = asked.result()
        return weigh(topics, asked.result())

    def _without(self, consumer: object, topics: Sequence[Topic], why: str) -> Weighed:
        """The topics with the weights that the source gave last, whose problems were told then."""
        last = self._last.get(consumer)
        instead = "all weights count as unknown" if last is None else "those it gave last are used"
        weighed = list(topics) if last is None else weigh(topics, last).topics
        return Weighed(weighed, [f"no weights from {self._give!r}: {why}; {instead}"])


def weigh(topics: Iterable[Topic], given: object) -> Weighed:
    """The topics with the weights that a source gave, and the problems in these weights."""
    if not isinstance(given, Mapping):
        return Weighed(
            list(topics), [f"the source of weights gave {type(given).__name__}, not a mapping of topics"]
        )
    weighed: list[Topic] = []
    findings: list[str] = []
    for topic in topics:
        try:
            listed = given.get(topic.name)
            weights, finding = (None, None) if listed is None else _checked(topic, listed)
        except Exception as error:  # The source may give values of any class, and each may raise anything.
            weights = None
            finding = f"the weights of topic {topic.name!r} raise {_short(error, 120)}: they are unknown"
        if finding is not None:
            findings.append(finding)
        weighed.append(replace(topic, weights=weights))
    return Weighed(weighed, findings)


def _checked(topic: Topic, listed: Any) -> tuple[tuple[int | None, ...] | None, str | None]:
    if isinstance(listed, str | bytes | Mapping) or not hasattr(listed, "__len__"):
        what = type(listed).__name__
        return None, f"the weights of topic {topic.name!r} are a {what}, not a sequence: they are unknown"
    if len(listed) != topic.partitions:
        return None, (
            f"there are {len(listed)} weights for the {topic.partitions} partitions of topic "
            f"{topic.name!r}: they are unknown"
        )
    entries = list(listed)
    weights = tuple(map(_weight, entries))
    bad = [
        place
        for place, (entry, weight) in enumerate(zip(entries, weights, strict=True))
        if weight is None and entry is not None
    ]
    if not bad:
        return weights, None
    return weights, (
        f"{len(bad)} weights of topic {topic.name!r} are no whole numbers from 0 to 2^63 - 1, the first "
        f"being {_short(entries[bad[0]])} of partition {bad[0]}: they are unknown"
    )


def _weight(entry: Any) -> int | None:
    """The entry as an int if it is a weight; any integer type counts, NumPy's included."""
    try:
        weight = None if isinstance(entry, bool) else index(entry)
    except TypeError:
        return None
    return weight if weight is not None and 0 <= weight <= MOST_WEIGHT else None


def _short(entry: object, width: int = 40) -> str:
    if type(entry) is int and entry.bit_length() > 128:  # Its digits may be more than Python will print.
        return f"an integer of {entry.bit_length()} bits"
    text = repr(entry)
    return text if len(text) <= width else text[: width - 1] + "…"
