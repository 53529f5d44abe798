"""Rules on what the members vote for, and on how one strategy replaces another."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_assignors.lint.clients import has_strategy, takes_list
from kafka_assignors.lint.findings import Found, Severity, rule
from kafka_assignors.lint.members import Client, Facts, MemberConfig, NotJudged, StrategyUse
from kafka_assignors.lint.vote import candidates, count_votes, voters, winners
from kafka_assignors.lint.words import enumerated, lists, sources

__all__ = ["RULES"]


def _offers(members: tuple[MemberConfig, ...]) -> str:
    return lists((member.source, member.names) for member in members)


def _in_two_rolls(before: tuple[MemberConfig, ...], after: tuple[MemberConfig, ...]) -> str:
    """What to do where no member can be changed while others are not."""
    old = {use.name: use for use in before[0].strategies or () if use.name in winners(before)[:1]}
    first: list[tuple[str, tuple[str, ...]]] = []
    for member in after:
        uses: dict[str, StrategyUse] = {use.name: use for use in member.strategies or ()}
        uses.update((name, use) for name, use in old.items() if name not in uses)
        if not _can_list(member, tuple(uses.values())):
            return (
                f"Stop the whole group and start it with the new strategy: {member.source} cannot list both "
                f"{' and '.join(uses)}."
            )
        first.append((member.source, tuple(uses)))
    return (
        f"Roll twice. First restart every member with {lists(first)}. When all have it, restart every member "
        f"with {_offers(after)}."
    )


def _can_list(member: MemberConfig, uses: tuple[StrategyUse, ...]) -> bool:
    """Whether the member's client takes this list, and has all that is in it."""
    if member.client is Client.LIBRDKAFKA and not all(
        has_strategy(member.client, member.version, use.name) for use in uses
    ):
        return False
    return takes_list(member.client, uses)


@rule(
    "no-common-strategy",
    Severity.ERROR,
    happens="The members, or the members before and after a change, have no strategy in common. The "
    "coordinator refuses whoever comes later with INCONSISTENT_GROUP_PROTOCOL: aiokafka raises it from "
    "start, kafka-python from poll, librdkafka returns it from poll.",
    why="A group runs one strategy, and every member must support it. While a change is rolled out, members "
    "with the old list and members with the new one are in the group together.",
    to_do="Roll twice. First restart every member with a list of the new strategy and the old one, such as "
    "[cooperative-sticky, range]; when all have it, restart them with the new one alone. Where a client "
    "takes no such list (mixed-rebalance-protocols), stop the whole group and start it with the new one.",
)
def no_common_strategy(facts: Facts) -> Iterator[Found]:
    before, after = voters(facts.before), voters(facts.after)
    if not after:
        return
    if not candidates(after):
        yield Found(
            sources(after),
            f"The group cannot form: its members offer {_offers(after)}.",
            "Give all of them a strategy in common, beside those that they have.",
        )
    elif candidates(before) and not candidates((*before, *after)):
        supposed = " (supposing that they list no other: the broker does not tell)"
        yield Found(
            sources(after),
            f"Today's members offer {_offers(before)}{supposed if facts.assumed_before else ''}, the new "
            f"ones {_offers(after)}. Whoever restarts with the new list is refused until the last old "
            "member has left.",
            _in_two_rolls(before, after),
        )


@rule(
    "first-choice-loses",
    Severity.WARNING,
    happens="The group does not run the strategy that a member lists first: another has more votes, or some "
    "member does not list it at all. Nothing is logged; the change simply has no effect.",
    why="The coordinator considers only strategies that every member lists. Of these each member's first "
    "counts as its vote, and most votes win.",
    to_do="List the strategy in every member, and first in most of them.",
)
def first_choice_loses(facts: Facts) -> Iterator[Found]:
    after = voters(facts.after)
    won, common = winners(after), candidates(after)
    if len(won) != 1:
        return
    by_choice: dict[str, list[MemberConfig]] = {}
    for member in after:
        if member.names[0] != won[0]:
            by_choice.setdefault(member.names[0], []).append(member)
    for choice, members in by_choice.items():
        lacking = sources(member for member in after if choice not in member.names)
        reason = "it has fewer votes" if choice in common else f"not listed by {enumerated(lacking)}"
        yield Found(
            sources(members),
            f"{choice} is listed first, but the group runs {won[0]}: {reason}.",
            f"List {choice} first in every member, or remove it where it is not wanted.",
        )


@rule(
    "vote",
    Severity.INFO,
    happens="Says which strategy wins the vote: now, or before, during and after the change.",
    why="The coordinator counts votes as first-choice-loses says. A tie is decided by the order of a hash "
    "table in the broker: do not build on it.",
    to_do="Nothing, unless it is a tie: then list one strategy first in more members. Where a file stands "
    "for several members, say with `members` for how many.",
)
def vote(facts: Facts) -> Iterator[Found | NotJudged]:
    for member in dict.fromkeys((*facts.before, *facts.after)):
        if member.client is Client.JAVA:
            for use in member.strategies or ():
                if use.protocols is None:
                    yield NotJudged(
                        f"{member.source}: what {use.name} votes for",
                        "a Java class votes for what its name() returns; here it counts by its class",
                    )
    lines = []
    if facts.before:
        lines.append(f"Before: {_outcome(facts.before)}.")
        rolling = sorted(count_votes((*facts.before, *facts.after)))
        lines.append(f"While it rolls: {' or '.join(rolling) or 'no candidate'}.")
        lines.append(f"Afterwards: {_outcome(facts.after)}.")
    else:
        lines.append(f"Now: {_outcome(facts.after)}.")
    if voters(facts.after):
        tie = len(winners(facts.after)) > 1
        to_do = "List one of them first in more members than the others." if tie else ""
        yield Found(sources(voters(facts.after)), " ".join(lines), to_do)


def _outcome(members: tuple[MemberConfig, ...]) -> str:
    votes, won = count_votes(members), winners(members)
    if len(won) == 1:
        return f"{won[0]} wins with {votes[won[0]]} of {sum(votes.values())} votes"
    return f"a tie between {' and '.join(won)}" if won else "no candidate"


@rule(
    "mixed-rebalance-protocols",
    Severity.ERROR,
    happens="The client refuses its own list when it is made: the strategies in it have no rebalance "
    "protocol in common. librdkafka takes range and roundrobin, or cooperative-sticky, and never both. "
    "kafka-python's own CooperativeStickyAssignor is cooperative only, and takes nothing eager beside it.",
    why="Under EAGER a member gives everything up before it joins, under COOPERATIVE only what moves. The "
    "member must know which before it knows the winner, so all it lists must allow the same.",
    to_do="librdkafka: list strategies of one kind, and change the kind with the whole group stopped. "
    "kafka-python: use the cooperative-sticky of kafka-assignors, which may stand beside others.",
)
def mixed_rebalance_protocols(facts: Facts) -> Iterator[Found]:
    for member in facts.after:
        if member.classic and not takes_list(member.client, member.strategies or ()):
            kafka_python = member.client is Client.KAFKA_PYTHON
            yield Found(
                (member.source,),
                f"{member.client_text} refuses the list [{', '.join(member.names)}] when the consumer is "
                "made.",
                "Take cooperative-sticky from kafka-assignors instead of kafka-python's own."
                if kafka_python
                else "List one kind alone, eager or cooperative; change it with the whole group stopped.",
            )


@rule(
    "second-roll-due",
    Severity.INFO,
    happens="A Java member lists cooperative-sticky beside an eager strategy. It stays eager, whichever "
    "wins: every rebalance revokes everything. That is right in the first of the two rolls, and Java's own "
    "default.",
    why="Java runs the best protocol that all listed strategies support; range, roundrobin and sticky are "
    "eager.",
    to_do="When every member lists cooperative-sticky, restart them with cooperative-sticky alone.",
)
def second_roll_due(facts: Facts) -> Iterator[Found]:
    for member in facts.after:
        several = len(member.names) > 1 and "cooperative-sticky" in member.names
        if several and member.classic and member.client is Client.JAVA:
            yield Found(
                (member.source,),
                f"It stays eager with the list [{', '.join(member.names)}].",
                "Restart it with [cooperative-sticky] once every member lists cooperative-sticky.",
            )


RULES = (
    no_common_strategy,
    first_choice_loses,
    vote,
    mixed_rebalance_protocols,
    second_roll_due,
)
