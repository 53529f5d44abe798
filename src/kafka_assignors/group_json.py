"""The JSON form of a group, read from what `json` reads; `kafka_assignors_cli.group_form` writes it.

A group, with every key (those marked ? may be absent or null)::

    {"format": 1, "generation": 8,                                   ? the generation being formed
     "topics": {"orders": {"partitions": 2,
                           "replica_racks": [["a", "b"], ["b"]],     ? one list per partition
                           "weights": [1200, null],                  ? one per partition, null: unknown
                           "id": "R2u4n-z9TCu5VQ9YBJzYxg"}},         ? as Kafka prints it
     "members": [{"id": "m1", "topics": ["orders"],                    what it subscribes to
                  "instance_id": "pod-0", "rack": "a",               ? group.instance.id, client.rack
                  "owned": {"orders": [0, 1]}, "generation": 7,      ? its claim; -1 for a newcomer
                  "revoked": false,                                  ? gave it up before it joined
                  "data": "base64…", "capacity": 4}],                ? member_data, or facts instead
     "about": {…}}                                                   ? anything: not read here

Facts (`kafka_assignors.announcements`) have keys of their own: `release`, `share` in ten-thousandths,
`capacity`, `standby`, `rules`. An assignment is partitions by member and topic,
``{"m1": {"orders": [0, 1]}, "m2": {}}``.

An unknown key is refused, because a misspelt `owned` would silently make every member a newcomer. Types are
strict: `true` is not a number, nor is `"12"`.
"""

from __future__ import annotations

import base64
import binascii
import difflib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from kafka_assignors.announcements import FACT_TYPES, Facts, InvalidFactError, encode_facts
from kafka_assignors.group import MOST_WEIGHT, NO_GENERATION, Group, InvalidGroupError, Member, Topic

FORMAT = 1
"""The version of this form. A higher one is refused."""

MOST_PARTITIONS = 10_000_000
"""The most partitions of one topic. No cluster has that many; a wrong number would take all of the memory."""

_TOPIC_ID = re.compile(r"[A-Za-z0-9_-]{21}[AQgw]")

Path = tuple["str | int", ...]
_Item = TypeVar("_Item")
_Default = TypeVar("_Default")

_MIN_INT32, _MAX_INT32 = -(2**31), 2**31 - 1

_GROUP_KEYS = ("format", "generation", "topics", "members", "about")
_TOPIC_KEYS = ("partitions", "replica_racks", "weights", "id")


class InvalidFieldError(InvalidGroupError):
    """A field of the JSON form is wrong. `path` leads to it: keys and indexes, from the outermost inwards."""

    def __init__(self, path: Path, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"{format_path(path)}: {problem}")


def format_path(path: Path) -> str:
    """`path` as a user writes it: `members[3].owned.orders[0]`; `topics["a.b"]` where a key needs quotes."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif re.fullmatch(r"[\w-]+", step):
            text += f".{step}" if text else step
        else:
            text += f"[{json.dumps(step)}]"
    return text or "the group"


def parse_group(obj: object) -> Group:
    """The group that `obj`, as `json.loads` returned it, describes.

    Raises `InvalidFieldError`, which names the field, when it does not describe one.
    """
    fields = _Fields(obj, (), _GROUP_KEYS)
    if (version := fields.get("format", _integer, FORMAT)) != FORMAT:
        raise InvalidFieldError(("format",), f"this version reads format {FORMAT}, not {version}")
    topics = {
        name: _topic(name, value, ("topics", name))
        for name, value in fields.required("topics", _mapping).items()
    }
    members: dict[str, Member] = {}
    for index, value in enumerate(fields.required("members", _array)):
        member = _member(value, ("members", index))
        if member.id in members:
            first = list(members).index(member.id)
            raise InvalidFieldError(
                ("members", index, "id"), f"{member.id!r} is also the id of members[{first}]"
            )
        members[member.id] = member
    return Group(topics, members, fields.get("generation", _integer, None))


def _topic(name: str, value: object, path: Path) -> Topic:
    fields = _Fields(value, path, _TOPIC_KEYS)
    partitions = fields.required("partitions", _integer)
    if partitions < 0:
        raise InvalidFieldError(
            (*path, "partitions"), f"a partition count cannot be negative, as {partitions} is"
        )
    if partitions > MOST_PARTITIONS:
        raise InvalidFieldError(
            (*path, "partitions"), f"{partitions} partitions are more than the {MOST_PARTITIONS} read here"
        )
    racks = _per_partition(fields, "replica_racks", partitions, "a list of racks", _strings)
    topic_id = fields.get("id", _string, None)
    if topic_id is not None and not _TOPIC_ID.fullmatch(topic_id):
        raise InvalidFieldError(
            (*path, "id"), f"{_found(topic_id)} is no topic id: expected 22 characters of URL-safe base64"
        )
    weights = _per_partition(fields, "weights", partitions, "a weight", _weight)
    return Topic(name, partitions, racks, topic_id, weights)


def _member(value: object, path: Path) -> Member:
    fields = _Fields(value, path, _MEMBER_KEYS)
    return Member(
        id=fields.required("id", _string),
        topics=fields.required("topics", _strings),
        instance_id=fields.get("instance_id", _string, None),
        rack=fields.get("rack", _string, None),
        owned=fields.get("owned", _partitions, {}),
        generation=fields.get("generation", _integer, NO_GENERATION),
        revoked=fields.get("revoked", _boolean, False),
        data=_data(fields),
    )


def _data(fields: _Fields) -> bytes:
    """The bytes under `data`, or those of the member's facts."""
    data = fields.get("data", _bytes, b"")
    facts = Facts()
    given = [key for key in _FACTS if fields.values.get(key) is not None]
    for key in given:
        try:
            facts = replace(facts, **{key: fields.required(key, _FACTS[key])})
        except InvalidFactError as error:
            raise InvalidFieldError((*fields.path, key), str(error)) from None
    if given and data:
        problem = f"give either data or facts; there is {given[0]!r}, too"
        raise InvalidFieldError((*fields.path, "data"), problem)
    return encode_facts(facts) if given else data


class _Fields:
    """The fields of an object that may have these keys alone; a field that is null counts as absent."""

    def __init__(self, value: object, path: Path, keys: tuple[str, ...]) -> None:
        self.values, self.path = _mapping(value, path), path
        for key in self.values:
            if key not in keys:
                near = difflib.get_close_matches(key, keys, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(keys)}"
                raise InvalidFieldError((*path, key), f"there is no such key: {hint}")

    def required(self, key: str, parse: Callable[[object, Path], _Item]) -> _Item:
        if self.values.get(key) is None:
            raise InvalidFieldError((*self.path, key), "is missing")
        return parse(self.values[key], (*self.path, key))

    def get(self, key: str, parse: Callable[[object, Path], _Item], default: _Default) -> _Item | _Default:
        return default if self.values.get(key) is None else self.required(key, parse)


def _mapping(value: object, path: Path) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise InvalidFieldError(path, f"expected an object, found {_found(value)}")
    for key in value:
        _string(key, (*path, key))
    return value


def _array(value: object, path: Path) -> list[object]:
    if not isinstance(value, list):
        raise InvalidFieldError(path, f"expected an array, found {_found(value)}")
    return value


def _string(value: object, path: Path) -> str:
    if not isinstance(value, str):
        raise InvalidFieldError(path, f"expected a string, found {_found(value)}")
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        # JSON can escape a lone surrogate; UTF-8, and so Kafka, cannot encode it.
        raise InvalidFieldError(path, f"{_found(value)} holds half a surrogate pair, which is no character")
    return value


def _strings(value: object, path: Path) -> frozenset[str]:
    return frozenset(_string(item, (*path, index)) for index, item in enumerate(_array(value, path)))


def _per_partition(
    fields: _Fields, key: str, partitions: int, what: str, parse: Callable[[object, Path], _Item]
) -> tuple[_Item, ...] | None:
    """An array with an item for each partition of a topic; None if the key is absent or null."""
    items, path = fields.get(key, _array, None), (*fields.path, key)
    if items is None:
        return None
    if len(items) != partitions:
        raise InvalidFieldError(
            path, f"expected {what} for each of {partitions} partitions, found {len(items)}"
        )
    return tuple(parse(item, (*path, index)) for index, item in enumerate(items))


def _boolean(value: object, path: Path) -> bool:
    if not isinstance(value, bool):
        raise InvalidFieldError(path, f"expected true or false, found {_found(value)}")
    return value


def _integer(value: object, path: Path) -> int:
    if type(value) is not int:
        raise InvalidFieldError(path, f"expected an integer, found {_found(value)}")
    if not _MIN_INT32 <= value <= _MAX_INT32:
        raise InvalidFieldError(path, f"{_short(str(value))} does not fit Kafka's 32 bits")
    return value


_FACTS: Mapping[str, Callable[[object, Path], Any]] = {
    name: {str: _string, int: _integer, bool: _boolean}[kind] for name, kind in FACT_TYPES.values()
}
_MEMBER_KEYS = ("id", "topics", "instance_id", "rack", "owned", "generation", "revoked", "data", *_FACTS)


def _weight(value: object, path: Path) -> int | None:
    if value is None:
        return None
    if type(value) is not int:
        raise InvalidFieldError(path, f"expected a whole number or null, found {_found(value)}")
    if not 0 <= value <= MOST_WEIGHT:
        raise InvalidFieldError(path, f"{_short(str(value))} is no weight: they go from 0 to 2^63 - 1")
    return value


def _integers(value: object, path: Path) -> list[int]:
    items: list[Any] = _array(value, path)
    # Ownership is the bulk of a large group, so the common case is decided without a loop in Python.
    if set(map(type, items)) == {int} and min(items) >= _MIN_INT32 and max(items) <= _MAX_INT32:
        return items
    return [_integer(item, (*path, index)) for index, item in enumerate(items)]


def _partitions(value: object, path: Path) -> dict[str, list[int]]:
    """Partitions by topic."""
    return {topic: _integers(numbers, (*path, topic)) for topic, numbers in _mapping(value, path).items()}


def _bytes(value: object, path: Path) -> bytes:
    text = _string(value, path)
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidFieldError(path, f"expected base64, found {_short(repr(text))} ({error})") from None


def _found(value: object) -> str:
    if value is None or isinstance(value, (bool, int, float, str)):
        return _short(json.dumps(value))
    if isinstance(value, list):
        return "an array"
    return "an object" if isinstance(value, dict) else repr(type(value))


def _short(text: str, width: int = 40) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
