"""The state of a watch between two runs, as JSON.

The text may lie in a file that another program has changed, so it is read as untrusted: it can hold values of
the expected types and nothing else, and reading it runs no code and allocates no more than a fixed multiple
of its length.

```json
{"format": 1, "layout": {"Generation": ["group", …], …}, "shares": [{"orders": [0, 1]}, …], "state": […]}
```

* A dataclass is the list of its fields in their order. `layout` names the fields of every dataclass. They
  come from the classes themselves, so a release with other fields refuses the text.
* A time is a number of microseconds since 1970, a date its text, an enum its value, bytes are Base64.
* A mapping by name is an object, every other mapping a list of pairs; a set is a sorted list.
* Most of the state is partitions by topic, and most of them are alike. Each of these mappings is written
  once, in `shares`, and the state holds its place there. The values that are read are shared in the same way.
* The arguments that a fold is `given` (the catalogue, rules) are not in the text: a reader gives its own.
"""

from __future__ import annotations

import base64
import enum
import functools
import json
import types
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from operator import index
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from kafka_assignors.group import TopicPartitions
from kafka_assignors_replay.folds.records import from_micros, to_micros

FORMAT = 1

_State = TypeVar("_State")

_MAPPINGS: dict[Any, type] = {dict: dict, Mapping: dict, Counter: Counter}
_SEQUENCES: dict[Any, type] = {
    tuple: tuple,
    list: list,
    Sequence: tuple,
    deque: deque,
    set: set,
    frozenset: frozenset,
}


class StateError(ValueError):
    """A text is not the state of a replay: the message names the place and the difference."""


def write_state(state: object, given: Iterable[object] = ()) -> bytes:
    """The text of a dataclass, whose fields are dataclasses, mappings, sequences, sets, enums, numbers,
    texts, bytes, times, dates and partitions by topic, and values of the types that are `given`."""
    kinds = tuple(map(type, given))
    shares = _Shares(kinds)
    written = shares.write(type(state), state)
    # The shares are texts already.
    head = _head(cast(Any, type(state)), kinds)
    return f'{head}, "shares": [{", ".join(shares.texts)}], "state": {json.dumps(written)}}}'.encode()


def read_state(kind: type[_State], text: bytes, given: Iterable[object] = ()) -> _State:
    """The value of the dataclass `kind` in a `text` of `write_state`. `StateError` for any other text."""
    by_kind = {type(each): each for each in given}
    try:
        document = json.loads(text.decode())
    except (ValueError, RecursionError) as error:
        problem = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise StateError(f"it is not the JSON of a state: {problem}") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise StateError(f"it is not a state of format {FORMAT}")
    if document.get("layout") != _layout(cast(Any, kind), tuple(by_kind)):
        raise StateError("another version of kafka-assignors wrote it, whose states have other fields")
    if document.keys() != {"format", "layout", "shares", "state"} or type(document["shares"]) is not list:
        raise StateError("it has other parts than the four of a state")
    try:
        shares = [_partitions_by_topic(share) for share in document["shares"]]
        return _Reader(shares, by_kind).read(kind, document["state"])  # type: ignore[no-any-return]
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
    """A type without its `| None`, its generic origin, its arguments, and whether it may be None."""
    optional = get_origin(hint) is types.UnionType
    if optional:
        (hint,) = (each for each in get_args(hint) if each is not types.NoneType)
    return hint, get_origin(hint), get_args(hint), optional


@functools.cache
def _is_dataclass(hint: Any) -> bool:
    return isinstance(hint, type) and is_dataclass(hint)


@functools.cache
def _layout(kind: Any, given: tuple[Any, ...]) -> dict[str, list[str]]:
    """The names of the fields of every dataclass in `kind`."""
    hint, _, of, _ = _shape(kind)
    within = of
    found = {}
    if _is_dataclass(hint):
        hints = _stated(hint, given)
        found[hint.__name__] = [name for name, _ in hints]
        within = tuple(each for _, each in hints)
    for each in within:
        found |= _layout(each, given)
    return found


@functools.cache
def _head(kind: Any, given: tuple[Any, ...]) -> str:
    """The beginning of every text of this kind."""
    return json.dumps({"format": FORMAT, "layout": _layout(kind, given)})[:-1]


@functools.cache
def _stated(kind: type, given: tuple[Any, ...]) -> tuple[tuple[str, Any], ...]:
    """The fields of a dataclass that its state has."""
    return tuple((name, hint) for name, hint in _hints(kind) if hint not in given)


# Writing


class _Shares:
    """Writes values, and collects the partitions by topic in them."""

    def __init__(self, given: tuple[type, ...]) -> None:
        self.texts: dict[str, int] = {}
        self._given = given
        self._places: dict[int, int] = {}  # by identity: the state keeps all of them alive

    def write(self, hint: Any, value: Any) -> Any:
        """The value as `json.dumps` takes it."""
        if value is None or hint is int or hint is str:
            return value
        hint, generic, of, _ = _shape(hint)
        if hint == TopicPartitions:
            return self._place(value)
        if generic is not None:
            return self._write_many(generic, of, value)
        if _is_dataclass(hint):
            return [
                each_value if each is int or each is str else self.write(each, each_value)
                for each, each_value in (
                    (each, getattr(value, name)) for name, each in _stated(hint, self._given)
                )
            ]
        if isinstance(value, enum.Enum):
            return value.value
        if hint is datetime:
            return to_micros(value)
        if hint is date:
            return value.isoformat()
        if hint is bytes:
            return base64.b64encode(value).decode()
        return float(value) if hint is float else value

    def _write_many(self, generic: Any, of: tuple[Any, ...], values: Any) -> Any:
        if generic in _MAPPINGS:
            key, each = (of[0], int) if generic is Counter else of
            if key is str:
                return {name: self.write(each, value) for name, value in values.items()}
            return [[self.write(key, name), self.write(each, value)] for name, value in values.items()]
        if generic is tuple and of[-1] is not Ellipsis:
            return [self.write(each, value) for each, value in zip(of, values, strict=True)]
        written = [self.write(of[0], value) for value in values]
        return sorted(written, key=json.dumps) if generic in (set, frozenset) else written

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


class _Reader:
    """Reads values, the partitions by topic in them from `shares`."""

    def __init__(self, shares: list[TopicPartitions], given: Mapping[type, object]) -> None:
        self._shares = shares
        self._given = given

    def read(self, hint: Any, value: Any) -> Any:
        hint, generic, of, optional = _shape(hint)
        if value is None and optional:
            return None
        if hint == TopicPartitions:
            place = _integer(value)
            if not 0 <= place < len(self._shares):
                raise _MisfitError(f"there is no share {place}")
            return self._shares[place]
        if generic in _MAPPINGS:
            return self._read_mapping(generic, of, value)
        if generic in _SEQUENCES:
            return self._read_sequence(generic, of, _typed(list, value))
        if _is_dataclass(hint):
            return self._read_dataclass(hint, _typed(list, value))
        return _read_one(hint, value)

    def _read_mapping(self, generic: Any, of: tuple[Any, ...], value: Any) -> Any:
        key, each = (of[0], int) if generic is Counter else of
        if key is str:
            return _MAPPINGS[generic](
                {name: self.read(each, one) for name, one in _typed(dict, value).items()}
            )
        pairs = (self._read_sequence(tuple, (key, each), _typed(list, one)) for one in _typed(list, value))
        return _MAPPINGS[generic](dict(pairs))

    def _read_sequence(self, generic: Any, of: tuple[Any, ...], values: list[Any]) -> Any:
        if generic is tuple and of[-1] is not Ellipsis:
            if len(values) != len(of):
                raise _MisfitError(f"there are {len(values)} values in place of {len(of)}")
            return tuple(self.read(each, value) for each, value in zip(of, values, strict=True))
        return _SEQUENCES[generic](self.read(of[0], value) for value in values)

    def _read_dataclass(self, kind: type, values: list[Any]) -> Any:
        hints = _stated(kind, tuple(self._given))
        if len(values) != len(hints):
            raise _MisfitError(f"there are {len(values)} values in place of {len(hints)}")
        read = {name: self._given[hint] for name, hint in _hints(kind) if hint in self._given}
        for (name, hint), value in zip(hints, values, strict=True):
            try:
                read[name] = self.read(hint, value)
            except _MisfitError as error:
                error.path.append(name)
                raise
        return kind(**read)


def _read_one(hint: Any, value: Any) -> Any:
    if hint is int:
        return _integer(value)
    if hint is datetime:
        try:
            return from_micros(_integer(value))
        except OverflowError:
            raise _MisfitError(f"there is no time {value} microseconds after 1970") from None
    try:
        if hint is date:
            return date.fromisoformat(_typed(str, value))
        if hint is bytes:
            return base64.b64decode(_typed(str, value), validate=True)
        if isinstance(hint, enum.EnumMeta):
            return hint(value)
    except (ValueError, TypeError):
        raise _MisfitError(f"there is no {hint.__name__} in this text") from None
    return _typed(hint, value)


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
