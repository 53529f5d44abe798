"""Rules on what a client library can do, and on what it does beside others."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_assignors.lint.clients import COOPERATIVE, has_strategy
from kafka_assignors.lint.findings import Found, Severity, rule
from kafka_assignors.lint.members import Client, Facts, MemberConfig
from kafka_assignors.lint.vote import voters, winners
from kafka_assignors.lint.words import enumerated, lists, sources

__all__ = ["RULES"]


@rule(
    "strategy-not-in-client",
    Severity.ERROR,
    happens="The client does not have a strategy that its file lists, and fails when it is made. "
    "librdkafka has range, roundrobin and cooperative-sticky; aiokafka and kafka-python 2 have no "
    "cooperative-sticky of their own; Java has our shared names and no other.",
    why="librdkafka cannot be given strategies at all. Java takes classes, aiokafka and kafka-python "
    "objects.",
    to_do="Choose a strategy that every client of the group has: range, roundrobin or cooperative-sticky "
    "with librdkafka. aiokafka and kafka-python get all of ours from kafka-assignors: write the name "
    "without `stock:`.",
)
def strategy_not_in_client(facts: Facts) -> Iterator[Found]:
    for member in facts.after:
        if member.client is Client.UNKNOWN or not member.classic:
            continue
        missing = [
            use.name
            for use in member.strategies or ()
            # A class of Java is taken at its word: whether it is on the class path cannot be seen from here.
            if not use.ours
            and "." not in use.name
            and not has_strategy(member.client, member.version, use.name)
        ]
        if missing:
            yield Found(
                (member.source,),
                f"{member.client_text} itself has no {' and no '.join(missing)}.",
                f"Take it from kafka-assignors: {', '.join(missing)} without `stock:`."
                if member.client.runs_our_strategies
                else "Choose a strategy that it has, or leave this client out of the group.",
            )


@rule(
    "eager-under-cooperative",
    Severity.INFO,
    happens="The member runs a cooperative strategy of kafka-assignors (cooperative-sticky, "
    "rack-aware-sticky, capacity, rollout, or your own) in the stock consumer of aiokafka or kafka-python, "
    "which is eager: it gives up all its partitions in every rebalance and gets most of them back. What "
    "moves is as little as with other cooperative members; what pauses is everything it has.",
    why="Keeping partitions through a rebalance (KIP-429) is the consumer's business, not the strategy's. "
    "CooperativeAIOKafkaConsumer does it; which class a member uses, neither settings nor brokers tell.",
    to_do="Nothing: such members may share a group with cooperative ones. With aiokafka, "
    "CooperativeAIOKafkaConsumer goes on consuming.",
)
def eager_under_cooperative(facts: Facts) -> Iterator[Found]:
    members = [
        member
        for member in voters(facts.after)
        if any(
            use.ours and use.protocols is not None and use.protocols >= COOPERATIVE
            for use in member.strategies or ()
        )
    ]
    if members:
        yield Found(
            sources(members),
            "These members take part in a cooperative strategy, and are eager unless they are "
            "CooperativeAIOKafkaConsumers: each rebalance pauses all they have.",
            "Nothing.",
        )


@rule(
    "unreadable-sticky-data",
    Severity.WARNING,
    happens="kafka-python 3's own sticky writes what a member had in a form of its own. Leaders of Java and "
    "of aiokafka take its members for newcomers, and where it leads itself, the members of all other clients "
    "are: partitions move that could stay.",
    why="It puts a version number before the user data that nobody else writes or expects. (Leaders of "
    "kafka-assignors read both forms; but who leads is not yours to choose.)",
    to_do="Use the sticky of kafka-assignors in the kafka-python members: write it without `stock:`.",
)
def unreadable_sticky_data(facts: Facts) -> Iterator[Found]:
    after = voters(facts.after)
    if winners(after) != ("sticky",):
        return
    own = [
        member
        for member in after
        if member.client is Client.KAFKA_PYTHON
        and (member.version is None or member.version >= (3,))
        and any(use.name == "sticky" and not use.ours for use in member.strategies or ())
    ]
    others = [member for member in after if member not in own]
    if own and others:
        yield Found(
            sources(own),
            f"kafka-python 3's own sticky and {enumerated(sources(others))} cannot read what the other had: "
            "each rebalance moves partitions that could stay.",
            "Use the sticky of kafka-assignors in these members.",
        )


@rule(
    "join-per-strategy",
    Severity.WARNING,
    happens="An aiokafka member that lists several of its own strategies asks to join once for each of them, "
    "and every request is a rebalance of the whole group.",
    why="aiokafka sends JoinGroup inside its loop over the strategies: first with the first one, then with "
    "the first two, and so on. With a strategy of kafka-assignors among them the member asks once.",
    to_do="List two strategies for the one roll that changes the strategy, and one otherwise; or take the "
    "strategies of kafka-assignors, which go by the same names.",
)
def join_per_strategy(facts: Facts) -> Iterator[Found]:
    for member in facts.after:
        if _joins_for_each(member):
            yield Found(
                (member.source,),
                f"aiokafka joins {len(member.names)} times with [{', '.join(member.names)}].",
                "Keep the list for the time of the change; list one strategy afterwards.",
            )


@rule(
    "never-settles",
    Severity.ERROR,
    happens="Two kinds of aiokafka members list several of its own strategies each, and not the same one "
    "first. The group rebalances for ever, a few times a second, and nothing is refused: what one member "
    "asks for first has nothing in common with what another asks for first, so that no two of them join for "
    "good at the same time.",
    why="aiokafka asks with its first strategy alone before it asks with the whole list (join-per-strategy). "
    "Lists of one strategy, and lists that begin alike, meet.",
    to_do="Let the lists of all aiokafka members begin with the same strategy, and roll from a list of one: "
    "[old], then [new, old], then [new]. Or take the strategies of kafka-assignors.",
)
def never_settles(facts: Facts) -> Iterator[Found]:
    several = [
        member for member in voters(dict.fromkeys((*facts.before, *facts.after))) if _joins_for_each(member)
    ]
    if len({member.names[0] for member in several}) > 1:
        offers = lists((member.source, member.names) for member in several)
        yield Found(
            sources(several),
            f"aiokafka members with {offers} never settle with each other.",
            "Let them begin with the same strategy; while you change it, list one alone on the one side.",
        )


def _joins_for_each(member: MemberConfig) -> bool:
    """Whether a member asks to join with its first strategy, then with the first two, and so on."""
    ours = any(use.ours for use in member.strategies or ())
    return member.client is Client.AIOKAFKA and len(member.names) > 1 and not ours


_FIRST_WITH_RACK = {Client.AIOKAFKA: (0, 14), Client.KAFKA_PYTHON: (3,)}


@rule(
    "rack-not-told",
    Severity.WARNING,
    happens="client.rack is set, and the leader does not learn of it: the member gets partitions as if it "
    "had no rack. aiokafka before 0.14 and kafka-python before 3.0 have no such setting and fail when they "
    "are made, which is an error.",
    why="aiokafka and kafka-python themselves tell client_rack to the fetcher alone, which then reads from a "
    "near replica. The strategies of kafka-assignors take it from the consumer and tell the group.",
    to_do="Use a strategy of kafka-assignors; with older clients give it the rack, StickyAssignor(rack=…).",
)
def rack_not_told(facts: Facts) -> Iterator[Found]:
    for member in voters(facts.after):
        first = _FIRST_WITH_RACK.get(member.client)
        if first is None or "client.rack" not in member.given:
            continue
        if member.version is not None and member.version < first:
            yield Found(
                (member.source,),
                f"{member.client_text} has no setting client_rack.",
                "Give the rack to the strategy of kafka-assignors instead.",
                Severity.ERROR,
            )
        elif not all(use.ours for use in member.strategies or ()):
            yield Found(
                (member.source,),
                f"client.rack is {member.rack}, and its own strategies do not tell the leader.",
                "Use the strategies of kafka-assignors.",
            )


RULES = (
    strategy_not_in_client,
    eager_under_cooperative,
    unreadable_sticky_data,
    join_per_strategy,
    never_settles,
    rack_not_told,
)
