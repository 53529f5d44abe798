"""The group in numbers: every partition a job with a weight, every member a number.

Members, cohorts and topic classes are those of `kafka_assignors.solver.classes`: members with the same
subscription are a cohort, topics with the same subscribers a class. Jobs are numbered by topic and partition,
members in the order that decides ties, so the result depends on neither mappings nor hash seeds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain

from kafka_assignors.group import Assignment, Group
from kafka_assignors.loads import Weights
from kafka_assignors.solver.classes import Classes, classify

NO_OWNER = -1
"""The owner of a partition that no member in the group owned."""


@dataclass(frozen=True, slots=True)
class Jobs:
    """The jobs to place, and the members that may have each.

    `weights`, `class_of` and `owners` have an entry for each job: its weight, its topic class, and the member
    that owned it or `NO_OWNER`. `cohorts` are the members of each cohort, `cohort_of` has the cohort of each
    member (-1 for one that can get nothing), and `takers` the cohorts that may have each class. `base` is
    the load of each member without these jobs.
    """

    weights: Sequence[int]
    class_of: Sequence[int]
    owners: Sequence[int]
    cohorts: Sequence[Sequence[int]]
    cohort_of: Sequence[int]
    takers: Sequence[Sequence[int]]
    base: Sequence[int]

    @property
    def members(self) -> list[int]:
        """The members that can get something, cohort by cohort."""
        return [*chain.from_iterable(self.cohorts)]

    def heaviest_first(self, numbers: Iterable[int]) -> list[int]:
        """The jobs of these numbers by falling weight, then by number."""
        return sorted(numbers, key=lambda job: (-self.weights[job], job))

    def with_weight_alone(self) -> tuple[Jobs, list[int]]:
        """The jobs with a weight above 0, and their numbers here."""
        return self._part([job for job, weight in enumerate(self.weights) if weight])

    def by_count(self, holders: Sequence[int]) -> tuple[Jobs, list[int]]:
        """The jobs without weight, each counted as 1, and their numbers here.

        `holders` has the member of each job with weight, in the order of `with_weight_alone`: these jobs are
        the base, each counted as 1 as well.
        """
        base = [0] * len(self.base)
        for member in holders:
            base[member] += 1
        part, numbers = self._part([job for job, weight in enumerate(self.weights) if not weight])
        return replace(part, weights=[1] * len(numbers), base=base), numbers

    def _part(self, numbers: list[int]) -> tuple[Jobs, list[int]]:
        part = replace(
            self,
            weights=[self.weights[job] for job in numbers],
            class_of=[self.class_of[job] for job in numbers],
            owners=[self.owners[job] for job in numbers],
        )
        return part, numbers


@dataclass(frozen=True, slots=True)
class Threshold:
    """The share of a load by which it must come down for partitions to move: from 0 to 0.99."""

    share: Fraction

    def is_worth(self, load: int, before: int) -> bool:
        """Whether `load` is below `before` by more than the threshold."""
        whole, gained = self.share.denominator, self.share.numerator
        return load * whole < before * (whole - gained)


def jobs_of(group: Group, weights: Weights) -> tuple[Jobs, Classes]:
    """The group's partitions as jobs. Cost: linear in the partitions."""
    classes = classify(group, group.claims)
    topics = sorted(classes.class_of_topic)
    cohort_of = [-1] * len(classes.members)
    for cohort, members in enumerate(classes.cohorts):
        for number in members:
            cohort_of[number] = cohort
    jobs = Jobs(
        weights=[weight for name in topics for weight in weights.by_topic[name]],
        class_of=[classes.class_of_topic[name] for name in topics for _ in weights.by_topic[name]],
        owners=_owners(group, classes),
        cohorts=classes.cohorts,
        cohort_of=cohort_of,
        takers=[topic_class.cohorts for topic_class in classes.topic_classes],
        base=[0] * len(classes.members),
    )
    return jobs, classes


def _owners(group: Group, classes: Classes) -> list[int]:
    owners = {name: [NO_OWNER] * group.topics[name].partitions for name in sorted(classes.class_of_topic)}
    for number, owned in enumerate(classes.prior):
        for name, partitions in owned.items():
            of_topic = owners[name]
            for partition in partitions:
                of_topic[partition] = number
    return [*chain.from_iterable(owners.values())]


def assignment_to(group: Group, classes: Classes, holders: Mapping[int, int]) -> Assignment:
    """The assignment in which each job is with its holder."""
    members: list[dict[str, list[int]]] = [{} for _ in classes.members]
    job = 0
    for name in sorted(classes.class_of_topic):
        for partition in range(group.topics[name].partitions):
            members[holders[job]].setdefault(name, []).append(partition)
            job += 1
    by_id = {member.id: held for member, held in zip(classes.members, members, strict=True)}
    return Assignment({member_id: by_id[member_id] for member_id in group.members})


def members_of_bundles(jobs: Jobs, bundles: Sequence[int]) -> dict[int, int]:
    """The member that gets each bundle of jobs: the one of its cohort that owned most of them.

    `bundles` has the bundle of each job, which has the number of a member that may have it. The bundle with
    most in common goes first; bundles that are left go to the members that are left, in their order. If a
    member has a base, bundles are not exchanged.
    """
    if any(jobs.base):
        return {member: member for member in jobs.members}
    cohort_of = jobs.cohort_of
    common = Counter(
        (bundle, owner)
        for bundle, owner in zip(bundles, jobs.owners, strict=True)
        if owner != NO_OWNER and cohort_of[owner] == cohort_of[bundle]
    )
    member_of: dict[int, int] = {}
    free = set(jobs.members)
    for (bundle, member), _ in sorted(common.items(), key=lambda item: (-item[1], item[0])):
        if bundle not in member_of and member in free:
            member_of[bundle] = member
            free.remove(member)
    left: dict[int, list[int]] = {}
    for member in sorted(free, reverse=True):
        left.setdefault(cohort_of[member], []).append(member)
    for bundle in jobs.members:
        if bundle not in member_of:
            member_of[bundle] = left[cohort_of[bundle]].pop()
    return member_of
