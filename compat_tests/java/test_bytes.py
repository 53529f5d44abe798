"""Our codecs and Java's read each other's bytes, for every kind and version, and write the same bytes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from compat_tests.java import write_data
from compat_tests.java.java_bytes import KINDS, JavaBytes, JavaBytesError, random_fields
from kafka_assignors.group import NO_GENERATION
from kafka_assignors.wire import ProtocolError
from kafka_assignors.wire.consumer_protocol import encode_sticky_user_data
from tests.java_fields import (
    WRITTEN,
    comparable_bytes,
    decode_fields,
    encode_fields,
    fields_as_read,
    without_null_user_data,
)

SAMPLES = 300
"""Samples of each kind and version."""


@pytest.fixture(scope="module")
def java() -> Iterator[JavaBytes]:
    with JavaBytes() as process:
        yield process


def samples(kind: str, version: int, count: int = SAMPLES) -> Iterator[dict[str, Any]]:
    rng = random.Random(f"{kind} {version}")
    for _ in range(count):
        yield random_fields(kind, version, rng)


@pytest.mark.parametrize(("kind", "version"), KINDS)
def test_java_and_we_read_what_the_other_writes_and_write_the_same(
    java: JavaBytes, kind: str, version: int
) -> None:
    compared = 0
    for fields in samples(kind, version):
        javas = java.write(kind, version, fields)
        assert decode_fields(kind, version, javas) == fields_as_read(kind, fields)
        if kind not in WRITTEN:
            continue
        ours = encode_fields(kind, version, fields)
        assert without_null_user_data(java.read(kind, version, ours)) == without_null_user_data(fields)
        if comparable_bytes(kind, fields):
            assert ours == javas
            compared += 1
    assert compared > SAMPLES // 10 or kind not in WRITTEN


@pytest.mark.parametrize(("kind", "version"), [case for case in KINDS if "sticky" not in case[0]])
def test_bytes_that_break_off_are_refused_where_java_refuses_them(
    java: JavaBytes, kind: str, version: int
) -> None:
    for fields in samples(kind, version, 10):
        data = java.write(kind, version, fields)
        added = {"owned": {}, "generation": -1, "rack": None}
        version_0 = encode_fields(kind, 0, fields | added) if kind == "subscription" else b""
        for cut in broken_off(data):
            ours = result(ProtocolError, decode_fields, kind, version, cut, kind=kind)
            if ours != "refused" and version_0 and len(cut) == len(version_0):
                continue  # Some clients leave out the fields that their version added; we read the others.
            assert ours == result(JavaBytesError, java.read, kind, version, cut, kind=kind), cut.hex()


def test_user_data_that_break_off_make_no_claim_as_in_java(java: JavaBytes) -> None:
    for kind in ("sticky", "cooperative-sticky"):
        for fields in samples(kind, 1, 10):
            for cut in broken_off(java.write(kind, 1, fields)):
                assert decode_fields(kind, 1, cut) == java.read(kind, 1, cut), cut.hex()


def broken_off(data: bytes) -> list[bytes]:
    """Prefixes of the data, with up to 40 different lengths."""
    lengths = range(len(data)) if len(data) < 40 else random.Random(1).sample(range(len(data)), 40)
    return [data[:length] for length in lengths]


def result(error: type[Exception], read: Callable[..., dict[str, Any]], *args: object, kind: str) -> object:
    try:
        return fields_as_read(kind, read(*args))
    except error:
        return "refused"


def test_user_data_of_sticky_from_before_it_had_a_generation(java: JavaBytes) -> None:
    for fields in samples("sticky", 0):
        version_0 = encode_sticky_user_data(fields["owned"], NO_GENERATION)[:-4]
        expected = {"owned": fields["owned"], "generation": NO_GENERATION}
        assert decode_fields("sticky", 0, version_0) == java.read("sticky", 0, version_0) == expected


def test_versions_of_the_future_are_read_as_the_newest_known(java: JavaBytes) -> None:
    for kind in ("subscription", "assignment"):
        for fields in samples(kind, 3, 50):
            data = (4).to_bytes(2, "big") + java.write(kind, 3, fields)[2:] + b"something new"
            assert decode_fields(kind, 3, data) == without_null_user_data(java.read(kind, 4, data))


# ---- the data about Java that the core's tests store

REMEDY = "run python -m compat_tests.java.write_data and look at the difference"


@pytest.mark.parametrize("what", ["ASSIGNMENTS", "SAMPLES"])
def test_the_stored_data_are_java_s(what: str) -> None:
    stored: Path = getattr(write_data, what)
    written = getattr(write_data, what.lower())()
    assert stored.read_text(encoding="ascii") == write_data.to_lines(written), REMEDY
