"""User data that Java and other clients write under the shared names, and our member data after it."""

import struct

import pytest

from kafka_assignors.group import Member
from kafka_assignors.strategy import MemberContext
from kafka_assignors.wire import (
    ProtocolError,
    Subscription,
    decode_member,
    encode_subscription,
    encode_user_data,
)
from tests.joining import Talkative

EVERY_NAME = ["sticky", "cooperative-sticky", "range", "roundrobin", "of-our-own"]
ORDERS = frozenset({"orders"})


def topic(name: bytes, *partitions: int) -> bytes:
    return struct.pack(f">h{len(name)}si{len(partitions)}i", len(name), name, len(partitions), *partitions)


def int32(value: int) -> bytes:
    return struct.pack(">i", value)


def eager_member(name: str, user_data: bytes) -> Member:
    return decode_member(name, "m", encode_subscription(Subscription(0, ("orders",), user_data)))


CONTEXT = MemberContext(ORDERS, {"orders": [3, 1], "audit": [0], "gone": []}, 7)


@pytest.mark.parametrize("name", ["sticky", "of-our-own"])
def test_a_newcomer_has_nothing_to_say(name: str) -> None:
    assert encode_user_data(Talkative(name), MemberContext(ORDERS)) == b""


def test_sticky_of_version_0_has_no_generation() -> None:
    member = eager_member("sticky", int32(1) + topic(b"orders", 1, 3))
    assert (member.owned, member.generation, member.revoked) == ({"orders": (1, 3)}, -1, True)


def test_sticky_with_too_few_bytes_for_a_generation_is_version_0_as_in_java() -> None:
    member = eager_member("sticky", int32(1) + topic(b"orders", 1, 3) + b"\0\0\0")
    assert (member.owned, member.generation) == ({"orders": (1, 3)}, -1)


def test_the_sticky_user_data_of_kafka_python_3_is_recognised() -> None:
    member = eager_member("sticky", b"\x00\x01" + int32(1) + topic(b"orders", 1, 3) + int32(7))
    assert (member.owned, member.generation) == ({"orders": (1, 3)}, 7)
    assert eager_member("sticky", b"\x00\x01" + int32(0) + int32(7)).generation == 7


def test_cooperative_sticky_of_librdkafka_and_franz_go_names_partitions_too() -> None:
    member = eager_member("cooperative-sticky", int32(1) + topic(b"orders", 1, 3) + int32(7))
    assert (member.owned, member.generation, member.revoked) == ({"orders": (1, 3)}, 7, True)
    assert eager_member("cooperative-sticky", int32(0) + int32(7)).generation == 7


def test_a_generation_with_something_unknown_behind_it_is_still_a_generation() -> None:
    assert eager_member("cooperative-sticky", int32(7) + b"unknown").generation == 7


@pytest.mark.parametrize(
    ("name", "user_data"),
    [
        ("sticky", b"not Java's"),
        ("sticky", int32(1) + b"\x00\x02\xff\xff" + int32(0)),
        ("cooperative-sticky", b"\x00\x01\x02"),
    ],
)
def test_user_data_of_another_making_are_passed_over(name: str, user_data: bytes) -> None:
    member = eager_member(name, user_data)
    assert (member.topics, member.owned, member.generation, member.data) == (ORDERS, {}, -1, b"")


@pytest.mark.parametrize("name", EVERY_NAME)
def test_member_data_reaches_the_leader_under_every_strategy_name(name: str) -> None:
    member = eager_member(name, encode_user_data(Talkative(name, b"capacity=3"), CONTEXT))
    assert member.data == b"capacity=3"


def test_member_data_follow_java_and_are_laid_out_as_documented() -> None:
    user_data = encode_user_data(Talkative("cooperative-sticky", b"capacity=3"), CONTEXT)
    claim = int32(7) + int32(2) + topic(b"audit", 0) + topic(b"orders", 1, 3)
    body = claim + int32(10) + b"capacity=3"
    assert user_data == int32(7) + b"\xfeKAM" + b"\x00\x01" + int32(len(body)) + body


@pytest.mark.parametrize("name", EVERY_NAME)
def test_the_same_claim_is_the_same_bytes(name: str) -> None:
    one = MemberContext(ORDERS, {"orders": [3, 1], "audit": [0]}, 7)
    other = MemberContext(ORDERS, {"audit": range(1), "orders": (1, 3), "empty": ()}, 7)
    assert encode_user_data(Talkative(name, b"capacity=3"), one) == encode_user_data(
        Talkative(name, b"capacity=3"), other
    )


@pytest.mark.parametrize("name", EVERY_NAME)
def test_64_kib_of_member_data_are_allowed_and_no_more(name: str) -> None:
    full = Talkative(name, data=b"x" * 65536)
    assert eager_member(name, encode_user_data(full, CONTEXT)).data == full.data
    with pytest.raises(ProtocolError, match="65537 bytes are more than the 65536 allowed") as error:
        encode_user_data(Talkative(name, data=b"x" * 65537), CONTEXT)
    assert error.value.subject == f"member data of strategy {name!r}"


@pytest.mark.parametrize("answer", [None, "text", 3, bytearray(b"x")])
def test_member_data_that_are_not_bytes_are_refused(answer: object) -> None:
    with pytest.raises(ProtocolError, match=f"is {type(answer).__name__}, not bytes"):
        encode_user_data(Talkative("of-our-own", answer), CONTEXT)


@pytest.mark.parametrize("name", EVERY_NAME)
def test_member_data_that_break_off_are_an_error(name: str) -> None:
    whole = encode_user_data(Talkative(name, b"capacity=3"), CONTEXT)
    magic = whole.index(b"\xfeKAM")
    for length in range(magic + 4, len(whole)):
        with pytest.raises(ProtocolError) as error:
            eager_member(name, whole[:length])
        assert error.value.field.startswith("user_data.")


def test_member_data_of_a_later_version_are_read_as_far_as_known() -> None:
    body = int32(7) + int32(1) + topic(b"orders", 1) + int32(2) + b"hi"
    later = b"\xfeKAM" + b"\x00\x02" + int32(len(body) + 5) + body + b"later" + b"and more behind"
    member = eager_member("of-our-own", later)
    assert (member.owned, member.generation, member.data) == ({"orders": (1,)}, 7, b"hi")
    now = b"\xfeKAM" + b"\x00\x01" + int32(len(body) + 5) + body + b"later"
    with pytest.raises(ProtocolError, match="ends here, but 5 bytes follow") as error:
        eager_member("of-our-own", now)
    assert error.value.field == "user_data.body.data"


@pytest.mark.parametrize("version", [0, -1])
def test_member_data_of_no_version_are_refused(version: int) -> None:
    data = b"\xfeKAM" + struct.pack(">h", version) + int32(0)
    with pytest.raises(ProtocolError, match="is not a version of member data"):
        eager_member("of-our-own", data)


def test_member_data_cannot_read_beyond_their_length() -> None:
    body = int32(7) + int32(1) + topic(b"orders", 1)
    data = b"\xfeKAM" + b"\x00\x01" + int32(len(body)) + body + int32(2) + b"hi"
    with pytest.raises(ProtocolError) as error:
        eager_member("of-our-own", data)
    assert error.value.field == "user_data.body.data"
