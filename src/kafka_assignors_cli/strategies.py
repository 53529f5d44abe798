"""`kafka-assignors strategies`: lists the registered strategies."""

from __future__ import annotations

import inspect

from kafka_assignors.strategies import StrategyError, load_strategy, strategy_names
from kafka_assignors_cli.console import emit, note

__all__ = ["EPILOG", "strategies"]

EPILOG = """One line for each strategy, tab-separated: its name, the rebalance protocols it supports, and a \
summary.

Packages register strategies in the entry-point group kafka_assignors.strategies. Wherever a name is \
expected, module:attribute names a strategy that is not registered, and the path of a TOML file one that is \
composed from rules.
"""


def strategies() -> None:
    """List the strategies that can be used by name here."""
    for name in strategy_names():
        try:
            strategy = load_strategy(name)
        except StrategyError as error:
            note(str(error))
            continue
        protocols = ",".join(protocol.value for protocol in strategy.protocols)
        summary = (inspect.getdoc(strategy) or "").partition("\n")[0]
        emit(f"{name}\t{protocols}\t{summary}")
