"""A replay as a gate: a policy says what must hold of the figures, and a report is held against it.

`read_policy` takes what a TOML file holds, `read_report` what `replay --json` wrote (or `to_json` makes of a
result), and `judge` the two of them. Values in, verdict out: no Spark, no files.
"""

from kafka_assignors_spark.policy.judging import GroupJudgement, Judgement, Outcome, RuleJudgement, judge
from kafka_assignors_spark.policy.report import Report, ReportError, read_report
from kafka_assignors_spark.policy.rules import METRICS, Metric, Policy, PolicyError, Rule, read_policy

__all__ = [
    "METRICS",
    "GroupJudgement",
    "Judgement",
    "Metric",
    "Outcome",
    "Policy",
    "PolicyError",
    "Report",
    "ReportError",
    "Rule",
    "RuleJudgement",
    "judge",
    "read_policy",
    "read_report",
]
