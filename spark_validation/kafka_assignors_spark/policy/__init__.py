"""A replay as a gate: a policy says what must hold of the figures, and a report is held against it.

`read_policy` takes what a TOML file holds, `read_report` what `replay --json` wrote (or `to_json` makes of a
result), and `judge` the two of them. Values in, verdict out: no Spark, no files.
"""

from kafka_assignors_spark.policy.judging import GroupJudgement, Judgement, RuleJudgement, RuleOutcome, judge
from kafka_assignors_spark.policy.replay_report import ReplayReport, ReportError, read_report
from kafka_assignors_spark.policy.rules import METRICS, Metric, Policy, PolicyError, PolicyRule, read_policy

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
