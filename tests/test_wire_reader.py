"""Reading and writing Kafka's primitive types, and the error messages."""

import pickle
import struct
import tracemalloc

import pytest

from kafka_assignors.wire import ProtocolError, decode_subscription
from kafka_assignors.wire.reader import Reader
from kafka_assignors.wire.writer import Writer
from kafka_assignors_replay.history.consumer_offsets import RecordReader


def reader(data: bytes) -> RecordReader:
    return RecordReader(data, "test data")


def read(data: bytes, method: str) -> object:
    """The value of all of the data, by a method such as `string` or `flexible string`."""
    fields = Reader(data, "test data", flexible=method.startswith("flexible"))
    value: object = getattr(fields, method.split()[-1])("field")
    assert not fields.remaining
    return value


@pytest.mark.parametrize(("method", "needed"), [("int16", 2), ("int32", 4), ("int64", 8)])
def test_a_number_cut_short_says_what_it_needs(method: str, needed: int) -> None:
    fields = reader(b"\0\0" + b"\0" * (needed - 1))
    fields.int16("first")
    with pytest.raises(ProtocolError) as error:
        getattr(fields, method)("second")
    assert (error.value.field, error.value.offset) == ("second", 2)
    assert f"needs {needed} bytes, but {needed - 1} byte" in str(error.value)


def test_an_error_names_subject_field_byte_and_problem() -> None:
    with pytest.raises(ProtocolError) as error:
        reader(b"\x00\x09abc").string("topic")
    assert str(error.value) == "test data: topic at byte 0: claims 9 bytes, but 3 bytes are left"


def test_an_error_in_nested_arrays_names_the_whole_path() -> None:
    fields = reader(struct.pack(">iiih", 2, 0, 1, 77))

    def topics_of_members() -> list[str]:
        return [fields.string("topic") for _ in fields.items("members", 4) for _ in fields.items("owned", 2)]

    with pytest.raises(ProtocolError) as error:
        topics_of_members()
    assert (error.value.field, error.value.offset) == ("members[1].owned[0].topic", 12)


def test_an_array_that_ended_is_not_in_the_path_of_what_follows() -> None:
    fields = reader(struct.pack(">ih", 1, 5))
    assert [fields.int16("a") for _ in fields.items("array", 2)] == [5]
    with pytest.raises(ProtocolError) as error:
        fields.int16("next")
    assert error.value.field == "next"


def test_an_error_survives_pickling() -> None:
    error = ProtocolError("topics[3]", 17, "is not UTF-8", "subscription of member 'm-1'")
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.field, copy.offset, str(copy)) == (error.field, error.offset, str(error))


def test_a_section_counts_its_bytes_from_the_start_of_the_whole() -> None:
    section = reader(b"\0\0" + struct.pack(">ih", 2, 9)[0:6])
    section.int16("version")
    body = section.section("body")
    assert body.int16("number") == 9
    with pytest.raises(ProtocolError) as error:
        body.int16("beyond")
    assert (error.value.field, error.value.offset) == ("body.beyond", 8)


@pytest.mark.parametrize(
    ("method", "data", "problem"),
    [
        ("string", b"\xff\xff", "is null"),
        ("byte_array", b"\xff\xff\xff\xff", "is null"),
        ("int32s", b"\xff\xff\xff\xff", "is null"),
        ("flexible string", b"\x00", "is null"),
        ("flexible byte_array", b"\x00", "is null"),
        ("flexible int32s", b"\x00", "is null"),
        ("flexible strings", b"\x00", "is null"),
        ("string", b"\xff\xfe", "has the negative length -2"),
        ("nullable_string", b"\xff\xfe", "has the negative length -2"),
        ("byte_array", b"\x80\0\0\0", "has the negative length -2"),
        ("nullable_byte_array", b"\xff\xff\xff\xfe", "has the negative length -2"),
        ("int32s", b"\xff\xff\xff\xfe", "has the negative length -2"),
    ],
)
def test_null_where_the_schema_has_none_and_a_negative_length_are_refused(
    method: str, data: bytes, problem: str
) -> None:
    with pytest.raises(ProtocolError, match=f"field at byte 0: {problem}") as error:
        read(data, method)
    assert error.value.offset == 0


@pytest.mark.parametrize(
    ("data", "at"),
    [
        (b"\x00\x02\xc3\x28", 2),  # a lead byte without its continuation
        (b"\x00\x03ab\xff", 4),  # never a byte of UTF-8
        (b"\x00\x03\xed\xa0\x80", 2),  # a surrogate, which Java's modified UTF-8 would have
        (b"\x00\x02\xc0\x80", 2),  # an overlong NUL
    ],
)
def test_a_string_that_is_not_utf8_says_at_which_byte(data: bytes, at: int) -> None:
    with pytest.raises(ProtocolError, match="is not UTF-8") as error:
        reader(data).string("topic")
    assert (error.value.field, error.value.offset) == ("topic", at)


@pytest.mark.parametrize("data", [b"\x80\x80\x80\x80\x80\x01", b"\xff\xff\xff\xff\x1f", b"\x80", b""])
def test_a_varint_that_is_too_long_too_large_or_cut_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError) as error:
        reader(data).uvarint("n")
    assert error.value.field == "n"


@pytest.mark.parametrize("count", [2**31 - 1, 500_000_000])
def test_a_claim_of_gigabytes_allocates_nothing(count: int) -> None:
    head = struct.pack(">hi", 1, 0) + struct.pack(">i", 0)  # version 1, no topics, no user data
    claims = {
        "topics": struct.pack(">hi", 1, count),
        "user_data": struct.pack(">hii", 1, 0, count),
        "owned_partitions": head + struct.pack(">i", count),
        "owned_partitions[0].partitions": head + struct.pack(">ihi", 1, 0, count),
    }
    for field, data in claims.items():
        tracemalloc.start()
        try:
            with pytest.raises(ProtocolError) as error:
                decode_subscription(data)
            _, peak_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert error.value.field == field
        assert peak_bytes < 100_000


@pytest.mark.parametrize(
    ("method", "value", "problem"),
    [
        ("int16", 2**15, "32768 is not an int16"),
        ("int32", -(2**31) - 1, "-2147483649 is not an int32"),
        ("string", "x" * 32768, "32768 bytes of UTF-8 are more than the 32767 a string holds"),
        ("flexible string", "x" * 32768, "32768 bytes of UTF-8 are more than the 32767 a string holds"),
        ("string", "\ud800", "cannot be UTF-8"),
    ],
)
def test_a_value_that_its_type_cannot_hold_is_not_written(method: str, value: object, problem: str) -> None:
    with pytest.raises(ProtocolError) as error:
        getattr(Writer("test data", flexible=method.startswith("flexible")), method.split()[-1])(
            "field", value
        )
    assert error.value.field == "field"
    assert problem in str(error.value)
