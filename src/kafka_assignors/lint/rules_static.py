"""Rules on static membership (KIP-345)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kafka_assignors.lint.findings import Found, Severity, rule
from kafka_assignors.lint.members import Facts, MemberConfig, NotJudged
from kafka_assignors.lint.words import sources

__all__ = ["RULES"]

# Kubernetes makes suffixes of these letters and digits alone, so that no words come out.
_SAFE = "[bcdfghjklmnpqrstvwxz2456789]"
_PASSING = (
    (re.compile(rf".*-{_SAFE}{{6,10}}-{_SAFE}{{5}}"), "the name of a pod of a Deployment"),
    (
        re.compile(rf".*-(?=[a-z]*[2-9])(?=[2-9]*[a-z]){_SAFE}{{5}}"),
        "the name of a pod of a Job or a DaemonSet",
    ),
    (
        re.compile(r"(.*[^0-9a-f])?[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}", re.IGNORECASE),
        "a UUID",
    ),
    (re.compile(r"(?=.*[a-f])(?=.*\d)[0-9a-f]{12}"), "the name of a container"),
)
_PLACEHOLDER = re.compile(r"[$%]|\{\{|<.*>")


def passing_kind(instance_id: str) -> str | None:
    """What makes this id look as if the next start of the process had another; None if nothing does."""
    return next((kind for pattern, kind in _PASSING if pattern.fullmatch(instance_id)), None)


def _is_placeholder(instance_id: str) -> bool:
    return _PLACEHOLDER.search(instance_id) is not None


@rule(
    "passing-instance-id",
    Severity.WARNING,
    happens="The instance id looks like a name that changes with every restart: that of a pod of a "
    "Deployment, a container id, a UUID. After a restart the old id stays in the group until its session "
    "times out, with partitions that nobody reads, the new one comes in addition, and every rebalance "
    "waits in vain for the old one.",
    why="A static member does not leave the group when it stops, because it is expected back under the "
    "same id.",
    to_do="Use a name that a restart keeps, such as that of a StatefulSet's pod (orders-0), or no instance "
    "id.",
)
def passing_instance_id(facts: Facts) -> Iterator[Found | NotJudged]:
    for member in facts.after:
        if member.instance_id is None:
            continue
        kind = passing_kind(member.instance_id)
        if kind is not None:
            yield Found(
                (member.source,),
                f"The instance id {member.instance_id} looks like {kind}.",
                "Use a name that a restart keeps, such as that of a StatefulSet's pod, or no instance id.",
            )
        elif _is_placeholder(member.instance_id):
            yield NotJudged(
                f"{member.source}: whether {member.instance_id} is the same after a restart, and another in "
                "each member",
                "it is filled in when the member starts; the name of a StatefulSet's pod would do",
            )


@rule(
    "instance-id-twice",
    Severity.ERROR,
    happens="Two members have the same instance id. The later one takes the place of the earlier one, "
    "which is fenced: Java, kafka-python and librdkafka stop with FENCED_INSTANCE_ID. aiokafka does not "
    "notice that it was replaced; it joins again, and throws the other one out.",
    why="The coordinator takes a member with a known instance id for that member after a restart.",
    to_do="Give every process an id of its own.",
)
def instance_id_twice(facts: Facts) -> Iterator[Found]:
    by_id: dict[str, list[MemberConfig]] = {}
    for member in facts.after:
        if member.instance_id is not None and not _is_placeholder(member.instance_id):
            by_id.setdefault(member.instance_id, []).append(member)
    for instance_id, members in by_id.items():
        count = sum(member.members for member in members)
        if count > 1:
            yield Found(
                sources(members),
                f"{count} members have the instance id {instance_id}.",
                "Give every process an id of its own.",
            )


RULES = (passing_instance_id, instance_id_twice)
