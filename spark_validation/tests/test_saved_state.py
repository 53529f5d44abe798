"""The saved state of a watch: a fold continues from it, and refuses other text."""

from __future__ import annotations

import json
import random
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from kafka_assignors_ops.watch.saved_state import StateError, read_state, write_state
from kafka_assignors_replay.folds.rebalances import Generation, Rebalance, RebalanceFold, Replacement
from spark_validation.tests.test_rebalances import generation, had

ALL, LOW, HIGH = {"orders": [0, 1, 2, 3]}, {"orders": [0, 1]}, {"orders": [2, 3]}
COOPERATIVE = "cooperative-sticky"

HISTORY = (
    generation(1, had("ä", ALL), protocol=COOPERATIVE),
    generation(2, had("ä", LOW, owned=ALL, since=1), had("b", {}), protocol=COOPERATIVE),
    generation(3, had("ä", LOW, owned=LOW, since=2), had("b", HIGH), protocol=COOPERATIVE),
    generation(4, had("c", LOW, instance="i"), had("b", HIGH), starts_late=True, incarnation=2),
    generation(4, had("d", LOW, instance="i"), had("b", HIGH), replacement=True, incarnation=2),
    generation(6, had("d", LOW, owned=HIGH, since=5), had("b", HIGH), skipped=1, incarnation=2),
    generation(7, had("d", HIGH), had("b", LOW), decodes=False, incarnation=2),
    generation(8, incarnation=2),
    generation(9, had("e", ALL), incarnation=2),
)


def new(state: bytes | None = None) -> RebalanceFold:
    """A fold that begins, or continues from a state."""
    return RebalanceFold() if state is None else read_state(RebalanceFold, state)


def rows(fold: RebalanceFold, *records: Generation) -> list[Rebalance | Replacement]:
    return [row for record in records for row in fold.feed(record)]


def state_after(records: int) -> bytes:
    fold = new()
    rows(fold, *HISTORY[:records])
    return write_state(fold)


@pytest.mark.parametrize("cut", range(len(HISTORY) + 1))
def test_a_fold_that_goes_on_from_a_state_is_the_fold_in_one(cut: int) -> None:
    whole, before = new(), new()
    expected = [*rows(whole, *HISTORY), *whole.finish()]
    resumed = rows(before, *HISTORY[:cut])
    after = new(write_state(before))
    assert write_state(after) == write_state(before)
    resumed += [*rows(after, *HISTORY[cut:]), *after.finish()]
    # A tuple may have become a list.
    assert [*map(write_state, resumed)] == [*map(write_state, expected)]


def test_the_text_is_json_that_names_its_fields_and_has_equal_partitions_once() -> None:
    document = json.loads(state_after(3))
    assert document["format"] == 1
    assert "owned_generation" in document["layout"]["MemberRecord"]
    assert len(document["shares"]) == len({json.dumps(share) for share in document["shares"]})


def takes(text: bytes) -> bool:
    """Whether a fold accepts a text as its state, and then continues without an error."""
    said = ""
    try:
        fold = new(text)
    except StateError as error:
        said = str(error)
    if said:
        assert "\n" not in said
        assert len(said) < 300
        return False
    rows(fold, *HISTORY[6:])
    list(fold.finish())
    return True


def changed(change: Callable[[dict[str, Any]], object]) -> bytes:
    document = json.loads(state_after(3))
    change(document)
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "not the JSON of a state"),
        (b"\x80\x05.", "not the JSON of a state"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"format": 1' + b"0" * 5_000 + b"}", "not the JSON of a state"),
        (b"[]", "not a state of format 1"),
        (changed(lambda state: state.update(format=2)), "not a state of format 1"),
        (changed(lambda state: state.update(more=1)), "other parts than the four"),
        (changed(lambda state: state["layout"]["Generation"].pop()), "another version of kafka-assignors"),
        (changed(lambda state: state.update(shares={})), "other parts than the four"),
        (changed(lambda state: state.update(shares=[])), "there is no share"),
        (changed(lambda state: state["shares"].insert(0, {"orders": ["0"]})), "shares: there is a str"),
        (changed(lambda state: state["shares"].insert(0, {"orders": [2**63]})), "a number of 64 bits"),
        (changed(lambda state: state["state"].pop()), "there are 4 values in place of 5"),
        (changed(lambda state: state["state"].__setitem__(2, None)), "held: there is a NoneType"),
        (changed(lambda state: state["state"][1].__setitem__(1, True)), "last.generation: "),
        (changed(lambda state: state["state"][1].__setitem__(0, 10**18)), "last.timestamp: "),
    ],
)
def test_a_text_that_is_no_state_is_refused(text: bytes, said: str) -> None:
    with pytest.raises(StateError) as error:
        new(text)
    assert said in str(error.value)


def test_no_damage_is_more_than_a_clear_error() -> None:
    whole, rng = state_after(6), random.Random(1)
    assert takes(whole)
    assert not any(takes(whole[:length]) for length in range(0, len(whole), 17))
    outcomes = set()
    for _ in range(2_000):
        damaged = bytearray(whole)
        for _ in range(rng.choice((1, 1, 3))):
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        outcomes.add(takes(bytes(damaged)))
    assert outcomes == {True, False}


VALUES = (None, True, -1, 0, 2**31, -(2**63), 1.5, "", "x", "\ud800", [], {}, [[]], [0], {"a": 0})


def test_no_value_in_a_wrong_place_is_more_than_a_clear_error() -> None:
    def places(value: Any) -> list[tuple[Any, Any]]:
        within: list[tuple[Any, Any]] = []
        if isinstance(value, (list, dict)):
            for key in range(len(value)) if isinstance(value, list) else value:
                within += [(value, key), *places(value[key])]
        return within

    document = json.loads(state_after(6))
    taken = 0
    for value, key in places(document):
        before = value[key]
        for other in VALUES:
            value[key] = other
            taken += takes(json.dumps(document).encode())
        value[key] = before
    assert taken


@pytest.mark.parametrize("piece", [b"[[],", b'{"":{},', b"0,", b'"",', b"[" * 900 + b"]" * 900 + b","])
def test_no_text_makes_the_reader_allocate_far_beyond_its_size(piece: bytes) -> None:
    whole = state_after(3)
    at = whole.index(b'"shares": [') + len(b'"shares": [')
    text = whole[:at] + piece * (200_000 // len(piece)) + whole[at:]
    tracemalloc.start()
    try:
        with pytest.raises(StateError):
            new(text)
    finally:
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak_bytes <= 1_000_000 + 80 * len(text)
