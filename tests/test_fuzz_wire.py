"""Property tests of the decoders with arbitrary bytes, and of the codecs with values of every shape."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from compat_tests.support.group_records import encode_group_metadata, encode_key
from kafka_assignors import wire
from kafka_assignors.strategy import MemberContext
from kafka_assignors_replay.history.consumer_offsets import (
    ConsumerGroupKey,
    ConsumerGroupRecord,
    GroupMember,
    GroupMetadata,
    GroupMetadataKey,
    OffsetCommitKey,
    decode_group_metadata,
    decode_key,
)
from kafka_assignors_replay.history.kip848_records import decode_consumer_group_value
from tests.joining import Talkative
from tests.test_java_bytes import SAMPLES

unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""No deadline: a busy machine must not fail a test."""

NAMES = ("sticky", "cooperative-sticky", "range", "of-our-own")


# Values.

int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
partitions = st.dictionaries(names, st.lists(int32s, max_size=8).map(tuple), max_size=6)
claims = st.dictionaries(names, st.lists(int32s, min_size=1, max_size=8).map(sorted).map(tuple), max_size=6)
racks = st.none() | names.filter(bool)
topics = st.lists(names).map(tuple)

subscriptions = st.one_of(
    st.builds(wire.Subscription, st.just(0), topics, st.binary()),
    st.builds(wire.Subscription, st.just(1), topics, st.binary(), partitions),
    st.builds(wire.Subscription, st.just(2), topics, st.binary(), partitions, int32s),
    st.builds(wire.Subscription, st.just(3), topics, st.binary(), partitions, int32s, racks),
)
assignments = st.builds(wire.ConsumerAssignment, st.integers(0, 3), partitions, st.binary())
keys = st.one_of(
    st.builds(OffsetCommitKey, names, names, int32s, st.integers(0, 1)),
    st.builds(GroupMetadataKey, names),
    st.builds(
        ConsumerGroupKey, st.sampled_from([3, 4, 6]).map(ConsumerGroupRecord), names, st.none(), st.none()
    ),
    st.builds(ConsumerGroupKey, st.sampled_from([5, 7, 8]).map(ConsumerGroupRecord), names, names, st.none()),
    st.builds(ConsumerGroupKey, st.just(ConsumerGroupRecord.REGULAR_EXPRESSION), names, st.none(), names),
)
generations = st.builds(
    GroupMetadata,
    st.integers(3, 4),
    names,
    int32s,
    st.none() | names,
    st.none() | names,
    st.lists(
        st.builds(
            GroupMember, names, names, names, int32s, st.binary(), st.binary(), int32s, st.none() | names
        ),
        max_size=4,
    ).map(tuple),
    int64s,
)
BY_JAVA = [sample for sample in SAMPLES if sample["kind"] == "consumer_group"]
of_consumer_groups = {
    record: st.sampled_from([bytes.fromhex(one["hex"]) for one in BY_JAVA if one["version"] == record])
    for record in ConsumerGroupRecord
}
"""Values of records of KIP-848 groups, as Java writes them."""

contexts = st.builds(MemberContext, st.frozensets(names), claims, st.integers(-1, 2**31 - 1), rack=racks)


CODECS: dict[str, tuple[st.SearchStrategy[Any], Callable[[Any], bytes], Callable[[bytes], object]]] = {
    "subscription": (subscriptions, wire.encode_subscription, wire.decode_subscription),
    "assignment": (assignments, wire.encode_assignment, wire.decode_assignment),
    "record key": (keys, encode_key, decode_key),
    "group metadata": (generations, encode_group_metadata, decode_group_metadata),
}
"""Values, and how they are written and read."""


@pytest.mark.parametrize(("values", "encode", "decode"), CODECS.values(), ids=CODECS)
@unhurried
@given(draw=st.data())
def test_every_value_reads_back(
    values: st.SearchStrategy[Any],
    encode: Callable[[Any], bytes],
    decode: Callable[[bytes], object],
    draw: st.DataObject,
) -> None:
    value = draw.draw(values)
    assert decode(encode(value)) == value


@unhurried
@given(st.sampled_from(["sticky", "cooperative-sticky", "of-our-own"]), contexts, st.binary(), st.booleans())
def test_every_member_reads_back(name: str, context: MemberContext, data: bytes, held: bool) -> None:
    member = wire.decode_member(name, "m", wire.encode_member(Talkative(name, data), context, held=held))
    assert (member.topics, member.owned, member.data) == (context.topics, context.owned, data)
    assert (member.generation, member.rack) == (context.generation, context.rack)
    assert member.revoked == (bool(context.owned) and not held)


# Bytes.


def decode_user_data(name: str, data: bytes) -> object:
    without_topics = wire.Subscription(0, (), data)
    return wire.decode_member(name, "m", wire.encode_subscription(without_topics))


DECODERS: dict[str, Callable[[bytes], object]] = {
    **{kind: decode for kind, (_, _, decode) in CODECS.items()},
    **{record.name: partial(decode_consumer_group_value, record) for record in ConsumerGroupRecord},
    **{f"member, {name}": partial(wire.decode_member, name, "m") for name in NAMES},
    **{f"user data, {name}": partial(decode_user_data, name) for name in NAMES},
}

numbers = st.sampled_from([-(2**31), -2, -1, 0, 1, 2, 3, 7, 255, 65535, 2**31 - 1])
pieces = st.one_of(
    st.binary(max_size=8),
    numbers.map(lambda number: number.to_bytes(4, "big", signed=True)),
    st.integers(-2, 9).map(lambda number: number.to_bytes(2, "big", signed=True)),
    st.sampled_from([b"\xfeKAM\x00\x01", b"\xfeKAL\x00\x01", b"\x00\x06orders", b"\x00\x01"]),
)
arbitrary = st.binary(max_size=200) | st.lists(pieces, max_size=30).map(b"".join)


talkative = st.sampled_from([Talkative(name, b"data") for name in NAMES])


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Valid bytes, then changed, truncated or extended."""
    written = draw(
        st.one_of(
            *(values.map(encode) for values, encode, _ in CODECS.values()),
            st.one_of(*of_consumer_groups.values()),
            st.builds(partial(wire.encode_member, held=False), talkative, contexts),
            st.builds(wire.encode_user_data, talkative, contexts),
        )
    )
    data = bytearray(written)
    for _ in range(draw(st.integers(0, 3))):
        if data:
            data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data[: draw(st.integers(0, len(data)))]) + draw(st.binary(max_size=4))


@settings(unhurried, max_examples=1000)
@given(arbitrary | damaged())
@example(b"")
def test_no_bytes_raise_anything_but_a_protocol_error(data: bytes) -> None:
    for name, decode in DECODERS.items():
        error = None
        try:
            decode(data)
        except wire.ProtocolError as raised:
            error = raised
        if error is not None:
            assert error.field, name
            assert error.problem in str(error), name
            assert 0 <= error.offset <= len(data) + 10, name  # "user data" adds ten bytes in front


@settings(unhurried, max_examples=300)
@given(arbitrary | damaged() | st.integers(0, 3).map(lambda fill: bytes([fill]) * 4000))
def test_no_bytes_make_a_decoder_allocate_far_beyond_their_size(data: bytes) -> None:
    for name, decode in DECODERS.items():
        tracemalloc.start()
        try:
            decode(data)
        except wire.ProtocolError:
            pass
        finally:
            _, peak_bytes = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        assert peak_bytes <= 20_000 + 80 * len(data), name


RECORDS = [(kind, CODECS[kind]) for kind in ("record key", "group metadata")]
WHOLE: dict[str, tuple[st.SearchStrategy[bytes], Callable[[bytes], object]]] = {
    **{kind: (values.map(encode), decode) for kind, (values, encode, decode) in RECORDS},
    **{record.name: (written, DECODERS[record.name]) for record, written in of_consumer_groups.items()},
}


@pytest.mark.parametrize(("written", "decode"), WHOLE.values(), ids=WHOLE)
@unhurried
@given(draw=st.data(), cuts=st.lists(st.integers(min_value=0), max_size=4))
def test_a_record_cut_anywhere_says_where_and_no_byte_may_follow(
    written: st.SearchStrategy[bytes],
    decode: Callable[[bytes], object],
    draw: st.DataObject,
    cuts: list[int],
) -> None:
    data = draw.draw(written)
    for length in {0, len(data) - 1, *(cut % len(data) for cut in cuts)}:
        with pytest.raises(wire.ProtocolError) as error:
            decode(data[:length])
        assert 0 <= error.value.offset <= length
        assert error.value.subject
    with pytest.raises(wire.ProtocolError, match="ends here, but 1 byte follow"):
        decode(data + b"x")


@unhurried
@given(subscriptions, st.binary(max_size=8))
def test_bytes_after_a_newer_subscription_are_ignored(subscription: wire.Subscription, more: bytes) -> None:
    if subscription.version == 3:
        newer = b"\x00\x04" + wire.encode_subscription(subscription)[2:] + more
        decoded = wire.decode_subscription(newer)
        assert (decoded.topics, decoded.owned) == (subscription.topics, subscription.owned)
        assert (decoded.generation, decoded.rack) == (subscription.generation, subscription.rack)
