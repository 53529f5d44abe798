"""`kafka-assignors strategies`: which strategies there are."""

from __future__ import annotations

import inspect

from kafka_assignors.strategies import StrategyError, load_strategy, strategy_names
from kafka_assignors_cli.console import emit, note

__all__ = ["EPILOG", "strategies"]

EPILOG = """One line for each strategy, tab-separated: its name, the rebalance protocols it runs under,
what it is.

Packages register theirs in the entry-point group kafka_assignors.strategies. A strategy that is not \
registered can be used as module:attribute wherever a name is asked for, and one put together from rules as \
the path of its TOML file.
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
