"""Reads Kafka's primitive types out of untrusted bytes.

Every method takes the name of the field it reads, and either returns a value or raises `ProtocolError` with
the path of that field, the byte and the problem. Nothing is allocated on the strength of a length alone: an
array says how many bytes its smallest element takes, and a count that the bytes left cannot hold is refused
before the first element.

The types are those of https://kafka.apache.org/protocol#protocol_types. In a flexible version (KIP-482,
`flexible`) they are the compact ones: lengths are unsigned varints, one greater than the length they stand
for, with 0 for null.

**Names** repeat: the members of a group name the same topics, often in the same order. Here equal bytes give
the same object, whole lists of names are recognised by their bytes, and identical objects compare at once.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence


class ProtocolError(ValueError):
    """Bytes that do not follow their schema, or a value that its schema cannot carry.

    `field` is the path of the field, in the names of Kafka's schemas written the Python way
    (`owned_partitions[3].topic`), and `offset` the byte in the input, or in what was written so far, where
    that field goes wrong. `subject` says whose bytes they are.
    """

    def __init__(self, field: str, offset: int, problem: str, subject: str = "") -> None:
        super().__init__(field, offset, problem, subject)  # all of them, so that the error survives pickling
        self.field = field
        self.offset = offset
        self.problem = problem
        self.subject = subject

    def __str__(self) -> str:
        prefix = f"{self.subject}: " if self.subject else ""
        return f"{prefix}{self.field} at byte {self.offset}: {self.problem}"

    def of(self, subject: str) -> ProtocolError:
        """The same error, naming whose bytes they are."""
        return ProtocolError(self.field, self.offset, self.problem, subject)


class FieldPath:
    """The position of a reader or writer in nested arrays; it becomes text only when an error needs it."""

    __slots__ = ("_parent", "_subject", "_within")

    def __init__(self, subject: str, parent: str = "") -> None:
        self._subject = subject
        self._parent = (parent,) if parent else ()
        self._within: list[tuple[str, int]] = []

    def error(self, field: str, offset: int, problem: str) -> ProtocolError:
        """The error to raise for `field` of the array elements open now; "" is the element itself."""
        within = [f"{array}[{index}]" for array, index in self._within]
        path = ".".join(name for name in (*self._parent, *within, field) if name)
        return ProtocolError(path, offset, problem, self._subject)


_BEGINNING_BYTES = 64
_MOST_ALIKE = 8
"""The most lists with the same beginning that are compared with new ones; earlier ones are forgotten."""


class Names:
    """The names read so far. Make one for each group read or written: it never forgets a name."""

    __slots__ = ("_bytes", "_lists", "_sets", "texts")

    def __init__(self) -> None:
        self.texts = _Texts()
        self._bytes: dict[str, bytes] = {}
        self._lists: dict[bytes, list[tuple[bytes, tuple[str, ...]]]] = {}
        self._sets: dict[tuple[str, ...], frozenset[str]] = {}

    def find_list(self, data: bytes, position: int) -> tuple[bytes, tuple[str, ...]] | None:
        """An earlier list with the same bytes as at this position: the bytes and the names; else None."""
        for known in self._lists.get(data[position : position + _BEGINNING_BYTES], ()):
            if data.startswith(known[0], position):
                return known
        return None

    def add_list(self, data: bytes, position: int, end: int, names: tuple[str, ...]) -> None:
        """Remember the list between these positions."""
        alike = self._lists.setdefault(data[position : position + _BEGINNING_BYTES], [])
        alike.insert(0, (data[position:end], names))
        del alike[_MOST_ALIKE:]

    def as_set(self, names: tuple[str, ...]) -> frozenset[str]:
        """The names as a set, the same one for equal names in the same order."""
        found = self._sets.get(names)
        if found is None:
            found = self._sets[names] = frozenset(names)
        return found

    def as_bytes(self, name: str) -> bytes:
        found = self._bytes.get(name)
        if found is None:
            found = self._bytes[name] = name.encode("utf-8")
        return found


class _Texts(dict[bytes, str]):
    """Texts by their UTF-8 bytes; raises UnicodeDecodeError for other bytes."""

    def __missing__(self, data: bytes) -> str:
        text = self[data] = data.decode("utf-8")
        return text


_int8 = struct.Struct(">b").unpack_from
_int16 = struct.Struct(">h").unpack_from
_int32 = struct.Struct(">i").unpack_from

_MAX_VARINT_BYTES = 5
_SMALLEST_STRING_BYTES = 2
_SMALLEST_COMPACT_STRING_BYTES = 1
_SMALLEST_NAMED_INT32S_BYTES = 2 + 4  # an empty name and an empty array


class Reader(FieldPath):
    """A position in `data`, which ends where the data end.

    `subject` names the data in errors. If the data are part of something larger, `parent` is their field
    there and `base` their offset: errors count from it. `names` are shared by readers of data in which the
    same names come again. `flexible`: strings and arrays from here on are those of a flexible version.
    """

    __slots__ = ("_base", "_data", "_end", "_position", "flexible", "names")

    def __init__(
        self,
        data: bytes | bytearray | memoryview,
        subject: str,
        *,
        parent: str = "",
        base: int = 0,
        names: Names | None = None,
        flexible: bool = False,
    ) -> None:
        super().__init__(subject, parent)
        self.flexible = flexible
        self._data = bytes(data)
        self._position = 0
        self._end = len(self._data)
        self._base = base
        self.names = Names() if names is None else names

    @property
    def offset(self) -> int:
        """The offset of the next byte."""
        return self._base + self._position

    @property
    def remaining(self) -> int:
        return self._end - self._position

    def starts_with(self, prefix: bytes, *, after: int = 0) -> bool:
        """Whether these bytes come next, or `after` so many bytes; reads nothing."""
        return self._data.startswith(prefix, self._position + after)

    def fork(self) -> Reader:
        """Another reader at the same place of the same bytes, to try a reading without losing the place."""
        other = Reader(self._data, self._subject, base=self._base, names=self.names, flexible=self.flexible)
        other._parent, other._within, other._position = self._parent, [*self._within], self._position
        return other

    def finish(self, field: str) -> None:
        """States that `field` was the last one."""
        if self.remaining:
            raise self.error(field, self.offset, f"ends here, but {_size(self.remaining)} follow")

    # Fixed-size types.

    def _take(self, field: str, size: int) -> int:
        """The position of the next `size` bytes, which are there and now count as read."""
        position = self._position
        if size > self._end - position:
            raise self.error(field, self.offset, f"needs {_size(size)}, but {_left(self.remaining)}")
        self._position = position + size
        return position

    def int8(self, field: str) -> int:
        value: int = _int8(self._data, self._take(field, 1))[0]
        return value

    def int16(self, field: str) -> int:
        value: int = _int16(self._data, self._take(field, 2))[0]
        return value

    def int32(self, field: str) -> int:
        value: int = _int32(self._data, self._take(field, 4))[0]
        return value

    def raw(self, field: str, size: int) -> bytes:
        position = self._take(field, size)
        return self._data[position : position + size]

    def uvarint(self, field: str) -> int:
        """An unsigned varint of at most 32 bits."""
        start = self.offset
        value = 0
        for shift in range(0, 7 * _MAX_VARINT_BYTES, 7):
            byte = self._data[self._take(field, 1)]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
        else:
            raise self.error(field, start, f"is a varint of more than {_MAX_VARINT_BYTES} bytes")
        if value > 0xFFFF_FFFF:
            raise self.error(field, start, f"is a varint of {value}, which is more than 32 bits hold")
        return value

    # Strings and bytes.

    def string(self, field: str) -> str:
        start = self.offset
        length = self.uvarint(field) - 1 if self.flexible else self.int16(field)
        return self._text(field, start, self._length(field, start, length))

    def nullable_string(self, field: str) -> str | None:
        start = self.offset
        length = self.uvarint(field) - 1 if self.flexible else self.int16(field)
        return None if length == -1 else self._text(field, start, self._length(field, start, length))

    def nullable_byte_array(self, field: str) -> bytes | None:
        start = self.offset
        length = self._long_length(field)
        return None if length == -1 else self._bytes(field, start, self._length(field, start, length))

    def byte_array(self, field: str) -> bytes:
        start = self.offset
        return self._bytes(field, start, self._length(field, start, self._long_length(field)))

    def _long_length(self, field: str) -> int:
        """The length of bytes or of an array, -1 for null."""
        return self.uvarint(field) - 1 if self.flexible else self.int32(field)

    def _length(self, field: str, start: int, length: int) -> int:
        if length >= 0:
            return length
        if length == -1:
            raise self.error(field, start, "is null (length -1), which the schema does not allow")
        raise self.error(field, start, f"has the negative length {length}")

    def _bytes(self, field: str, start: int, length: int) -> bytes:
        position = self._position
        end = position + length
        if end > self._end:
            raise self.error(field, start, f"claims {_size(length)}, but {_left(self.remaining)}")
        self._position = end
        return self._data[position:end]

    def _text(self, field: str, start: int, length: int) -> str:
        data = self._bytes(field, start, length)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            at = self.offset - length + error.start
            raise self.error(field, at, f"is not UTF-8: {error.reason} ({data[error.start]:#04x})") from None

    def section(self, field: str) -> Reader:
        """A reader of its own for a byte array that has fields in it; it cannot read beyond that array."""
        data = self.byte_array(field)
        parent = ".".join([*self._parent, field])
        return Reader(data, self._subject, parent=parent, base=self.offset - len(data), names=self.names)

    # Arrays and tagged fields.

    def int32s(self, field: str) -> tuple[int, ...]:
        """An array of int32, unpacked in one call."""
        start = self.offset
        count = self._count(field, start, self._long_length(field), 4)
        return struct.unpack_from(f">{count}i", self._data, self._take(field, 4 * count))

    def strings(self, field: str) -> tuple[str, ...]:
        if self.flexible:
            return tuple([self.string("") for _ in self.items(field, _SMALLEST_COMPACT_STRING_BYTES)])
        start = self._position
        known = self.names.find_list(self._data, start)
        if known is not None:
            self._position += len(known[0])
            return known[1]
        strings = self._strings_at_once()
        if strings is None:
            strings = tuple([self.string("") for _ in self.items(field, _SMALLEST_STRING_BYTES)])
        self.names.add_list(self._data, start, self._position, strings)
        return strings

    def _strings_at_once(self) -> tuple[str, ...] | None:
        """An array of strings of one length, as names that end in a number mostly are; None if it is not."""
        data, start = self._data, self._position
        if start + 4 + _SMALLEST_STRING_BYTES > self._end:
            return None
        count = _int32(data, start)[0]
        length = _int16(data, start + 4)[0]
        end = start + 4 + count * (_SMALLEST_STRING_BYTES + length)
        if count <= 0 or length < 0 or end > self._end:
            return None
        lengths, strings = zip(*struct.iter_unpack(f">h{length}s", data[start + 4 : end]), strict=True)
        if lengths.count(length) < count:
            return None
        try:
            texts = tuple(map(self.names.texts.__getitem__, strings))
        except UnicodeDecodeError:
            return None
        self._position = end
        return texts

    def int32s_by_name(self) -> dict[str, tuple[int, ...]] | None:
        """An array of (string, array of int32) in which no string comes twice.

        None if it is anything else, and then nothing has been read: the caller reads field by field and meets
        the error. Elements in a row that have the same lengths are unpacked by one call.
        """
        data, end, texts = self._data, self._end, self.names.texts
        position = self._position + 4
        if position > end:
            return None
        left = count = _int32(data, self._position)[0]
        found: dict[str, tuple[int, ...]] = {}
        while left > 0:
            if position + 2 > end:
                return None
            length = _int16(data, position)[0]
            if length < 0 or position + length + _SMALLEST_NAMED_INT32S_BYTES > end:
                return None
            numbers = _int32(data, position + 2 + length)[0]
            size = length + _SMALLEST_NAMED_INT32S_BYTES + 4 * numbers
            most = min(left, (end - position) // size) if numbers >= 0 else 0
            if most <= 0:
                return None
            alike = struct.iter_unpack(
                f">h{length}si{numbers}i", memoryview(data)[position : position + most * size]
            )
            run = 0
            try:
                for of_length, name, of_numbers, *values in alike:
                    if of_length != length or of_numbers != numbers:
                        break
                    found[texts[name]] = tuple(values)
                    run += 1
            except UnicodeDecodeError:
                return None
            left -= run
            position += run * size
        if count < 0 or len(found) != count:
            return None
        self._position = position
        return found

    def items(self, field: str, minimum_bytes: int) -> Iterator[None]:
        """Once for each element of an array, the smallest of which takes `minimum_bytes`; the loop reads."""
        start = self.offset
        return self._items(field, self._count(field, start, self._long_length(field), minimum_bytes))

    def _count(self, field: str, start: int, count: int, minimum_bytes: int) -> int:
        count = self._length(field, start, count)
        if count * minimum_bytes > self.remaining:
            raise self.error(
                field,
                start,
                f"claims {count} elements, which take at least {_size(count * minimum_bytes)}, "
                f"but {_left(self.remaining)}",
            )
        return count

    def _items(self, field: str, count: int) -> Iterator[None]:
        self._within.append((field, 0))
        for index in range(count):
            self._within[-1] = (field, index)
            yield
        self._within.pop()

    def tagged_fields(self, field: str) -> Iterator[int]:
        """The tag of each tagged field (KIP-482); the loop reads those that it knows.

        What the loop does not read is skipped: brokers add tagged fields without raising a version. A known
        field that does not end where its size says is an error.
        """
        start = self.offset
        for _ in self._items(field, self._count(field, start, self.uvarint(field), 2)):
            tag = self.uvarint("tag")
            size = self.uvarint("size")
            begin = self._take("data", size)
            end, self._position = self._position, begin
            yield tag
            if self._position == begin:
                self._position = end
            elif self._position != end:
                raise self.error(
                    "data",
                    self._base + begin,
                    f"has {_size(size)}, but {_size(self._position - begin)} are read",
                )


def _size(count: int) -> str:
    return f"{count} byte" if count == 1 else f"{count} bytes"


def _left(count: int) -> str:
    return "nothing is left" if count == 0 else f"{_size(count)} {'is' if count == 1 else 'are'} left"


def read_topic_partitions(reader: Reader, field: str) -> dict[str, Sequence[int]]:
    """Partition numbers by topic: the array that subscription, assignment and user data share.

    It is not of a flexible version. Numbers of a topic that appears more than once are joined, in order.
    """
    at_once = reader.int32s_by_name()
    if at_once is not None:
        return dict(at_once)
    partitions: dict[str, Sequence[int]] = {}
    joined: dict[str, list[int]] = {}
    for _ in reader.items(field, _SMALLEST_NAMED_INT32S_BYTES):
        topic = reader.string("topic")
        numbers = reader.int32s("partitions")
        if topic not in partitions:
            partitions[topic] = numbers
        else:
            joined.setdefault(topic, list(partitions[topic])).extend(numbers)
    partitions.update((topic, tuple(numbers)) for topic, numbers in joined.items())
    return partitions
