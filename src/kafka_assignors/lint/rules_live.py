"""Rules on what only a broker can show."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_assignors.lint.findings import Found, Severity, rule
from kafka_assignors.lint.members import Facts

__all__ = ["RULES"]


@rule(
    "idle-members",
    Severity.INFO,
    happens="There are more members than partitions: whatever the strategy, some members have nothing to do.",
    why="A partition belongs to one member of a group at a time.",
    to_do="Add partitions, or run fewer members, unless the idle ones are wanted as a reserve.",
)
def idle_members(facts: Facts) -> Iterator[Found]:
    live = facts.live
    if live is None or live.topics is None or not live.subscribed or live.hidden_topics:
        return
    partitions = sum(live.topics[name].partitions for name in live.subscribed if name in live.topics)
    members = len(live.members)
    if members > partitions:
        yield Found(
            (live.id,),
            f"{members} members read {partitions} partitions: at least {members - partitions} are idle.",
            "Add partitions, or run fewer members.",
        )


@rule(
    "old-subscription",
    Severity.INFO,
    happens="Members join with version 0 of the subscription, which tells the leader neither what they own "
    "nor their rack. In cooperative-sticky and sticky they keep less than they could where another client "
    "leads.",
    why="Owned partitions came with version 1, the generation with 2 (KIP-792), the rack with 3 (KIP-881). "
    "The stock strategies of aiokafka and kafka-python write version 0 (kafka-python 3's "
    "cooperative-sticky 1).",
    to_do="Use the strategies of kafka-assignors in these members: they write version 3.",
)
def old_subscription(facts: Facts) -> Iterator[Found]:
    for member in facts.live.members if facts.live is not None else ():
        if member.subscription is not None and member.subscription.version < 1:
            yield Found(
                (member.id,),
                "Its subscription is of version 0: no owned partitions, no generation, no rack.",
                "Use the strategies of kafka-assignors there.",
            )


RULES = (idle_members, old_subscription)
