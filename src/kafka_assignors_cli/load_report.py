"""The loads of an assignment by weight, beside the lower bound of the greatest one."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_assignors.group import Assignment, Group
from kafka_assignors.loads import crowding_bound, relax, weights_of
from kafka_assignors.solver.classes import classify


@dataclass(frozen=True, slots=True)
class LoadReport:
    """The loads of an assignment by weight.

    Attributes:
        makespan: the greatest load.
        lower_bound: no assignment of the group has a lower greatest load.
        heaviest: the greatest weight of a partition.
        unknown_weights: the partitions whose weight is unknown, so that a median stands in.
    """

    makespan: int
    lower_bound: int
    heaviest: int
    unknown_weights: int

    @property
    def ratio(self) -> float:
        """The makespan divided by the lower bound: 1.0 is optimal, a greater ratio may be optimal too."""
        return self.makespan / self.lower_bound if self.lower_bound else 1.0


def measure_loads(group: Group, assignment: Assignment) -> LoadReport:
    """Measure a valid assignment of the group.

    Cost: sorting the partitions, and a maximum flow on classes and cohorts.
    """
    weights = weights_of(group)
    classes = classify(group, group.claims)
    sizes = [*map(len, classes.cohorts)]
    amounts = dict.fromkeys(range(len(classes.topic_classes)), 0)
    for name, number in classes.class_of_topic.items():
        amounts[number] += sum(weights.by_topic[name])
    relaxed = relax(sizes, [topic_class.cohorts for topic_class in classes.topic_classes], amounts)
    every = [weight for name in classes.class_of_topic for weight in weights.by_topic[name]]
    loads = [
        sum(weights.by_topic[name][p] for name, partitions in held.items() for p in partitions)
        for held in assignment.members.values()
    ]
    return LoadReport(
        makespan=max(loads, default=0),
        lower_bound=max(relaxed.load, crowding_bound(every, sum(sizes))),
        heaviest=max(every, default=0),
        unknown_weights=weights.unknown,
    )
