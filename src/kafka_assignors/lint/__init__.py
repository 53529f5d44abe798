"""Is this change of strategy safe to roll, and are these members fit for one group?

`lint(facts)` holds all rules against what is known of a group. Each rule is a function from values to
findings; what it looks for, why, and what to do about it stands beside it, and is what the documentation
of the rules is made of.
"""

from kafka_assignors.lint.clients import client_of_id
from kafka_assignors.lint.findings import Finding, Rule, Severity
from kafka_assignors.lint.live import live_members
from kafka_assignors.lint.members import (
    BrokerBounds,
    Client,
    Facts,
    MemberConfig,
    NotJudged,
    StrategyUse,
)
from kafka_assignors.lint.report import RULES, Report, lint
from kafka_assignors.lint.settings import InvalidSettingError, member_config, strategy_use

__all__ = [
    "RULES",
    "BrokerBounds",
    "Client",
    "Facts",
    "Finding",
    "InvalidSettingError",
    "MemberConfig",
    "NotJudged",
    "Report",
    "Rule",
    "Severity",
    "StrategyUse",
    "client_of_id",
    "lint",
    "live_members",
    "member_config",
    "strategy_use",
]
