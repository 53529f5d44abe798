"""The metrics and labels of `kafka-assignors watch` in a PromQL expression, read from its syntax tree."""

from __future__ import annotations

from typing import Any

import promql_parser as promql

from kafka_assignors_ops.watch.fleet import KINDS, STATES, UNDECODABLE
from kafka_assignors_ops.watch.metric_table import GROUP_METRICS, WATCH_METRICS, WatchedMetric
from kafka_assignors_replay.history.rebalances import Cause

_ALL: list[WatchedMetric[Any]] = [*GROUP_METRICS, *WATCH_METRICS]
METRICS = {metric.name: metric for metric in _ALL}
TARGET_LABELS = frozenset({"instance", "job"})
"""The labels that Prometheus adds to each series that it scrapes."""

VALUES = {
    "cause": {cause.value for cause in Cause},
    "state": set(STATES),
    "type": {"classic", "consumer"},
    "part": set(UNDECODABLE),
    "kind": set(KINDS),
}
"""The values of each label that has a fixed set of values."""

OF_COUNTERS = {"rate", "increase"}
OF_GAUGES = {"max_over_time", "min_over_time", "avg_over_time"}


class WrongQuery(Exception):
    """The expression does not parse, or Prometheus answers it with no series or with a meaningless one."""


def labels_of(name: str) -> frozenset[str]:
    """The labels of a metric as Prometheus stores it."""
    if name not in METRICS:
        raise WrongQuery(f"no metric {name}")
    metric = METRICS[name]
    return TARGET_LABELS | {*metric.labels, *(["group"] if metric in GROUP_METRICS else [])}


def result_labels(expression: str) -> frozenset[str]:
    """The labels of the series that the expression returns.

    Raises `WrongQuery` if a metric, a label or a value of a label does not exist, if a counter is used as a
    gauge or the reverse, or if two sides cannot match.
    """
    try:
        tree = promql.parse(expression)
    except ValueError as error:
        raise WrongQuery(f"{expression}: {error}") from None
    found = _labels(tree, None)
    if found is None:
        raise WrongQuery(f"{expression}: asks for no metric")
    return found


def _labels(tree: promql.Expr, function: str | None) -> frozenset[str] | None:
    """The labels of the series of `tree`, None for a number; `function` is the call around a range."""
    match tree:
        case promql.NumberLiteral():
            return None
        case promql.VectorSelector():
            return _selected(tree, function)
        case promql.MatrixSelector():
            return _selected(tree.vector_selector, function)
        case promql.ParenExpr() | promql.UnaryExpr():
            return _labels(tree.expr, function)
        case promql.Call() if tree.func.name in OF_COUNTERS | OF_GAUGES:
            (argument,) = tree.args
            return _labels(argument, tree.func.name)
        case promql.AggregateExpr():
            return _aggregated(tree)
        case promql.BinaryExpr():
            return _joined(tree)
    raise WrongQuery(f"{tree.prettify()}: this test does not know what it gives")


def _selected(selector: promql.VectorSelector, function: str | None) -> frozenset[str]:
    name = selector.name or ""
    labels = labels_of(name)
    if (METRICS[name].kind == "counter") != (function in OF_COUNTERS):
        raise WrongQuery(f"{name} is a {METRICS[name].kind}, inside {function or 'no function'}")
    if selector.matchers.or_matchers:
        raise WrongQuery(f"{name}: only newer servers know `or` between labels")
    for matcher in selector.matchers.matchers:
        require_labels([matcher.name], labels, name)
        # A pattern may match several values, and Grafana substitutes a variable's value.
        exact = matcher.op in (promql.MatchOp.Equal, promql.MatchOp.NotEqual)
        if exact and matcher.value not in VALUES.get(matcher.name, {matcher.value}):
            raise WrongQuery(f"{name}: label {matcher.name} is never {matcher.value!r}")
    return labels


def _aggregated(tree: promql.AggregateExpr) -> frozenset[str]:
    inner = _labels(tree.expr, None)
    if inner is None:
        raise WrongQuery(f"{tree.prettify()}: aggregates a number")
    if str(tree.op) in ("topk", "bottomk"):
        return inner  # the series stay as they are
    if tree.modifier is None:
        return frozenset()
    named = require_labels(tree.modifier.labels, inner, tree.prettify())
    return named if tree.modifier.type == promql.AggModifierType.By else inner - named


def _joined(tree: promql.BinaryExpr) -> frozenset[str] | None:
    left, right = _labels(tree.lhs, None), _labels(tree.rhs, None)
    if left is None or right is None:
        return right if left is None else left
    modifier = tree.modifier
    if modifier is not None and modifier.matching is not None:
        if modifier.matching.type != promql.LabelModifierType.Include:
            raise WrongQuery(f"{tree.prettify()}: this test does not know `ignoring`")
        on = require_labels(modifier.matching.labels, left & right, tree.prettify())
        return left if str(tree.op) in ("and", "unless") else on
    if left != right:
        raise WrongQuery(f"{tree.prettify()}: no series has both {sorted(left)} and {sorted(right)}")
    return left


def require_labels(named: list[str], known: frozenset[str], where: str) -> frozenset[str]:
    """The labels as a set. Raises `WrongQuery` if a label is not in `known`."""
    if unknown := {*named} - known:
        raise WrongQuery(f"{where}: no label {', '.join(sorted(unknown))}")
    return frozenset(named)
