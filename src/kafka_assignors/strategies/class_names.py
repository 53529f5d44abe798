"""The strategies of this package by the names of assignor classes: of Java, the Python clients, our adapters.

Users who come from another client know a strategy by its class.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["ASSIGNOR_CLASSES", "SHARED_NAMES", "STOCK_CLASSES", "assignor_class", "strategy_of_class"]

ASSIGNOR_CLASSES: Mapping[str, str] = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
    "RackAwareStickyAssignor": "rack-aware-sticky",
    "CapacityAssignor": "capacity",
    "StandbyAssignor": "standby",
    "PriorityAssignor": "priority",
    "WeightedAssignor": "weighted",
    "RolloutAssignor": "rollout",
}
"""The classes of our adapters, some of which Java and kafka-python have under the same names."""

STOCK_CLASSES: Mapping[str, str] = {
    "RangePartitionAssignor": "range",
    "RoundRobinPartitionAssignor": "roundrobin",
    "StickyPartitionAssignor": "sticky",
}
"""The classes of aiokafka and kafka-python that have a name of their own."""

SHARED_NAMES = frozenset({"range", "roundrobin", "sticky", "cooperative-sticky"})
"""The names that assignors of other clients have too: any client may lead a group that votes for one."""

_ON_BROKER = "org.apache.kafka.coordinator.group.assignor."
_BROKER_CLASSES = {"RangeAssignor": "kip848-range", "UniformAssignor": "kip848-uniform"}
_PACKAGES = re.compile(
    r"(org\.apache\.kafka|aiokafka|kafka|kafka_assignors_aiokafka|kafka_assignors_kafka_python)[.:]"
)


def strategy_of_class(text: str) -> str | None:
    """The name of the strategy that a class stands for; None if it is no class of a client or an adapter.

    `text` is the name of the class alone, or after its package or module, with a dot or a colon.
    """
    class_name = re.split(r"[.:]", text)[-1]
    if text.startswith(_ON_BROKER):
        return _BROKER_CLASSES.get(class_name)
    if class_name != text and not _PACKAGES.match(text):
        return None
    return ASSIGNOR_CLASSES.get(class_name) or STOCK_CLASSES.get(class_name)


def assignor_class(strategy: str) -> str | None:
    """The class of our adapters that runs a strategy; None if there is none."""
    return next((name for name, of_class in ASSIGNOR_CLASSES.items() if of_class == strategy), None)
