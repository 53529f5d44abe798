"""Members for the tests of lint's rules, made from the settings of a configuration file."""

from __future__ import annotations

from typing import Any

from kafka_assignors.strategies import load_strategy
from kafka_assignors_ops.lint import lint
from kafka_assignors_ops.lint.members import member_config
from kafka_assignors_ops.lint.rules import LintFacts, MemberConfig, Severity

__all__ = ["aiokafka", "findings", "java", "kafka_python", "librdkafka", "member"]


def member(source: str = "a.toml", **settings: Any) -> MemberConfig:
    return member_config(source, settings, load_strategy)


def aiokafka(*strategies: str, source: str = "aiokafka.toml", **settings: Any) -> MemberConfig:
    return _of("aiokafka", strategies, source, settings)


def kafka_python(*strategies: str, source: str = "kafka-python.toml", **settings: Any) -> MemberConfig:
    return _of("kafka-python", strategies, source, settings)


def java(*strategies: str, source: str = "java.properties", **settings: Any) -> MemberConfig:
    return _of("java", strategies, source, settings)


def librdkafka(*strategies: str, source: str = "librdkafka.conf", **settings: Any) -> MemberConfig:
    return _of("librdkafka", strategies, source, settings)


def _of(client: str, strategies: tuple[str, ...], source: str, settings: dict[str, Any]) -> MemberConfig:
    if strategies:
        settings["partition_assignment_strategy"] = list(strategies)
    return member(source, client=client, **settings)


def findings(
    *after: MemberConfig, before: tuple[MemberConfig, ...] = (), **facts: Any
) -> dict[str, Severity]:
    """The severity of each rule with a finding; the worst severity, if a rule has several findings."""
    report = lint(LintFacts(after, before, **facts))
    return {finding.rule: finding.severity for finding in reversed(report.findings)}
