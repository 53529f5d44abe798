"""Strategies by name: which are found, and the error if none is found."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest

from kafka_assignors import strategies
from kafka_assignors.group import Assignment, Group
from tests.test_cli import installed

BUILT_IN = [
    *("capacity", "cooperative-sticky", "kip848-range", "kip848-uniform", "priority", "rack-aware-sticky"),
    *("range", "rollout", "roundrobin", "standby", "sticky", "weighted"),
]

WEIGHTED = """
from dataclasses import dataclass
from kafka_assignors.group import Assignment
from kafka_assignors.strategies import RebalanceProtocol, Strategy


@dataclass(frozen=True)
class Weighted(Strategy):
    name: str = "acme_weighted"
    protocols: tuple = (RebalanceProtocol.EAGER,)

    def assign(self, group):
        return Assignment({member: {} for member in group.members})


class Holder:
    inner = Weighted(name="inner")


class NoAssign(Strategy):
    name = "acme-nothing"

class NeedsArguments:
    def __init__(self, weights):
        self.weights = weights

class Ends:
    def __init__(self):
        raise SystemExit("done")

class Nameless(NoAssign):
    assign = len

    @property
    def protocols(self):
        raise RuntimeError("no licence")

def __getattr__(name):
    raise SystemExit(name) if name == "Lazy" else AttributeError(name)
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory on the module search path, with the module `weighted_for_test`."""
    (tmp_path / "weighted_for_test.py").write_text(WEIGHTED)
    (tmp_path / "broken_for_test.py").write_text("import nothing_of_that_name\n")
    (tmp_path / "raising_for_test.py").write_text("raise RuntimeError('no licence')\n")
    (tmp_path / "ending_for_test.py").write_text("raise SystemExit('done')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for module in ("weighted_for_test", "broken_for_test", "raising_for_test", "ending_for_test"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    return tmp_path


@pytest.mark.parametrize("name", BUILT_IN)
def test_ours_are_found_without_any_installed_metadata(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "entry_points", lambda **_: [])
    assert strategies.load_strategy(name).name == name
    assert strategies.strategy_names() == BUILT_IN


def test_any_other_is_found_by_module_and_attribute(site: Path) -> None:
    assert strategies.load_strategy("weighted_for_test:Weighted").name == "acme_weighted"
    assert strategies.load_strategy("weighted_for_test:Holder.inner").name == "inner"


def test_strategies_of_installed_packages_are_found_and_listed_under_their_own_names_and_not_ours(
    site: Path,
) -> None:
    target = "weighted_for_test:Weighted"
    registered = (f"{name} = {target}\n" for name in ("acme_weighted", "range", "heavier"))
    installed(site, "[kafka_assignors.strategies]\n" + "".join(registered))
    assert strategies.load_strategy("acme_weighted").name == "acme_weighted"
    assert "acme_weighted" in strategies.strategy_names()
    assert strategies.load_strategy("range").name == "range"
    with pytest.raises(strategies.InvalidStrategyError, match="calls itself 'acme_weighted'"):
        strategies.load_strategy("heavier")


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("rnge", "range"),
        ("round-robin", "roundrobin"),
        ("cooperative_sticky", "cooperative-sticky"),
        ("Sticky", "sticky"),
    ],
)
def test_an_unknown_name_comes_with_near_ones(name: str, near: str) -> None:
    with pytest.raises(strategies.UnknownStrategyError, match="did you mean") as caught:
        strategies.load_strategy(name)
    assert near in caught.value.near


@pytest.mark.parametrize(
    ("class_name", "strategy"),
    [
        ("org.apache.kafka.clients.consumer.CooperativeStickyAssignor", "cooperative-sticky"),
        ("RangePartitionAssignor", "range"),
        ("aiokafka.coordinator.assignors.roundrobin.RoundRobinPartitionAssignor", "roundrobin"),
        ("kafka_assignors_aiokafka:StickyAssignor", "sticky"),
        ("org.apache.kafka.coordinator.group.assignor.UniformAssignor", "kip848-uniform"),
    ],
)
def test_the_class_of_a_client_is_told_with_its_strategy(class_name: str, strategy: str) -> None:
    with pytest.raises(strategies.UnknownStrategyError) as caught:
        strategies.load_strategy(class_name)
    assert str(caught.value) == (
        f"there is no strategy {class_name!r}: that is the name of a class, and its strategy is "
        f"{strategy!r} here"
    )
    assert strategies.load_strategy(strategy).name == strategy


def test_the_class_of_a_strategy_that_needs_rules_is_told_how_to_make_one() -> None:
    with pytest.raises(
        strategies.InvalidStrategyError, match=r"as in `mine = CoPartitioned\(…\)`, and give mod"
    ):
        strategies.load_strategy("kafka_assignors_strategies:CoPartitioned")


@dataclass(frozen=True)
class Wrong(strategies.Strategy):
    """A strategy; each test gives one attribute a wrong value."""

    name: object = "wrong"
    protocols: object = (strategies.RebalanceProtocol.EAGER,)  # type: ignore[assignment]
    criteria: object = None
    assign: object = len
    member_data: object = len


class Duck:
    """A class with the methods of a strategy, without the base class."""

    name = "duck"
    protocols = (strategies.RebalanceProtocol.EAGER,)

    def assign(self, group: Group) -> Assignment:
        return assign_nothing(group)


def assign_nothing(group: Group) -> Assignment:
    return Assignment({member: {} for member in group.members})


async def assign_later(group: Group) -> Assignment:
    return assign_nothing(group)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (Wrong(name=""), "its name is '', not a non-empty string"),
        (Wrong(protocols=["eager"]), "its protocols are ['eager'], not a tuple of RebalanceProtocol"),
        (Wrong(assign=None), "its assign is not a method"),
        (Wrong(member_data=b"data"), "its member_data is not a method"),
        (Wrong(name="s" * 32_768), "its name is no text of at most 32767 bytes"),
        (Wrong(assign=lambda: None), "its assign cannot be called with a group alone"),
        (Wrong(assign=assign_later), "its assign is a coroutine function, which no caller awaits"),
        (Wrong(member_data=lambda: b""), "its member_data cannot be called with a member alone"),
        (assign_nothing, "it does not derive from kafka_assignors.strategies.Strategy"),
        (Duck(), "it does not derive from kafka_assignors.strategies.Strategy"),
        (
            Wrong(criteria=(strategies.Criterion.RACKS,)),
            "its criteria must begin with balance and name each other one once at most, not: racks",
        ),
        (Wrong(criteria=("balance",)), "its criteria are ('balance',), not a tuple of Criterion and Trade"),
    ],
)
def test_an_object_that_is_no_strategy_is_refused_with_what_it_lacks(
    given: object, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("wrong_for_test")
    module.given = given  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wrong_for_test", module)
    with pytest.raises(strategies.InvalidStrategyError) as caught:
        strategies.load_strategy("wrong_for_test:given")
    assert str(caught.value) == f"'wrong_for_test:given' is not a strategy: {problem}"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("weighted_for_test:NeedsArguments", "a class that cannot be made without arguments .*weights"),
        ("weighted_for_test:NoAssign", "is a class without 'assign': define it in NoAssign"),
        ("weighted_for_test:Weihgted", "has no 'Weihgted': did you mean 'Weighted'"),
        ("no_module_for_test:X", "there is no module 'no_module_for_test'"),
        ("no_module_for_test.sub:X", "there is no module 'no_module_for_test.sub'"),
        ("broken_for_test:X", "importing 'broken_for_test' failed: No module named 'nothing_of_that_name'"),
        ("raising_for_test:X", "importing 'raising_for_test' failed: RuntimeError: no licence"),
        ("weighted_for_test:Ends", r"a class that cannot be made without arguments \(done\)"),
        ("weighted_for_test:Nameless", "not a strategy: an attribute of it fails: RuntimeError: no licence"),
        ("weighted_for_test:Lazy", "'weighted_for_test': 'Lazy' fails: SystemExit: Lazy"),
        ("ending_for_test:X", "importing 'ending_for_test' failed: SystemExit: done"),
        ("{site}/ending_for_test.py:X", "it fails when it runs: SystemExit: done"),
        ("a b:c", "neither a name nor of the form module:attribute"),
        (":X", "neither a name nor of the form module:attribute"),
        ("mine.py:Mine(size=3)", r"or FILE.py:attribute; one with settings is an attribute too: "),
        ("module:", "neither a name nor of the form module:attribute"),
    ],
)
def test_a_strategy_that_cannot_be_loaded_is_refused_with_the_reason(
    site: Path, spec: str, message: str
) -> None:
    with pytest.raises(strategies.StrategyError, match=message):
        strategies.load_strategy(spec.format(site=site))
