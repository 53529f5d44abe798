"""Rules on groups whose broker assigns (KIP-848), and on the way there (KIP-1274)."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_assignors.lint.findings import Found, Severity, rule
from kafka_assignors.lint.members import Client, Facts, Version
from kafka_assignors.lint.vote import voters
from kafka_assignors.lint.words import enumerated, sources
from kafka_assignors.livegroup import CONSUMER

__all__ = ["RULES"]

_OLD: Version = (0,)
"""A version that nobody told: before every step."""

_WAY_BACK = (
    "Restart every member with group.protocol=classic; the group is classic again when the last other one "
    "has left."
)

_REFUSED = ("partition.assignment.strategy", "session.timeout.ms", "heartbeat.interval.ms")


@rule(
    "refused-under-kip848",
    Severity.ERROR,
    happens="The client fails when it is made: with group.protocol=consumer Java and librdkafka take no "
    "partition.assignment.strategy, session.timeout.ms and heartbeat.interval.ms; aiokafka and "
    "kafka-python have no group.protocol at all.",
    why="Under KIP-848 the broker assigns, and says how often it wants to hear of its members.",
    to_do="Remove these settings and choose with group.remote.assignor, or set group.protocol=classic.",
)
def refused_under_kip848(facts: Facts) -> Iterator[Found]:
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
    "members of the classic protocol stay in the group and get what the broker gives them.",
    why="The first member that comes with group.protocol=consumer turns a classic group into a KIP-848 "
    "group, online, as long as the broker's group.consumer.migration.policy allows it, which is the "
    "default.",
    to_do="Decide for one: group.remote.assignor (uniform, range) instead of a strategy, or strategies of "
    f"the members. {_WAY_BACK}",
)
def kip848_group(facts: Facts) -> Iterator[Found]:
    classic = voters(facts.after)
    # What a newer Java does unasked is the next rule's.
    joined = [member for member in facts.after if not member.classic and "group.protocol" in member.given]
    if classic and joined:
        yield Found(
            sources(classic),
            f"The strategies of these members do not run: {enumerated(sources(joined))} join with "
            f"group.protocol=consumer and turn the group into a KIP-848 group.",
            "Set group.protocol=classic there, or do without strategies of the members.",
        )
    elif facts.live is not None and facts.live.group_type == CONSUMER and facts.after:
        yield Found(
            sources(facts.after),
            f"{facts.live.id} is a KIP-848 group: its broker assigns, and a strategy of the members changes "
            "nothing.",
            _WAY_BACK,
        )


@rule(
    "java-leaves-classic",
    Severity.INFO,
    happens="Java 5.0 joins with group.protocol=consumer unless told otherwise, and turns a classic group "
    "into a KIP-848 group in which no strategy of a member runs: with 5.0 or newer among classic members "
    "this is an error. Java 6.0 cannot do otherwise. From 4.3 on Java logs a note when it joins by the "
    "classic protocol.",
    why="KIP-1274 retires the classic protocol in Java's consumer in these steps. Brokers keep it.",
    to_do="Set group.protocol=classic in the Java members before they get 5.0, as long as the group needs "
    "a strategy of its members; do not let Java 6.0 into it.",
)
def java_leaves_classic(facts: Facts) -> Iterator[Found]:
    others = [member for member in voters(facts.after) if member.client is not Client.JAVA]
    for member in facts.after:
        if member.client is not Client.JAVA:
            continue
        version = member.version or _OLD
        told = "group.protocol" in member.given
        if version >= (6,) and member.classic:
            yield Found(
                (member.source,),
                f"{member.client_text} has no classic protocol any more.",
                "Stay with Java 5 here, or do without strategies of the members.",
                Severity.ERROR,
            )
        elif version >= (5,) and not told and others:
            yield Found(
                (member.source,),
                f"{member.client_text} joins by KIP-848 unless told otherwise, and takes "
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


RULES = (refused_under_kip848, kip848_group, java_leaves_classic)
