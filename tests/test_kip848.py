"""The broker's assignors as strategies: their assignments, and who refuses to run them.

`compat_tests/java/test_server_assignors.py` compares them with Kafka's own classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from kafka_assignors.assignor import Assignor
from kafka_assignors.group import Assignment, Group, Member, Topic
from kafka_assignors.leader import lead
from kafka_assignors.strategies import RebalanceProtocol, load_strategy
from kafka_assignors.strategy import Strategy, contract_problem
from kafka_assignors_cli import main
from kafka_assignors_ops.lint.members import InvalidSettingError, strategy_use
from kafka_assignors_ops.lint.rules import Client
from kafka_assignors_strategies import Kip848Range

ORDERS = frozenset({"orders"})
NAMES = ["kip848-range", "kip848-uniform"]


@pytest.mark.parametrize("name", NAMES)
def test_the_target_is_the_assignment_and_nothing_waits(name: str) -> None:
    strategy = load_strategy(name)
    assert (strategy.name, strategy.protocols) == (name, (RebalanceProtocol.CONSUMER,))
    owner = Member("a", ORDERS, owned={"orders": [0, 1, 2, 3]}, generation=3)
    group = Group.of([Topic("orders", 4)], [owner, Member("b", ORDERS)])
    led = lead(strategy, group, RebalanceProtocol.CONSUMER)
    assert led.withheld == {}
    assert led.assignment == led.target
    assert [led.target.load(member) for member in "ab"] == [2, 2]


# ---- who refuses them


@pytest.mark.parametrize("name", NAMES)
def test_no_client_runs_them_and_lint_refuses_them_in_a_list(name: str) -> None:
    with pytest.raises(ValueError, match=rf"'{name}' stands for an assignor of the broker \(KIP-848\)"):
        Assignor(load_strategy(name))
    with pytest.raises(InvalidSettingError, match="no client lists it"):
        strategy_use(Client.AIOKAFKA, None, name, load_strategy)


def test_a_strategy_of_both_sides_is_none() -> None:
    @dataclass(frozen=True)
    class Both(Strategy):
        name: str = "both"
        protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.CONSUMER, RebalanceProtocol.EAGER)

        def assign(self, group: Group) -> Assignment:
            return Kip848Range().assign(group)

    assert "of clients and of the broker" in (contract_problem(Both()) or "")


def test_assign_takes_their_names(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "group.json"
    file.write_text(
        '{"topics": {"orders": {"partitions": 2, "id": "R2u4n-z9TCu5VQ9YBJzYxg"}},'
        ' "members": [{"id": "a", "topics": ["orders"]}]}'
    )
    assert main(["assign", str(file), "--strategy", "kip848-uniform"]) == 0
    out = capsys.readouterr().out
    assert '"assignment": {"a": {"orders": [0, 1]}}' in out
    assert "withheld" not in out
    assert main(["assign", str(file), "--strategy", "kip848-uniform", "--protocol", "eager"]) == 2
    assert "does not run under eager, only under consumer" in capsys.readouterr().err
