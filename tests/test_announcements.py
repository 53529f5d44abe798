"""The facts that members announce: encoding, decoding, and bytes that contain no facts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_assignors.announcements import Facts, InvalidFactError, decode_facts, encode_facts, facts_of
from kafka_assignors.group import Group, Member
from kafka_assignors.wire import ProtocolError

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)
FACTS = st.builds(
    Facts,
    release=st.none() | TEXTS,
    share=st.none() | st.integers(0, 10_000),
    capacity=st.none() | st.integers(1, 10_000),
    standby=st.booleans(),
    rules=st.none() | st.text("0123456789abcdef", min_size=1, max_size=64),
)


@given(FACTS)
def test_bytes_and_back(facts: Facts) -> None:
    assert decode_facts(encode_facts(facts)) == facts


def test_the_bytes_are_those_of_the_documentation() -> None:
    facts = Facts(release="v2", share=1000, capacity=4, standby=True, rules="ab")
    assert encode_facts(facts).hex(" ") == (
        "00 01 05 00 03 03 76 32 01 02 e8 07 03 01 04 04 01 01 05 03 03 61 62"
    )


def test_fields_of_a_later_version_are_skipped() -> None:
    later = bytes.fromhex("0002 02 00 03 03 76 32 63 02 ffff") + b"and more"
    assert decode_facts(later) == Facts(release="v2")
    same_version = bytes.fromhex("0001 02 00 03 03 76 32 63 02 ffff")
    assert decode_facts(same_version) == Facts(release="v2")


@given(st.binary(max_size=60))
def test_any_bytes_are_facts_or_a_protocol_error(data: bytes) -> None:
    try:
        facts = decode_facts(data)
    except ProtocolError:
        return
    assert decode_facts(encode_facts(facts)) == facts


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ("00", "version at byte 0: needs 2 bytes, but 1 byte is left"),
        ("0000", "0 is not a version of facts"),
        ("0001 01 03 01 00", "a capacity is between 1 and 10000, not 0"),
        ("0001 01 01 05 ffffffff0f", "a share is between 0 and 10000 ten-thousandths, not 4294967295"),
        ("0001 01 00 01 01", "a release is text of 1 to 255 bytes"),
        ("0001 02 04 01 01 04 01 01", "4 comes twice"),
        ("0001 ffffffff0f", "claims 4294967295 elements"),
        ("0001 00 00", "1 byte follow"),
    ],
)
def test_invalid_member_data_is_refused_with_its_problem(data: str, problem: str) -> None:
    with pytest.raises(ProtocolError) as raised:
        decode_facts(bytes.fromhex(data))
    assert problem in str(raised.value)


def test_a_fact_that_no_member_could_read_cannot_be_announced() -> None:
    for wrong in (
        {"release": ""},
        {"release": "v" * 256},
        {"release": "\ud800"},
        {"share": 10_001},
        {"share": -1},
        {"capacity": 0},
        {"rules": ""},
    ):
        with pytest.raises(InvalidFactError):
            Facts(**wrong)


def test_a_member_whose_data_do_not_decode_is_named_and_announced_nothing() -> None:
    members = [
        Member("good", frozenset({"t"}), data=encode_facts(Facts(capacity=3))),
        Member("bad", frozenset({"t"}), data=b"\xff" * 1000),
        Member("silent", frozenset({"t"})),
    ]
    found = facts_of(Group.of([], members))
    assert found.members == {"good": Facts(capacity=3), "bad": Facts(), "silent": Facts()}
    (finding,) = found.findings
    assert finding.startswith("member 'bad' counts as one that announced nothing")
