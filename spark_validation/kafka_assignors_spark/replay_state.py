"""What the replay of a group remembers between two chunks, as JSON.

The text may lie in a file that another program has changed, so it is read as untrusted: it can hold values of
the expected types and nothing else, and reading it runs no code and allocates no more than a fixed multiple
of its length.

```json
{"format": 1, "layout": {"Generation": ["group", …], …}, "shares": [{"orders": [0, 1]}, …], "state": […]}
```

* A dataclass is the list of its fields in their order. `layout` names the fields of every dataclass. They
  come from the classes themselves, so a release with other fields refuses the text.
* A time is a number of microseconds since 1970.
* Most of the state is partitions by topic, and most of them are alike. Each of these mappings is written
  once, in `shares`, and the state holds its place there. The values that are read are shared in the same way.
"""

from __future__ import annotations

import functools
import json
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from operator import index
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from kafka_assignors.group import TopicPartitions
from kafka_assignors_spark.instants import from_micros, to_micros

__all__ = ["StateError", "read_state", "write_state"]

FORMAT = 1

_State = TypeVar("_State")


class StateError(ValueError):
    """A text is not the state of a replay: the message says where it differs and in what."""


def write_state(state: object) -> bytes:
    """The text of a dataclass, whose fields are dataclasses, mappings by name, sequences, numbers, texts,
    times and partitions by topic."""
    shares = _Shares()
    written = shares.write(type(state), state)
    head = json.dumps({"format": FORMAT, "layout": _layout(type(state))})
    # The shares are texts already.
    return f'{head[:-1]}, "shares": [{", ".join(shares.texts)}], "state": {json.dumps(written)}}}'.encode()


def read_state(kind: type[_State], text: bytes) -> _State:
    """The value of the dataclass `kind` in a `text` of `write_state`. `StateError` for any other text."""
    try:
        document = json.loads(text.decode())
    except (ValueError, RecursionError) as error:
        problem = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise StateError(f"it is not the JSON of a state: {problem}") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise StateError(f"it is not a state of format {FORMAT}")
    if document.get("layout") != _layout(kind):
        raise StateError("another version of kafka-assignors wrote it, whose states have other fields")
    if document.keys() != {"format", "layout", "shares", "state"} or type(document["shares"]) is not list:
        raise StateError("it has other parts than the four of a state")
    try:
        shares = [_partitions_by_topic(share) for share in document["shares"]]
        return _read(kind, document["state"], shares)  # type: ignore[no-any-return]
    except _MisfitError as error:
        raise StateError(f"{'.'.join(reversed(error.path)) or 'shares'}: {error}") from None


# Types


@functools.cache
def _hints(kind: type) -> tuple[tuple[str, Any], ...]:
    """The fields of a dataclass, each with its type."""
    hints = get_type_hints(kind)
    return tuple((field.name, hints[field.name]) for field in fields(kind))


@functools.cache
def _shape(hint: Any) -> tuple[Any, Any, tuple[Any, ...], bool]:
    """A type without its `| None`, what it is a generic type of, of what, and whether it may be None."""
    optional = get_origin(hint) is types.UnionType
    if optional:
        (hint,) = (each for each in get_args(hint) if each is not types.NoneType)
    return hint, get_origin(hint), get_args(hint), optional


def _has_fields(hint: Any) -> bool:
    """Whether a type is a dataclass."""
    return is_dataclass(hint)


def _layout(kind: Any) -> dict[str, list[str]]:
    """The names of the fields of every dataclass in `kind`."""
    hint, _, of, _ = _shape(kind)
    within = of
    found = {}
    if _has_fields(hint):
        found[hint.__name__] = [name for name, _ in _hints(hint)]
        within = tuple(each for _, each in _hints(hint))
    for each in within:
        found |= _layout(each)
    return found


# Writing


class _Shares:
    """Writes values, and collects the partitions by topic in them."""

    def __init__(self) -> None:
        self.texts: dict[str, int] = {}
        self._places: dict[int, int] = {}  # by identity: the state keeps all of them alive

    def write(self, hint: Any, value: Any) -> Any:
        """The value as `json.dumps` takes it."""
        if value is None:
            return None
        hint, generic, of, _ = _shape(hint)
        if hint == TopicPartitions:
            return self._place(value)
        if _has_fields(hint):
            return [self.write(each, getattr(value, name)) for name, each in _hints(hint)]
        if generic in (dict, Mapping):
            return {name: self.write(of[1], each) for name, each in value.items()}
        if generic in (tuple, list):
            return [self.write(of[0], each) for each in value]
        return to_micros(value) if hint is datetime else value

    def _place(self, share: TopicPartitions) -> int:
        if id(share) not in self._places:
            text = json.dumps({topic: list(map(index, numbers)) for topic, numbers in share.items()})
            self._places[id(share)] = self.texts.setdefault(text, len(self.texts))
        return self._places[id(share)]


# Reading


class _MisfitError(Exception):
    """A value is not of the type that belongs in its place: `path` names the fields, the innermost first."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.path: list[str] = []


def _read(hint: Any, value: Any, shares: list[TopicPartitions]) -> Any:
    hint, generic, of, optional = _shape(hint)
    if value is None and optional:
        return None
    if hint == TopicPartitions:
        place = _integer(value)
        if not 0 <= place < len(shares):
            raise _MisfitError(f"there is no share {place}")
        return shares[place]
    if _has_fields(hint):
        return _read_dataclass(hint, _typed(list, value), shares)
    if generic in (dict, Mapping):
        return {name: _read(of[1], each, shares) for name, each in _typed(dict, value).items()}
    if generic is list:
        return [_read(of[0], each, shares) for each in _typed(list, value)]
    if generic is tuple:
        values = _typed(list, value)
        if of[-1] is not Ellipsis and len(values) != len(of):
            raise _MisfitError(f"there are {len(values)} values in place of {len(of)}")
        return tuple(_read(of[0], each, shares) for each in values)
    if hint is datetime:
        try:
            return from_micros(_integer(value))
        except OverflowError:
            raise _MisfitError(f"there is no time {value} microseconds after 1970") from None
    return _integer(value) if hint is int else _typed(hint, value)


def _read_dataclass(kind: type, values: list[Any], shares: list[TopicPartitions]) -> Any:
    hints = _hints(kind)
    if len(values) != len(hints):
        raise _MisfitError(f"there are {len(values)} values in place of {len(hints)}")
    read = {}
    for (name, hint), value in zip(hints, values, strict=True):
        try:
            read[name] = _read(hint, value, shares)
        except _MisfitError as error:
            error.path.append(name)
            raise
    return kind(**read)


def _partitions_by_topic(value: Any) -> TopicPartitions:
    return {
        topic: tuple(map(_integer, _typed(list, numbers))) for topic, numbers in _typed(dict, value).items()
    }


def _typed(kind: type, value: Any) -> Any:
    """The value, if it is exactly of this type of JSON."""
    if type(value) is not kind:
        raise _MisfitError(f"there is a {type(value).__name__} in place of a {kind.__name__}")
    return value


def _integer(value: Any) -> int:
    if type(value) is not int or not -(2**63) <= value < 2**63:
        raise _MisfitError(f"there is a {type(value).__name__} in place of a number of 64 bits")
    return value
