"""The codecs against bytes that Java's consumer and broker wrote: reading and writing agree with Java."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.java_fields import comparable_bytes, decode_fields, encode_fields, fields_as_read

_LINES = (Path(__file__).parent / "data" / "java_bytes.jsonl").read_text(encoding="ascii").splitlines()
SAMPLES: list[dict[str, Any]] = [json.loads(line) for line in _LINES]


def named(sample: dict[str, Any]) -> str:
    return f"{sample['kind']}-{sample['version']}"


@pytest.mark.parametrize("sample", SAMPLES, ids=named)
def test_bytes_of_java_are_read(sample: dict[str, Any]) -> None:
    fields = decode_fields(sample["kind"], sample["version"], bytes.fromhex(sample["hex"]))
    assert fields == fields_as_read(sample["kind"], sample["fields"])


@pytest.mark.parametrize(
    "sample", [sample for sample in SAMPLES if comparable_bytes(sample["kind"], sample["fields"])], ids=named
)
def test_bytes_are_written_as_java_writes_them(sample: dict[str, Any]) -> None:
    assert encode_fields(sample["kind"], sample["version"], sample["fields"]).hex() == sample["hex"]
