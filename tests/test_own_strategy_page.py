"""docs/own-strategy.md: the strategies on the page run, and do what the page says."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from kafka_assignors import Group, Member, Topic
from kafka_assignors.leader import lead
from kafka_assignors.strategies import RebalanceProtocol, load_strategy

PAGE = Path(__file__).parents[1] / "docs" / "own-strategy.md"
CODE = [
    block
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    if "def assign" in block
]


@pytest.fixture
def acme(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module with all strategies of the page."""
    module = types.ModuleType("acme_page")
    monkeypatch.setitem(sys.modules, "acme_page", module)
    for block in CODE:
        exec(block, module.__dict__)
    return module


def test_fewest_members_fills_one_after_the_other(acme: Any) -> None:
    members = [Member(name, frozenset({"orders"})) for name in ("b", "a", "c")]
    group = Group.of([Topic("orders", 120)], members)
    strategy = load_strategy("acme_page:FewestMembers")
    shares = lead(strategy, group, RebalanceProtocol.EAGER).assignment
    assert [shares.load(name) for name in ("a", "b", "c")] == [100, 20, 0]
    owner = Member("c", frozenset({"orders"}), owned={"orders": list(range(100))}, generation=7)
    group = Group.of(group.topics.values(), [*members[:2], owner])
    shares = lead(strategy, group, RebalanceProtocol.EAGER).assignment
    assert [shares.load(name) for name in ("a", "b", "c")] == [20, 0, 100]


def test_never_take_moves_only_what_is_free(acme: Any) -> None:
    everything = frozenset({"orders", "payments"})
    members = [
        Member("a", everything, owned={"orders": [0, 1, 2]}, generation=7),
        Member("b", everything, owned={"orders": [3]}, generation=7),
        Member("c", frozenset({"payments"})),
    ]
    group = Group.of([Topic("orders", 5), Topic("payments", 2)], members)
    led = lead(load_strategy("acme_page:NeverTake"), group, RebalanceProtocol.COOPERATIVE)
    shares = led.assignment.members
    assert [[*shares[name].get("orders", ())] for name in "abc"] == [[0, 1, 2], [3, 4], []]
    assert [*shares["c"]["payments"]] == [0, 1]
