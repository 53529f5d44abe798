"""Is this change of strategy safe to roll out, and do these members fit into one group?

`lint(facts)` runs all rules on what is known about a group. A rule is a function from facts to findings, with
its documentation beside it; docs/lint.md is generated from that documentation.
"""

from kafka_assignors.lint.live import live_members
from kafka_assignors.lint.members import (
    BrokerBounds,
    Client,
    LintFacts,
    MemberConfig,
    NotJudged,
    StrategyUse,
    Version,
    client_of_id,
)
from kafka_assignors.lint.rules import LintFinding, LintRule, Severity
from kafka_assignors.lint.runner import RULES, LintReport, lint
from kafka_assignors.lint.settings import InvalidSettingError, member_config, strategy_use

__all__ = [
    "RULES",
    "BrokerBounds",
    "Client",
    "InvalidSettingError",
    "LintFacts",
    "LintFinding",
    "LintReport",
    "LintRule",
    "MemberConfig",
    "NotJudged",
    "Severity",
    "StrategyUse",
    "Version",
    "client_of_id",
    "lint",
    "live_members",
    "member_config",
    "strategy_use",
]
