"""`kafka-assignors watch` before it contacts a cluster: options, extras, JSON."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest

from kafka_assignors.arguments import UserError
from kafka_assignors_ops.watch.fleet import Counts, GroupFigures, GroupSnapshot
from kafka_assignors_ops.watch_command import group_json, in_order_of_attention, parse_endpoint


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        (":9308", ("0.0.0.0", 9308)),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::1]:9308", ("::1", 9308)),
        ("metrics.local:80", ("metrics.local", 80)),
    ],
)
def test_an_address_to_serve_metrics_on(text: str, endpoint: tuple[str, int]) -> None:
    assert parse_endpoint(text) == endpoint


@pytest.mark.parametrize("text", ["9308", ":", ":x", ":65536", ":-1", ":９", ""])
def test_what_is_no_address_is_told(text: str) -> None:
    with pytest.raises(UserError, match=r"expected \[HOST\]:PORT, such as :9308"):
        parse_endpoint(text)


LAST = GroupFigures(7, 1.5, "classic", "consumer", "range", False, 2, 0, 4, 2, 2, 1.0)


def snapshot(name: str, **given: object) -> GroupSnapshot:
    return replace(GroupSnapshot(name, "stable", LAST, Counts(), 0), **given)  # type: ignore[arg-type]


def test_groups_that_need_attention_come_first() -> None:
    ordered = [
        snapshot("storm", recent=20),
        snapshot("rebalanced", recent=1),
        snapshot("undecodable", counts=Counts(undecodable=Counter({"value": 1}))),
        snapshot("withheld", state="hand-over"),
        snapshot("needless", counts=Counts(moved=9, least_moved=1)),
        snapshot("uneven", last=replace(LAST, imbalance=1.9)),
        snapshot("calm"),
        snapshot("zen"),
    ]
    assert in_order_of_attention(ordered[::-1]) == ordered


def test_a_group_as_json() -> None:
    counts = Counts(3, 2, 0, 4, 4, causes=Counter({"join": 2}), undecodable=Counter())
    found = json.loads(json.dumps(group_json(snapshot('a "b"\n\\', counts=counts, recent=3))))
    assert (found["group"], found["state"], found["recent_generations"]) == ('a "b"\n\\', "stable", 3)
    assert found["counts"] == {
        "generations": 3,
        "rebalances": 2,
        "unjudged": 0,
        "moved": 4,
        "least_moved": 4,
        "skipped": 0,
        "causes": {"join": 2},
        "undecodable": {},
    }
    last = found["last"]
    assert (last["generation"], last["timestamp_s"], last["protocol"]) == (7, 1.5, "range")
    assert (last["members"], last["idle_members"], last["partitions"]) == (2, 0, 4)
    assert (last["min_load"], last["max_load"], last["imbalance"]) == (2, 2, 1.0)
    assert group_json(snapshot("new", last=None))["last"] is None
