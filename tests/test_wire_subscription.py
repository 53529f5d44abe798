"""Subscriptions and assignments, as members and leaders exchange them."""

from dataclasses import replace

import pytest

from kafka_assignors import wire

OWNED = {"orders": (3,), "päy": (0, 7)}

SUBSCRIPTIONS = [
    wire.Subscription(0, ("orders", "päy"), b"\x01\x02"),
    wire.Subscription(1, ("orders", "päy"), b"\x01\x02", OWNED),
    wire.Subscription(2, ("orders", "päy"), b"\x01\x02", OWNED, 7),
    wire.Subscription(3, ("orders", "päy"), b"\x01\x02", OWNED, 7, "r1"),
]


@pytest.mark.parametrize("subscription", SUBSCRIPTIONS, ids=lambda one: f"v{one.version}")
def test_a_subscription_reads_back_from_any_kind_of_buffer(subscription: wire.Subscription) -> None:
    data = wire.encode_subscription(subscription)
    assert wire.decode_subscription(bytearray(data)) == subscription
    assert wire.decode_subscription(memoryview(data)) == subscription


@pytest.mark.parametrize("version", [1, 2, 3, 9])
def test_the_fields_of_version_0_under_a_later_number_are_a_subscription(version: int) -> None:
    data = bytearray(wire.encode_subscription(wire.Subscription(0, ("orders",), b"data")))
    data[0:2] = version.to_bytes(2, "big")
    assert wire.decode_subscription(data) == wire.Subscription(version, ("orders",), b"data")


def test_a_negative_version_is_refused() -> None:
    with pytest.raises(wire.ProtocolError, match="version at byte 0: is negative: -1"):
        wire.decode_subscription(b"\xff\xff" + wire.encode_subscription(SUBSCRIPTIONS[0])[2:])
    with pytest.raises(wire.ProtocolError, match="version at byte 0: is negative: -1"):
        wire.decode_assignment(b"\xff\xff" + wire.encode_assignment(wire.ConsumerAssignment(0, {}))[2:])


def test_an_empty_rack_id_is_no_rack() -> None:
    data = wire.encode_subscription(wire.Subscription(3, ("orders",)))
    assert data.endswith(b"\xff\xff")
    assert wire.decode_subscription(data[:-2] + b"\x00\x00").rack is None


def test_a_topic_named_twice_among_the_owned_has_the_partitions_of_both() -> None:
    a, b = bytes.fromhex("0001 61 00000002 00000003 00000001"), bytes.fromhex("0001 62 00000001 00000000")
    data = bytes.fromhex("0001 00000000 00000000 00000004") + a + b + a + b
    assert wire.decode_subscription(data).owned == {"a": (3, 1, 3, 1), "b": (0, 0)}


@pytest.mark.parametrize(
    ("subscription", "field"),
    [
        (wire.Subscription(3, ("a", "\ud800")), "topics[1]"),
        (wire.Subscription(3, (), owned={"a": [0, 2**31]}), "owned_partitions"),
        (wire.Subscription(3, (), generation=2**31), "generation_id"),
    ],
)
def test_a_field_that_does_not_fit_is_not_written(subscription: wire.Subscription, field: str) -> None:
    with pytest.raises(wire.ProtocolError) as error:
        wire.encode_subscription(subscription)
    assert error.value.field == field


def test_an_assignment_of_a_newer_version_is_read() -> None:
    data = b"\x00\x09" + wire.encode_assignment(wire.ConsumerAssignment(3, OWNED, b"data"))[2:] + b"more"
    assert wire.decode_assignment(data) == wire.ConsumerAssignment(9, OWNED, b"data")


def test_an_assignment_cut_anywhere_says_where() -> None:
    data = wire.encode_assignment(wire.ConsumerAssignment(3, OWNED, b"data"))
    for length in range(len(data)):
        with pytest.raises(wire.ProtocolError) as error:
            wire.decode_assignment(data[:length])
        assert 0 <= error.value.offset <= length
        assert error.value.subject == "assignment"


def test_a_field_that_the_version_lacks_is_not_written() -> None:
    for older in SUBSCRIPTIONS:
        everything = replace(SUBSCRIPTIONS[-1], version=older.version)
        assert wire.encode_subscription(everything) == wire.encode_subscription(older)
