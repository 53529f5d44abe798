"""A replay as a gate: a policy bounds the figures of a replay, and `judge` checks a report against it.

`read_policy` takes the content of a TOML file, `read_report` the document that `replay --json` writes (or
`to_json` returns), and `judge` takes both. The package works on values: no Spark, no files.
"""

from kafka_assignors_spark.policy.replay_report import ReplayReport, ReportError, read_report
from kafka_assignors_spark.policy.rules import (
    METRICS,
    GroupJudgement,
    Judgement,
    Metric,
    Policy,
    PolicyError,
    PolicyRule,
    RuleJudgement,
    RuleOutcome,
    judge,
    read_policy,
)

__all__ = [
    "METRICS",
    "GroupJudgement",
    "Judgement",
    "Metric",
    "Policy",
    "PolicyError",
    "PolicyRule",
    "ReplayReport",
    "ReportError",
    "RuleJudgement",
    "RuleOutcome",
    "judge",
    "read_policy",
    "read_report",
]
