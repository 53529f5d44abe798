"""Reading members one after the other gives the same results as reading each alone, only faster."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafka_assignors import wire
from kafka_assignors.group import Member

topics = st.one_of(
    st.integers(0, 9).map(lambda number: f"topic-{number}"), st.sampled_from(["", "a", "päy", "x" * 70])
)
numbers = st.lists(st.integers(-(2**31), 2**31 - 1), max_size=3)
subscriptions = st.builds(
    wire.Subscription,
    st.just(3),
    st.lists(topics, max_size=8).map(tuple),
    st.just(b"\x00\x00\x00\x07"),
    st.dictionaries(topics, numbers.map(tuple), max_size=6),
    st.just(7),
)
damages = st.tuples(st.integers(0, 400), st.integers(0, 255))


def read(data: bytes, names: wire.Names | None) -> Member | tuple[str, int, str]:
    try:
        return wire.decode_member("cooperative-sticky", "m", data, names=names)
    except wire.ProtocolError as error:
        return error.field, error.offset, error.problem


@given(st.lists(st.tuples(subscriptions, st.lists(damages, max_size=2)), max_size=8))
def test_names_read_before_change_neither_members_nor_errors(
    joined: list[tuple[wire.Subscription, list[tuple[int, int]]]],
) -> None:
    shared = wire.Names()
    for subscription, damaged in joined:
        data = bytearray(wire.encode_subscription(subscription))
        for place, byte in damaged:
            data[place % len(data)] = byte
        assert read(bytes(data), shared) == read(bytes(data), None)


@given(st.dictionaries(topics, numbers, max_size=8))
def test_an_assignment_has_the_same_bytes_with_shared_names(partitions: dict[str, list[int]]) -> None:
    assignment = wire.ConsumerAssignment(0, partitions, b"")
    names = wire.Names()
    first, second = (wire.encode_assignment(assignment, names=names) for _ in range(2))
    assert first == second == wire.encode_assignment(assignment)
    assert wire.decode_assignment(first).partitions == {topic: tuple(ps) for topic, ps in partitions.items()}
