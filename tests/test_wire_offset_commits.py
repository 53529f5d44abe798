"""The value of an offset commit, compared with bytes that Java's generated class wrote."""

from __future__ import annotations

import pytest

from compat_tests.support.offset_commits import OffsetCommit, decode_offset_commit, encode_offset_commit
from kafka_assignors.wire import ProtocolError

BY_JAVA = (
    "0000000000000000002a00046e6f74650000019ca6b1dc00",
    "0001000000000000002a00046e6f74650000019ca6b1dc000000019ca6b362a0",
    "0002000000000000002a00046e6f74650000019ca6b1dc00",
    "0003000000000000002a0000000700046e6f74650000019ca6b1dc00",
    "0004000000000000002a00000007056e6f74650000019ca6b1dc0001001000000000000000010000000000000002",
)
"""One value in each version, as written by `OffsetCommitValue` of Kafka 4.4.0."""


def commit(version: int) -> OffsetCommit:
    return OffsetCommit(
        version,
        42,
        "note",
        1_772_323_200_000,
        leader_epoch=7 if version >= 3 else -1,
        expire_timestamp_ms=1_772_323_300_000 if version == 1 else -1,
        topic_id="AAAAAAAAAAEAAAAAAAAAAg" if version >= 4 else None,
    )


@pytest.mark.parametrize(("version", "written"), [*enumerate(BY_JAVA)])
def test_every_version_that_java_writes_reads_and_is_written_the_same(version: int, written: str) -> None:
    data = bytes.fromhex(written)
    assert decode_offset_commit(data) == commit(version)
    assert encode_offset_commit(commit(version)) == data


@pytest.mark.parametrize("version", range(5))
def test_a_commit_cut_anywhere_says_where(version: int) -> None:
    data = encode_offset_commit(commit(version))
    for length in range(len(data)):
        with pytest.raises(ProtocolError, match="offset commit: ") as error:
            decode_offset_commit(data[:length])
        assert 0 <= error.value.offset <= length
    with pytest.raises(ProtocolError, match="ends here, but 1 byte follow"):
        decode_offset_commit(data + b"x")


@pytest.mark.parametrize("version", [5, 32767, -1])
def test_a_version_that_is_not_known_is_refused(version: int) -> None:
    data = version.to_bytes(2, "big", signed=True) + bytes.fromhex(BY_JAVA[4])[2:]
    with pytest.raises(ProtocolError, match=f"version at byte 0: {version} is not known"):
        decode_offset_commit(data)
    with pytest.raises(ProtocolError, match=f"version at byte 0: {version} is not known"):
        encode_offset_commit(OffsetCommit(version, 0, "", 0))


def test_tagged_fields_of_a_later_broker_are_skipped() -> None:
    without = encode_offset_commit(OffsetCommit(4, 42, "", 0))
    assert without[-1:] == b"\0"
    assert decode_offset_commit(without[:-1] + b"\1\x09\3abc") == OffsetCommit(4, 42, "", 0)


def test_a_topic_id_that_does_not_end_where_it_says_is_refused() -> None:
    without = encode_offset_commit(OffsetCommit(4, 42, "", 0))
    with pytest.raises(ProtocolError, match="has 17 bytes, but 16 bytes are read"):
        decode_offset_commit(without[:-1] + b"\1\0\x11" + bytes(17))
