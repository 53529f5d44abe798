"""User data that Java and other clients write under the shared names, and our member data after it."""

import struct

import pytest

from kafka_assignors import wire
from kafka_assignors.group import Member
from kafka_assignors.strategy import MemberContext
from tests.joining import Talkative

EVERY_NAME = ["sticky", "cooperative-sticky", "range", "roundrobin", "of-our-own"]
ORDERS = frozenset({"orders"})


def topic(name: bytes, *partitions: int) -> bytes:
    return struct.pack(f">h{len(name)}si{len(partitions)}i", len(name), name, len(partitions), *partitions)


def int32(value: int) -> bytes:
    return struct.pack(">i", value)


def eager_member(name: str, user_data: bytes) -> Member:
    return wire.decode_member(
        name, "m", wire.encode_subscription(wire.Subscription(0, ("orders",), user_data))
    )


CONTEXT = MemberContext(ORDERS, {"orders": [3, 1], "audit": [0], "gone": []}, 7)


@pytest.mark.parametrize("name", ["sticky", "of-our-own"])
def test_a_newcomer_has_nothing_to_say(name: str) -> None:
    assert wire.encode_user_data(Talkative(name), MemberContext(ORDERS)) == b""


CLAIM = int32(1) + topic(b"orders", 1, 3)


@pytest.mark.parametrize(
    ("name", "user_data", "owned", "generation"),
    [
        pytest.param("sticky", CLAIM, [1, 3], -1, id="Java's sticky of version 0"),
        pytest.param(
            "sticky", CLAIM + b"\0\0\0", [1, 3], -1, id="too few bytes for a generation, as in Java"
        ),
        pytest.param("sticky", b"\0\1" + CLAIM + int32(7), [1, 3], 7, id="kafka-python 3"),
        pytest.param("sticky", b"\0\1" + int32(0) + int32(7), [], 7, id="kafka-python 3 with nothing"),
        pytest.param("cooperative-sticky", CLAIM + int32(7), [1, 3], 7, id="librdkafka and franz-go"),
        pytest.param("cooperative-sticky", int32(0) + int32(7), [], 7, id="librdkafka with nothing"),
        pytest.param("cooperative-sticky", int32(7) + b"unknown", [], 7, id="something behind a generation"),
        *(
            pytest.param(name, user_data, [], -1, id=f"of another making: {user_data!r}")
            for name, user_data in [
                ("sticky", b"not Java's"),
                ("sticky", int32(1) + b"\x00\x02\xff\xff" + int32(0)),
                ("cooperative-sticky", b"\x00\x01\x02"),
            ]
        ),
    ],
)
def test_user_data_of_other_clients_are_read_or_passed_over(
    name: str, user_data: bytes, owned: list[int], generation: int
) -> None:
    member = eager_member(name, user_data)
    assert member.owned == ({"orders": tuple(owned)} if owned else {})
    assert (member.topics, member.generation, member.data) == (ORDERS, generation, b"")
    assert member.revoked is bool(owned)


def test_member_data_follow_java_and_are_laid_out_as_documented() -> None:
    user_data = wire.encode_user_data(Talkative("cooperative-sticky", b"capacity=3"), CONTEXT)
    claim = int32(7) + int32(2) + topic(b"audit", 0) + topic(b"orders", 1, 3)
    body = claim + int32(10) + b"capacity=3"
    assert user_data == int32(7) + b"\xfeKAM" + b"\x00\x01" + int32(len(body)) + body


@pytest.mark.parametrize("name", EVERY_NAME)
def test_the_same_claim_is_the_same_bytes(name: str) -> None:
    one = MemberContext(ORDERS, {"orders": [3, 1], "audit": [0]}, 7)
    other = MemberContext(ORDERS, {"audit": range(1), "orders": (1, 3), "empty": ()}, 7)
    assert wire.encode_user_data(Talkative(name, b"capacity=3"), one) == wire.encode_user_data(
        Talkative(name, b"capacity=3"), other
    )


@pytest.mark.parametrize("name", EVERY_NAME)
def test_64_kib_of_member_data_are_allowed_and_no_more(name: str) -> None:
    full = Talkative(name, data=b"x" * 65536)
    assert eager_member(name, wire.encode_user_data(full, CONTEXT)).data == full.data
    with pytest.raises(wire.ProtocolError, match="65537 bytes are more than the 65536 allowed") as error:
        wire.encode_user_data(Talkative(name, data=b"x" * 65537), CONTEXT)
    assert error.value.subject == f"member data of strategy {name!r}"


@pytest.mark.parametrize("answer", [None, "text", 3, bytearray(b"x")])
def test_member_data_that_are_not_bytes_are_refused(answer: object) -> None:
    with pytest.raises(wire.ProtocolError, match=f"is {type(answer).__name__}, not bytes"):
        wire.encode_user_data(Talkative("of-our-own", answer), CONTEXT)


@pytest.mark.parametrize("name", EVERY_NAME)
def test_member_data_that_break_off_are_an_error(name: str) -> None:
    whole = wire.encode_user_data(Talkative(name, b"capacity=3"), CONTEXT)
    magic = whole.index(b"\xfeKAM")
    for length in range(magic + 4, len(whole)):
        with pytest.raises(wire.ProtocolError) as error:
            eager_member(name, whole[:length])
        assert error.value.field.startswith("user_data.")


def test_member_data_of_a_later_version_are_read_as_far_as_known() -> None:
    body = int32(7) + int32(1) + topic(b"orders", 1) + int32(2) + b"hi"
    later = b"\xfeKAM" + b"\x00\x02" + int32(len(body) + 5) + body + b"later" + b"and more behind"
    member = eager_member("of-our-own", later)
    assert (member.owned, member.generation, member.data) == ({"orders": (1,)}, 7, b"hi")
    now = b"\xfeKAM" + b"\x00\x01" + int32(len(body) + 5) + body + b"later"
    with pytest.raises(wire.ProtocolError, match="ends here, but 5 bytes follow") as error:
        eager_member("of-our-own", now)
    assert error.value.field == "user_data.body.data"


@pytest.mark.parametrize("version", [0, -1])
def test_member_data_of_no_version_are_refused(version: int) -> None:
    data = b"\xfeKAM" + struct.pack(">h", version) + int32(0)
    with pytest.raises(wire.ProtocolError, match="is not a version of member data"):
        eager_member("of-our-own", data)


def test_member_data_cannot_read_beyond_their_length() -> None:
    body = int32(7) + int32(1) + topic(b"orders", 1)
    data = b"\xfeKAM" + b"\x00\x01" + int32(len(body)) + body + int32(2) + b"hi"
    with pytest.raises(wire.ProtocolError) as error:
        eager_member("of-our-own", data)
    assert error.value.field == "user_data.body.data"
