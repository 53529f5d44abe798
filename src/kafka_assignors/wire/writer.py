"""Writes Kafka's primitive types.

Every method takes the name of the field it writes; a value that the type cannot hold raises `ProtocolError`
with the path of the field. See `reader` for the types.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from kafka_assignors.group import TopicPartitions
from kafka_assignors.wire.reader import FieldPath, Names, ProtocolError

T = TypeVar("T")

_MAX_INT16 = 0x7FFF


class Writer(FieldPath):
    """Collects bytes; `subject` names them in errors. `names` are shared by writers of the same names.

    `flexible` says that strings and arrays from here on are those of a flexible version.
    """

    __slots__ = ("_buffer", "_names", "flexible")

    def __init__(self, subject: str, names: Names | None = None, *, flexible: bool = False) -> None:
        super().__init__(subject)
        self.flexible = flexible
        self._names = Names() if names is None else names
        self._buffer = bytearray()

    def getvalue(self) -> bytes:
        return bytes(self._buffer)

    def raw(self, data: bytes) -> None:
        """These bytes, without a length."""
        self._buffer += data

    # Fixed-size types.

    def _pack(self, field: str, layout: str, value: int) -> None:
        try:
            self._buffer += struct.pack(layout, value)
        except struct.error:
            raise self._unfit(field, f"{value!r} is not an int{8 * struct.calcsize(layout)}") from None

    def int8(self, field: str, value: int) -> None:
        self._pack(field, ">b", value)

    def int16(self, field: str, value: int) -> None:
        self._pack(field, ">h", value)

    def int32(self, field: str, value: int) -> None:
        self._pack(field, ">i", value)

    def uvarint(self, value: int) -> None:
        """A length, which is never negative."""
        while value >= 0x80:
            self._buffer.append(value & 0x7F | 0x80)
            value >>= 7
        self._buffer.append(value)

    # Strings and bytes.

    def string(self, field: str, value: str) -> None:
        data = self._utf8(field, value)
        if self.flexible:
            self.uvarint(len(data) + 1)
        else:
            self.int16(field, len(data))
        self._buffer += data

    def nullable_string(self, field: str, value: str | None) -> None:
        if value is not None:
            self.string(field, value)
        elif self.flexible:
            self.uvarint(0)
        else:
            self.int16(field, -1)

    def byte_array(self, field: str, value: bytes) -> None:
        self._long_length(field, len(value))
        self._buffer += value

    def nullable_byte_array(self, field: str, value: bytes | None) -> None:
        self._long_length(field, -1 if value is None else len(value))
        self._buffer += value or b""

    def _long_length(self, field: str, length: int) -> None:
        """The length of bytes or of an array, -1 for null."""
        if self.flexible:
            self.uvarint(length + 1)
        else:
            self.int32(field, length)

    def _utf8(self, field: str, value: str) -> bytes:
        try:
            data = value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise self._unfit(field, f"{value!r} cannot be UTF-8: {error.reason}") from None
        if len(data) > _MAX_INT16:
            raise self._unfit(
                field, f"{len(data)} bytes of UTF-8 are more than the {_MAX_INT16} a string holds"
            )
        return data

    def _unfit(self, field: str, problem: str) -> ProtocolError:
        return self.error(field, len(self._buffer), problem)

    # Arrays.

    def strings(self, field: str, values: Sequence[str]) -> None:
        for value in self.items(field, values):
            self.string("", value)

    def topic_partitions(self, field: str, partitions: TopicPartitions) -> None:
        """Topics in ascending order, so that equal values give equal bytes; partitions in their own order.

        Not of a flexible version. All of it is packed in one call.
        """
        as_bytes = self._names.as_bytes
        layout = [">i"]
        fields: list[int | bytes] = [len(partitions)]
        try:
            for topic in sorted(partitions):
                text, numbers = as_bytes(topic), partitions[topic]
                layout.append(f"h{len(text)}si{len(numbers)}i")
                fields += (len(text), text, len(numbers), *numbers)
            self._buffer += struct.pack("".join(layout), *fields)
        except (struct.error, UnicodeEncodeError) as error:
            raise self._unfit(field, f"a topic or a partition does not fit: {error}") from None

    def items(self, field: str, values: Sequence[T]) -> Iterator[T]:
        """The elements of an array, one at a time; the loop writes them."""
        self._long_length(field, len(values))
        self._within.append((field, 0))
        for index, value in enumerate(values):
            self._within[-1] = (field, index)
            yield value
        self._within.pop()

    def tagged_fields(self, fields: Mapping[int, bytes]) -> None:
        """The end of a struct of a flexible version: tagged fields (KIP-482), their bytes by tag."""
        self.uvarint(len(fields))
        for tag, data in sorted(fields.items()):
            self.uvarint(tag)
            self.uvarint(len(data))
            self._buffer += data
