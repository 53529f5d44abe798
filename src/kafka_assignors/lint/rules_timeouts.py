"""Rules on the timeouts of the members, against each other and against the broker's."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_assignors.lint.findings import Found, Severity, rule
from kafka_assignors.lint.members import Client, Facts
from kafka_assignors.lint.words import seconds

__all__ = ["RULES"]


@rule(
    "heartbeat-interval",
    Severity.WARNING,
    happens="heartbeat.interval.ms is more than a third of session.timeout.ms: one late heartbeat or two "
    "cost the member its partitions. If it is not even below the session timeout, that is an error: Java "
    "and kafka-python from 2.2 on refuse it, aiokafka, librdkafka and older kafka-python are expelled "
    "again and again.",
    why="The coordinator expels a member from which it has heard nothing for the session timeout.",
    to_do="Set heartbeat.interval.ms to a third of session.timeout.ms at most.",
)
def heartbeat_interval(facts: Facts) -> Iterator[Found]:
    for member in facts.after:
        heartbeat_ms, session_ms = member.heartbeat_interval_ms, member.session_timeout_ms
        if not member.classic or heartbeat_ms is None or session_ms is None:
            continue
        if heartbeat_ms * 3 > session_ms:
            yield Found(
                (member.source,),
                f"A heartbeat every {seconds(heartbeat_ms)} in a session of {seconds(session_ms)}.",
                f"Set heartbeat.interval.ms to {session_ms // 3} or less.",
                Severity.ERROR if heartbeat_ms >= session_ms else None,
            )


@rule(
    "session-timeout-bounds",
    Severity.ERROR,
    happens="The coordinator refuses the member with INVALID_SESSION_TIMEOUT, for good.",
    why="session.timeout.ms must lie within the broker's group.min.session.timeout.ms and "
    "group.max.session.timeout.ms. Without --bootstrap-server these are supposed to be 6 s and 30 minutes, "
    "as Kafka ships them, and the finding is a warning.",
    to_do="Choose a session timeout within the bounds, or change them on every broker.",
)
def session_timeout_bounds(facts: Facts) -> Iterator[Found]:
    low_ms, high_ms = facts.bounds.min_session_timeout_ms, facts.bounds.max_session_timeout_ms
    for member in facts.after:
        session_ms = member.session_timeout_ms
        if member.classic and session_ms is not None and not low_ms <= session_ms <= high_ms:
            whose = "this broker" if facts.bounds.read else "a broker with Kafka's defaults"
            yield Found(
                (member.source,),
                f"A session timeout of {seconds(session_ms)}: {whose} takes {seconds(low_ms)} to "
                f"{seconds(high_ms)}.",
                f"Set session.timeout.ms between {low_ms} and {high_ms}.",
                None if facts.bounds.read else Severity.WARNING,
            )


@rule(
    "poll-interval-below-session",
    Severity.WARNING,
    happens="max.poll.interval.ms is below session.timeout.ms. librdkafka refuses that when the consumer "
    "is made, which is an error. With the others a member that works on its records for longer leaves the "
    "group sooner than one that has died.",
    why="The session timeout is for processes that are gone, the poll interval for those that do not get "
    "on. The latter is also, except in aiokafka, how long a rebalance waits for the member.",
    to_do="Raise max.poll.interval.ms above the longest time between two polls, or lower the session "
    "timeout.",
)
def poll_interval_below_session(facts: Facts) -> Iterator[Found]:
    for member in facts.after:
        poll_ms, session_ms = member.max_poll_interval_ms, member.session_timeout_ms
        if member.classic and poll_ms is not None and session_ms is not None and poll_ms < session_ms:
            refused = member.client is Client.LIBRDKAFKA
            yield Found(
                (member.source,),
                f"max.poll.interval.ms is {poll_ms}, session.timeout.ms {session_ms}"
                + ("; librdkafka refuses that." if refused else "."),
                f"Set max.poll.interval.ms to {session_ms} or more.",
                Severity.ERROR if refused else None,
            )


@rule(
    "rebalance-timeout",
    Severity.INFO,
    happens="aiokafka members whose on_partitions_revoked takes longer than rebalance_timeout_ms are "
    "thrown out of the group while it runs, and others get the partitions they are still working on. By "
    "default that is session_timeout_ms, 10 s. Silent where it is set; a warning if it is set below the "
    "session timeout.",
    why="A rebalance waits for each member to join again, for the longest rebalance timeout of the group. "
    "Java, librdkafka and kafka-python ask for max.poll.interval.ms, 5 minutes; aiokafka has a setting of "
    "its own. So the members of other clients also hide the problem, as long as there are any.",
    to_do="Set rebalance_timeout_ms to what the slowest listener needs, and request_timeout_ms above it.",
)
def rebalance_timeout(facts: Facts) -> Iterator[Found]:
    asked = [member.rebalance_timeout_ms for member in facts.after if member.classic]
    longest_ms = max((ms for ms in asked if ms is not None), default=None)
    for member in facts.after:
        rebalance_ms, session_ms = member.rebalance_timeout_ms, member.session_timeout_ms
        if member.client is not Client.AIOKAFKA or rebalance_ms is None or session_ms is None:
            continue
        # Whoever wrote it down has chosen how long a rebalance waits.
        chosen = rebalance_ms == session_ms and "rebalance.timeout.ms" in member.given
        if rebalance_ms <= session_ms and longest_ms == rebalance_ms and not chosen:
            yield Found(
                (member.source,),
                f"A rebalance waits {seconds(rebalance_ms)} for a listener of this member.",
                "Set rebalance_timeout_ms to what its slowest on_partitions_revoked needs.",
                Severity.WARNING if rebalance_ms < session_ms else None,
            )


@rule(
    "request-timeout",
    Severity.WARNING,
    happens="aiokafka gives up a JoinGroup that the broker still holds, takes the coordinator for dead and "
    "starts again, as long as the rebalance lasts. kafka-python 2 refuses a request timeout that is not "
    "above the session timeout when it is made, which is an error.",
    why="The broker answers JoinGroup when all members have joined, for which it waits as long as the "
    "longest rebalance timeout in the group. Java, librdkafka and kafka-python allow for that; aiokafka "
    "applies request_timeout_ms, 40 s, to it. One member of another client is enough: it asks for 5 "
    "minutes.",
    to_do="Set request_timeout_ms above the longest rebalance timeout of the group.",
)
def request_timeout(facts: Facts) -> Iterator[Found]:
    asked = [member.rebalance_timeout_ms for member in facts.after if member.classic]
    longest_ms = max((ms for ms in asked if ms is not None), default=0)
    for member in facts.after:
        request_ms, session_ms = member.request_timeout_ms, member.session_timeout_ms
        if request_ms is None or session_ms is None:
            continue
        if member.client is Client.AIOKAFKA and request_ms <= longest_ms:
            yield Found(
                (member.source,),
                f"aiokafka waits {seconds(request_ms)} for an answer that may take {seconds(longest_ms)}.",
                f"Set request_timeout_ms above {longest_ms}.",
            )
        old = member.version is not None and member.version < (3,)
        if member.client is Client.KAFKA_PYTHON and old and request_ms <= session_ms:
            yield Found(
                (member.source,),
                f"{member.client_text} refuses request_timeout_ms {request_ms} with session_timeout_ms "
                f"{session_ms}.",
                f"Set request_timeout_ms above {session_ms}.",
                Severity.ERROR,
            )


RULES = (
    heartbeat_interval,
    session_timeout_bounds,
    poll_interval_below_session,
    rebalance_timeout,
    request_timeout,
)
