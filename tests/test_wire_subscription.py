"""Subscriptions and assignments, as members and leaders exchange them."""

from dataclasses import replace

import pytest

from kafka_assignors.wire import (
    ConsumerAssignment,
    ProtocolError,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)

OWNED = {"orders": (3,), "päy": (0, 7)}

SUBSCRIPTIONS = [
    Subscription(0, ("orders", "päy"), b"\x01\x02"),
    Subscription(1, ("orders", "päy"), b"\x01\x02", OWNED),
    Subscription(2, ("orders", "päy"), b"\x01\x02", OWNED, 7),
    Subscription(3, ("orders", "päy"), b"\x01\x02", OWNED, 7, "r1"),
]


@pytest.mark.parametrize("subscription", SUBSCRIPTIONS, ids=lambda one: f"v{one.version}")
def test_a_subscription_reads_back_from_any_kind_of_buffer(subscription: Subscription) -> None:
    data = encode_subscription(subscription)
    assert decode_subscription(bytearray(data)) == subscription
    assert decode_subscription(memoryview(data)) == subscription


@pytest.mark.parametrize("version", [1, 2, 3, 9])
def test_the_fields_of_version_0_under_a_later_number_are_a_subscription(version: int) -> None:
    data = bytearray(encode_subscription(Subscription(0, ("orders",), b"data")))
    data[0:2] = version.to_bytes(2, "big")
    assert decode_subscription(data) == Subscription(version, ("orders",), b"data")


def test_a_negative_version_is_refused() -> None:
    with pytest.raises(ProtocolError, match="version at byte 0: is negative: -1"):
        decode_subscription(b"\xff\xff" + encode_subscription(SUBSCRIPTIONS[0])[2:])
    with pytest.raises(ProtocolError, match="version at byte 0: is negative: -1"):
        decode_assignment(b"\xff\xff" + encode_assignment(ConsumerAssignment(0, {}))[2:])


def test_an_empty_rack_id_is_no_rack() -> None:
    data = encode_subscription(Subscription(3, ("orders",)))
    assert data.endswith(b"\xff\xff")
    assert decode_subscription(data[:-2] + b"\x00\x00").rack is None


def test_a_topic_named_twice_among_the_owned_has_the_partitions_of_both() -> None:
    a, b = bytes.fromhex("0001 61 00000002 00000003 00000001"), bytes.fromhex("0001 62 00000001 00000000")
    data = bytes.fromhex("0001 00000000 00000000 00000004") + a + b + a + b
    assert decode_subscription(data).owned == {"a": (3, 1, 3, 1), "b": (0, 0)}


@pytest.mark.parametrize(
    ("subscription", "field"),
    [
        (Subscription(3, ("a", "\ud800")), "topics[1]"),
        (Subscription(3, (), owned={"a": [0, 2**31]}), "owned_partitions"),
        (Subscription(3, (), generation=2**31), "generation_id"),
    ],
)
def test_a_field_that_does_not_fit_is_not_written(subscription: Subscription, field: str) -> None:
    with pytest.raises(ProtocolError) as error:
        encode_subscription(subscription)
    assert error.value.field == field


def test_an_assignment_of_a_newer_version_is_read() -> None:
    data = b"\x00\x09" + encode_assignment(ConsumerAssignment(3, OWNED, b"data"))[2:] + b"more"
    assert decode_assignment(data) == ConsumerAssignment(9, OWNED, b"data")


def test_an_assignment_cut_anywhere_says_where() -> None:
    data = encode_assignment(ConsumerAssignment(3, OWNED, b"data"))
    for length in range(len(data)):
        with pytest.raises(ProtocolError) as error:
            decode_assignment(data[:length])
        assert 0 <= error.value.offset <= length
        assert error.value.subject == "assignment"


def test_a_field_that_the_version_lacks_is_not_written() -> None:
    for older in SUBSCRIPTIONS:
        everything = replace(SUBSCRIPTIONS[-1], version=older.version)
        assert encode_subscription(everything) == encode_subscription(older)
