"""Rules on settings other than strategies: timeouts, static membership, KIP-848."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from kafka_assignors.group import Warmth
from kafka_assignors.strategy import SHARED_NAMES
from kafka_assignors_ops.lint.rules import (
    Client,
    Found,
    LintFacts,
    MemberConfig,
    NotJudged,
    Severity,
    Version,
    enumerated,
    rule,
    seconds_text,
    sources,
    voters,
    winners,
)
from kafka_assignors_ops.live_group import CONSUMER, as_member

# ---- timeouts


@rule(
    "heartbeat-interval",
    Severity.WARNING,
    happens="heartbeat.interval.ms is more than a third of session.timeout.ms: one or two late heartbeats "
    "cost the member its partitions. If it is not below the session timeout, that is an error: Java and "
    "kafka-python from 2.2 on refuse it, aiokafka, librdkafka and older kafka-python are expelled again and "
    "again.",
    why="The coordinator expels a member from which it has heard nothing for the session timeout.",
    to_do="Set heartbeat.interval.ms to a third of session.timeout.ms at most.",
)
def heartbeat_interval(facts: LintFacts) -> Iterator[Found]:
    for member in facts.after:
        heartbeat_ms, session_ms = member.heartbeat_interval_ms, member.session_timeout_ms
        if not member.classic or heartbeat_ms is None or session_ms is None:
            continue
        if heartbeat_ms * 3 > session_ms:
            yield Found(
                (member.source,),
                f"A heartbeat every {seconds_text(heartbeat_ms)} in a session of {seconds_text(session_ms)}.",
                f"Set heartbeat.interval.ms to {session_ms // 3} or less.",
                Severity.ERROR if heartbeat_ms >= session_ms else None,
            )


@rule(
    "rebalance-timeout",
    Severity.INFO,
    happens="aiokafka members whose on_partitions_revoked takes longer than rebalance_timeout_ms are "
    "removed from the group while it runs, and other members get partitions that they still process. The "
    "default is session_timeout_ms, 10 s. There is no finding if it is set; a warning if it is set below "
    "the session timeout.",
    why="A rebalance waits for each member to join again, as long as the longest rebalance timeout of the "
    "group. Java, librdkafka and kafka-python send max.poll.interval.ms, 5 minutes; aiokafka has a setting "
    "of its own. Members of other clients in the group therefore hide the problem.",
    to_do="Set rebalance_timeout_ms to the time that the slowest listener needs, and request_timeout_ms "
    "above it.",
)
def rebalance_timeout(facts: LintFacts) -> Iterator[Found]:
    asked = [member.rebalance_timeout_ms for member in facts.after if member.classic]
    longest_ms = max((ms for ms in asked if ms is not None), default=None)
    for member in facts.after:
        rebalance_ms, session_ms = member.rebalance_timeout_ms, member.session_timeout_ms
        if member.client is not Client.AIOKAFKA or rebalance_ms is None or session_ms is None:
            continue
        # A configured value is a choice of how long a rebalance waits.
        chosen = rebalance_ms == session_ms and "rebalance.timeout.ms" in member.given
        if rebalance_ms <= session_ms and longest_ms == rebalance_ms and not chosen:
            yield Found(
                (member.source,),
                f"A rebalance waits {seconds_text(rebalance_ms)} for a listener of this member.",
                severity=Severity.WARNING if rebalance_ms < session_ms else None,
            )


@rule(
    "request-timeout",
    Severity.WARNING,
    happens="aiokafka gives up a JoinGroup that the broker still holds, treats the coordinator as dead and "
    "starts again, as long as the rebalance lasts.",
    why="The broker answers JoinGroup when all members have joined, and waits for them as long as the "
    "longest rebalance timeout of the group. Java, librdkafka and kafka-python allow for that; aiokafka "
    "applies request_timeout_ms, 40 s. One member of another client is enough: it sends 5 minutes.",
    to_do="Set request_timeout_ms above the longest rebalance timeout of the group.",
)
def request_timeout(facts: LintFacts) -> Iterator[Found]:
    asked = [member.rebalance_timeout_ms for member in facts.after if member.classic]
    longest_ms = max((ms for ms in asked if ms is not None), default=0)
    for member in facts.after:
        request_ms = member.request_timeout_ms
        if member.client is Client.AIOKAFKA and request_ms is not None and request_ms <= longest_ms:
            yield Found(
                (member.source,),
                f"aiokafka waits {seconds_text(request_ms)} for an answer that may take "
                f"{seconds_text(longest_ms)}.",
                f"Set request_timeout_ms above {longest_ms}.",
            )


# ---- static membership (KIP-345)

# Kubernetes generates suffixes from these characters alone, so that they spell no words.
_SAFE = "[bcdfghjklmnpqrstvwxz2456789]"
_PASSING = (
    (re.compile(rf".*-{_SAFE}{{6,10}}-{_SAFE}{{5}}"), "the name of a pod of a Deployment"),
    (
        re.compile(rf".*-(?=[a-z]*[2-9])(?=[2-9]*[a-z]){_SAFE}{{5}}"),
        "the name of a pod of a Job or a DaemonSet",
    ),
    (re.compile(r"(.*[^0-9a-f])?[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}", re.IGNORECASE), "a UUID"),
    (re.compile(r"(?=.*[a-f])(?=.*\d)[0-9a-f]{12}"), "the name of a container"),
)
_PLACEHOLDER = re.compile(r"[$%]|\{\{|<.*>")


def passing_kind(instance_id: str) -> str | None:
    """The kind of id that changes with every start of the process; None if it is no such id."""
    return next((kind for pattern, kind in _PASSING if pattern.fullmatch(instance_id)), None)


def _is_placeholder(instance_id: str) -> bool:
    return _PLACEHOLDER.search(instance_id) is not None


@rule(
    "passing-instance-id",
    Severity.WARNING,
    happens="The instance id looks like a name that changes with every restart: that of a pod of a "
    "Deployment, a container id, a UUID. After a restart the old id stays in the group until its session "
    "times out, and no member reads its partitions. The new id joins in addition, and every rebalance waits "
    "in vain for the old one.",
    why="A static member does not leave the group when it stops, because it is expected back under the "
    "same id.",
    to_do="Use a name that a restart keeps, such as that of a StatefulSet's pod (orders-0), or no instance "
    "id.",
)
def passing_instance_id(facts: LintFacts) -> Iterator[Found | NotJudged]:
    for member in facts.after:
        if member.instance_id is None:
            continue
        kind = passing_kind(member.instance_id)
        if kind is not None:
            yield Found((member.source,), f"The instance id {member.instance_id} looks like {kind}.")
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
    "notice that it was replaced; it joins again and replaces the other one.",
    why="The coordinator takes a member with a known instance id for that member after a restart.",
    to_do="Give every process an id of its own.",
)
def instance_id_twice(facts: LintFacts) -> Iterator[Found]:
    by_id: dict[str, list[MemberConfig]] = {}
    for member in facts.after:
        if member.instance_id is not None and not _is_placeholder(member.instance_id):
            by_id.setdefault(member.instance_id, []).append(member)
    for instance_id, members in by_id.items():
        count = sum(member.members for member in members)
        if count > 1:
            yield Found(sources(members), f"{count} members have the instance id {instance_id}.")


# ---- groups whose broker assigns (KIP-848), and the way there (KIP-1274)

_OLD: Version = (0,)
"""An unknown version, which is older than every step."""

_WAY_BACK = (
    "Restart every member with group.protocol=classic; the group is classic again when the last other one "
    "has left."
)

_REFUSED = ("partition.assignment.strategy", "session.timeout.ms", "heartbeat.interval.ms")


@rule(
    "refused-under-kip848",
    Severity.ERROR,
    happens="The client fails at construction: with group.protocol=consumer, Java and librdkafka refuse "
    "partition.assignment.strategy, session.timeout.ms and heartbeat.interval.ms; aiokafka and kafka-python "
    "have no group.protocol.",
    why="Under KIP-848 the broker assigns, and it sets the heartbeat interval of the members.",
    to_do="Remove these settings and choose with group.remote.assignor, or set group.protocol=classic.",
)
def refused_under_kip848(facts: LintFacts) -> Iterator[Found]:
    for member in facts.after:
        if member.client.runs_our_strategies:
            if "group.protocol" in member.given:
                yield Found(
                    (member.source,),
                    f"{member.client_text} has no setting group.protocol.",
                    "Remove group.protocol.",
                )
        elif not member.classic:
            refused = [setting for setting in _REFUSED if setting in member.given]
            if refused:
                yield Found(
                    (member.source,),
                    f"{member.client_text} refuses {', '.join(refused)} with group.protocol=consumer.",
                    f"Remove {', '.join(refused)}, or set group.protocol=classic.",
                )


@rule(
    "kip848-group",
    Severity.ERROR,
    happens="The broker assigns, and no strategy of a member runs: neither ours nor the client's own. The "
    "members of the classic protocol stay in the group and get the assignment of the broker.",
    why="The first member that joins with group.protocol=consumer turns a classic group into a KIP-848 "
    "group, online, if the broker's group.consumer.migration.policy allows it, which is the default. The "
    "broker refuses that member (GROUP_ID_NOT_FOUND) while the assignments of the group have user data: the "
    "assignors of kafka-assignors write some under names that no other client has, and under the others with "
    "stay_classic=True or while a member warms partitions (on_partitions_warming).",
    to_do="Choose one: group.remote.assignor (uniform, range) instead of a strategy, or strategies of the "
    f"members. {_WAY_BACK}",
)
def kip848_group(facts: LintFacts) -> Iterator[Found]:
    classic = voters(facts.after)
    # The next rule judges a newer Java without the setting.
    joined = [member for member in facts.after if not member.classic and "group.protocol" in member.given]
    if classic and joined:
        chosen = winners(classic)
        if chosen and SHARED_NAMES.isdisjoint(chosen):
            happens = (
                f"The broker refuses {enumerated(sources(joined))} with GROUP_ID_NOT_FOUND: they join with "
                f"group.protocol=consumer, and a group under {chosen[0]!r} stays classic, unless its members "
                "were given stay_classic=False."
            )
        elif _any_warms(_warmth(facts)):
            happens = (
                f"The broker refuses {enumerated(sources(joined))} with GROUP_ID_NOT_FOUND: they join with "
                "group.protocol=consumer, and the assignments of the group say what its members shall warm. "
                "Deploy these without on_partitions_warming first."
            )
        else:
            happens = (
                f"The strategies of these members do not run: {enumerated(sources(joined))} join with "
                "group.protocol=consumer and turn the group into a KIP-848 group, unless every assignor that "
                "may lead was given stay_classic=True."
            )
        yield Found(
            sources(classic),
            happens,
            "Set group.protocol=classic there, or do without strategies of the members.",
        )
    elif facts.live is not None and facts.live.group_type == CONSUMER and facts.after:
        yield Found(
            sources(facts.after),
            f"{facts.live.id} is a KIP-848 group: its broker assigns, and a strategy of the members changes "
            "nothing.",
            _WAY_BACK,
        )


def _warmth(facts: LintFacts) -> Mapping[str, Warmth | None]:
    """What each member of the running group announces of warm handoff; none of a KIP-848 group."""
    live = facts.live
    if live is None or live.group_type == CONSUMER:
        return {}
    shown = [member for member in live.members if member.metadata is not None]
    return {member.id: as_member(live, member, frozenset()).warmth for member in shown}


def _any_warms(warmth: Mapping[str, Warmth | None]) -> bool:
    return any(said is not None and said.max_warming for said in warmth.values())


@rule(
    "cold-handoff",
    Severity.INFO,
    happens="Some members of a running group restore partitions before they get them "
    "(on_partitions_warming), and others know nothing of that. When one of these leads, partitions move "
    "cold, and a member that drains hands nothing over.",
    why="The leader decides what waits for its next owner. The leader is the member that the coordinator "
    "takes, often the first one that joined. A member of kafka-assignors without the method knows of warm "
    "handoff from its second join on.",
    to_do="Nothing, if a cold move now and then is acceptable. Otherwise run all members with "
    "kafka-assignors.",
)
def cold_handoff(facts: LintFacts) -> Iterator[Found]:
    warmth = _warmth(facts)
    cold = tuple(sorted(member_id for member_id, said in warmth.items() if said is None))
    if cold and _any_warms(warmth):
        yield Found(cold, f"Partitions move cold when {enumerated(cold)} leads.", None)


@rule(
    "java-leaves-classic",
    Severity.INFO,
    happens="Java 5.0 joins with group.protocol=consumer by default, and turns a classic group "
    "into a KIP-848 group in which no strategy of a member runs: with 5.0 or newer among classic members "
    "this is an error. Java 6.0 has no other protocol. From 4.3 on, Java logs a note when it joins by the "
    "classic protocol.",
    why="KIP-1274 retires the classic protocol in Java's consumer in these steps. Brokers keep it.",
    to_do="Set group.protocol=classic in the Java members before the upgrade to 5.0, as long as the group "
    "needs a strategy of its members; keep Java 6.0 out of the group.",
)
def java_leaves_classic(facts: LintFacts) -> Iterator[Found]:
    others = [member for member in voters(facts.after) if member.client is not Client.JAVA]
    for member in facts.after:
        if member.client is not Client.JAVA:
            continue
        version = member.version or _OLD
        told = "group.protocol" in member.given
        if version >= (5,) and not told and others:
            yield Found(
                (member.source,),
                f"{member.client_text} joins by KIP-848 by default, and takes "
                f"{enumerated(sources(others))} with it: their strategies do not run any more.",
                "Set group.protocol=classic here.",
                Severity.ERROR,
            )
        elif version < (5,) and not told:
            yield Found(
                (member.source,),
                "With Java 5.0 and these settings this member would turn the group into a KIP-848 group.",
                "Set group.protocol=classic before that upgrade, if the group needs a strategy of its "
                "members.",
            )
