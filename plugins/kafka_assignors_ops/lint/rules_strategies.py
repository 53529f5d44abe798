"""Rules on strategies: the vote, a change of strategy, and the strategies that a client library supports."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_assignors_ops.lint.members import COOPERATIVE, accepts_list, has_strategy
from kafka_assignors_ops.lint.rules import (
    Client,
    Found,
    LintFacts,
    MemberConfig,
    NotJudged,
    Severity,
    StrategyUse,
    candidates,
    count_votes,
    enumerated,
    rule,
    sources,
    strategy_lists,
    voters,
    winners,
)

# ---- the vote, and how one strategy replaces another


def _offers(members: tuple[MemberConfig, ...]) -> str:
    return strategy_lists((member.source, member.names) for member in members)


def _in_two_rolls(before: tuple[MemberConfig, ...], after: tuple[MemberConfig, ...]) -> str:
    """The remedy if old and new members cannot be in the group together."""
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
        f"Roll twice. First restart every member with {strategy_lists(first)}. When all have it, restart "
        f"every member with {_offers(after)}."
    )


def _can_list(member: MemberConfig, uses: tuple[StrategyUse, ...]) -> bool:
    """Whether the member's client has these strategies and accepts them in one list."""
    if member.client is Client.LIBRDKAFKA and not all(has_strategy(member, use.name) for use in uses):
        return False
    return accepts_list(member.client, uses)


@rule(
    "no-common-strategy",
    Severity.ERROR,
    happens="The members, or the members before and after a change, have no strategy in common. The "
    "coordinator refuses the later members with INCONSISTENT_GROUP_PROTOCOL: aiokafka raises it from "
    "start, kafka-python from poll, librdkafka returns it from poll.",
    why="A group runs one strategy, which every member must support. During a rolling change, members with "
    "the old list and members with the new list are in the group together.",
    to_do="Roll twice. First restart every member with a list of the new strategy and the old one, such as "
    "[cooperative-sticky, range]; when all have it, restart them with the new one alone. If a client "
    "refuses such a list (mixed-rebalance-protocols), stop the whole group and start it with the new "
    "strategy.",
)
def no_common_strategy(facts: LintFacts) -> Iterator[Found]:
    before, after = voters(facts.before), voters(facts.after)
    if not after:
        return
    if not candidates(after):
        yield Found(
            sources(after),
            f"The group cannot form: its members offer {_offers(after)}.",
            "Add one strategy to the lists of all members.",
        )
    elif candidates(before) and not candidates((*before, *after)):
        supposed = " (assuming that they list no other: the broker does not show it)"
        yield Found(
            sources(after),
            f"Today's members offer {_offers(before)}{supposed if facts.assumed_before else ''}, the new "
            f"ones {_offers(after)}. A member that restarts with the new list is refused until the last old "
            "member has left.",
            _in_two_rolls(before, after),
        )


@rule(
    "first-choice-loses",
    Severity.WARNING,
    happens="The group does not run the strategy that a member lists first: another strategy has more "
    "votes, or a member does not list it. Nothing is logged; the change has no effect.",
    why="The coordinator considers only strategies that every member lists. Each member votes for the first "
    "of these in its list, and the most votes win.",
    to_do="List the strategy in every member, and first in most of them.",
)
def first_choice_loses(facts: LintFacts) -> Iterator[Found]:
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
    happens="The rule reports which strategy wins the vote: now, or before, during and after the change.",
    why="The coordinator counts votes as first-choice-loses describes. The order of a hash table in the "
    "broker decides a tie: do not rely on it.",
    to_do="Nothing, unless there is a tie: then list one strategy first in more members. If a file "
    "describes several members, give their number as `members`.",
)
def vote(facts: LintFacts) -> Iterator[Found | NotJudged]:
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
    happens="The client refuses its list at construction: the strategies in it have no rebalance protocol "
    "in common. librdkafka accepts range and roundrobin, or cooperative-sticky, and never both. "
    "kafka-python's own CooperativeStickyAssignor is cooperative only, and cannot stand beside an eager "
    "strategy.",
    why="Under EAGER a member revokes all partitions before it joins, under COOPERATIVE only those that "
    "move. It must know the protocol before the vote, so all listed strategies must support the same one.",
    to_do="librdkafka: list strategies of one kind, and change the kind with the whole group stopped. "
    "kafka-python: use the cooperative-sticky of kafka-assignors, which may stand beside others.",
)
def mixed_rebalance_protocols(facts: LintFacts) -> Iterator[Found]:
    for member in facts.after:
        if member.classic and not accepts_list(member.client, member.strategies or ()):
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
    happens="A Java member lists cooperative-sticky beside an eager strategy. It stays eager whichever "
    "strategy wins: every rebalance revokes all partitions. That is right in the first of the two rolls, "
    "and it is Java's default.",
    why="Java uses the best protocol that all listed strategies support; range, roundrobin and sticky are "
    "eager.",
    to_do="When every member lists cooperative-sticky, restart them with cooperative-sticky alone.",
)
def second_roll_due(facts: LintFacts) -> Iterator[Found]:
    for member in facts.after:
        several = len(member.names) > 1 and "cooperative-sticky" in member.names
        if several and member.classic and member.client is Client.JAVA:
            yield Found((member.source,), f"It stays eager with the list [{', '.join(member.names)}].")


# ---- the clients


@rule(
    "strategy-not-in-client",
    Severity.ERROR,
    happens="The client lacks a strategy that its file lists, and fails at construction. "
    "librdkafka has range, roundrobin and cooperative-sticky; aiokafka and kafka-python 2 have no "
    "cooperative-sticky of their own; Java has range, roundrobin, sticky and cooperative-sticky.",
    why="librdkafka accepts no custom strategies. Java accepts classes, aiokafka and kafka-python objects.",
    to_do="Choose a strategy that every client of the group has: range, roundrobin or cooperative-sticky "
    "with librdkafka. aiokafka and kafka-python get all others from kafka-assignors: write the name without "
    "`stock:`.",
)
def strategy_not_in_client(facts: LintFacts) -> Iterator[Found]:
    for member in facts.after:
        if member.client is Client.UNKNOWN or not member.classic:
            continue
        missing = [
            use.name
            for use in member.strategies or ()
            # A Java class is accepted unchecked: lint cannot see the class path.
            if not use.ours and "." not in use.name and not has_strategy(member, use.name)
        ]
        if missing:
            yield Found(
                (member.source,),
                f"{member.client_text} itself has no {' and no '.join(missing)}.",
                f"Take it from kafka-assignors: {', '.join(missing)} without `stock:`."
                if member.client.runs_our_strategies
                else "Choose a strategy that it has, or leave this client out of the group.",
            )


_COOPERATIVE_CLASSES = {
    Client.AIOKAFKA: "CooperativeAIOKafkaConsumer",
    Client.KAFKA_PYTHON: "CooperativeKafkaConsumer (kafka-python 3)",
}


@rule(
    "eager-consumer",
    Severity.INFO,
    happens="The member runs a strategy of kafka-assignors in an eager consumer: it revokes all its "
    "partitions in every rebalance and gets most of them back. As few partitions move as with cooperative "
    "members, but all partitions of the member pause. The consumer is eager if its list has a strategy "
    "that is not cooperative (range, roundrobin, sticky) or one of the client's own, and in a live group if "
    "the member joined last without its partitions. With cooperative strategies alone, the class of the "
    "consumer decides, which files do not show, nor does a member that has joined only once.",
    why="The consumer keeps partitions through a rebalance (KIP-429), not the strategy. "
    "CooperativeAIOKafkaConsumer and CooperativeKafkaConsumer do so; the stock classes of aiokafka and "
    "kafka-python do not.",
    to_do="Nothing while pauses do not matter: eager members may share a group with cooperative ones. "
    "Otherwise restart every member with the cooperative class and a list of cooperative strategies of "
    "kafka-assignors alone: beside an eager one the consumer stays eager. The members of the group must list "
    "one of them when that restart begins. If they do not yet, first restart every member with the "
    "cooperative class and the list [cooperative-sticky, the strategy that runs today].",
)
def eager_consumer(facts: LintFacts) -> Iterator[Found]:
    by_words: dict[tuple[str, str], list[MemberConfig]] = {}
    for member in voters(facts.after):
        uses = member.strategies or ()
        stays = all(map(_is_cooperative, uses)) and member.kept_partitions is True
        if any(use.ours for use in uses) and not stays:
            words = _eager_words(member, uses), _eager_advice(facts, member, uses)
            by_words.setdefault(words, []).append(member)
    for (what, to_do), members in by_words.items():
        yield Found(sources(members), what, to_do)


def _is_cooperative(use: StrategyUse) -> bool:
    """Whether a cooperative class accepts the strategy and is cooperative with it."""
    return use.ours and (use.protocols is None or use.protocols >= COOPERATIVE)


def _cooperative_class(member: MemberConfig) -> str:
    return _COOPERATIVE_CLASSES.get(member.client, "the cooperative class")


def _eager_words(member: MemberConfig, uses: tuple[StrategyUse, ...]) -> str:
    """What is known of a member with strategies of ours."""
    pause = "each rebalance pauses all their partitions"
    if not all(map(_is_cooperative, uses)):
        return (
            f"The consumers of these members are eager, because not every strategy in "
            f"[{', '.join(member.names)}] is a cooperative one of kafka-assignors: {pause}."
        )
    if member.kept_partitions is False:
        return f"These members joined last without their partitions, as eager consumers do: {pause}."
    return f"Unless these members are of {_cooperative_class(member)}, they are eager: {pause}."


def _eager_advice(facts: LintFacts, member: MemberConfig, uses: tuple[StrategyUse, ...]) -> str:
    """The next step of docs/migrate.md from the state of the group.

    A list of cooperative strategies alone is the last step. It needs a group whose members all list one of
    them, for a restarted member is refused otherwise. A broker does not show the lists, but the strategy in
    use is in all of them.
    """
    last = [use.name for use in uses if _is_cooperative(use)] or ["cooperative-sticky"]
    last_restart = f"{_cooperative_class(member)} and the list [{', '.join(last)}] alone"
    before, after = voters(facts.before), voters(facts.after)
    if not set(last).isdisjoint(candidates(before or after)):
        return (
            f"If the pauses matter, restart every member with {last_restart}: beside an eager strategy it "
            "stays eager."
        )
    if before and candidates((*before, *after)) and not set(last).isdisjoint(candidates(after)):
        return (
            "If the pauses matter, this change is the first of two restarts. When every member has this "
            f"list, restart every member with {last_restart}."
        )
    first = dict.fromkeys((*last, *member.names, *winners(before)[:1]))
    finish = " If the first restart has begun, finish it." if facts.live is not None else ""
    return (
        f"If the pauses matter, restart twice: first every member with {_cooperative_class(member)} and the "
        f"strategies of kafka-assignors [{', '.join(first)}]; when all have these, with the list "
        f"[{', '.join(last)}] alone.{finish}"
    )


@rule(
    "unreadable-sticky-data",
    Severity.WARNING,
    happens="kafka-python 3's own sticky writes the owned partitions of a member in a form of its own. "
    "Leaders of Java and of aiokafka treat its members as new, and a leader of its own treats the members "
    "of all other clients as new: partitions move that could stay.",
    why="It puts a version number before the user data, which no other client writes or expects. (Leaders "
    "of kafka-assignors read both forms, but the broker chooses the leader.)",
    to_do="Use the sticky of kafka-assignors in the kafka-python members: write it without `stock:`.",
)
def unreadable_sticky_data(facts: LintFacts) -> Iterator[Found]:
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
        )


@rule(
    "join-per-strategy",
    Severity.WARNING,
    happens="An aiokafka member that lists several strategies sends a JoinGroup for each of them, and every "
    "request starts a rebalance of the whole group.",
    why="aiokafka sends JoinGroup inside its loop over the strategies: with the first one, then with the "
    "first two, and so on. CooperativeAIOKafkaConsumer joins once; the class of the consumer is not in the "
    "files, so a list of strategies of kafka-assignors alone is no more than an information.",
    to_do="List two strategies only during the roll that changes the strategy; or use "
    "CooperativeAIOKafkaConsumer.",
)
def join_per_strategy(facts: LintFacts) -> Iterator[Found]:
    for member in facts.after:
        if _joins_for_each(member):
            perhaps_ours = _all_are_ours(member)
            unless = ", unless the class is CooperativeAIOKafkaConsumer" if perhaps_ours else ""
            yield Found(
                (member.source,),
                f"aiokafka joins {len(member.names)} times with [{', '.join(member.names)}]{unless}.",
                severity=Severity.INFO if perhaps_ours else None,
            )


@rule(
    "never-settles",
    Severity.ERROR,
    happens="Two kinds of aiokafka members each list several strategies, and not the same one "
    "first. The group rebalances forever, a few times a second, and no request is refused: the first "
    "requests of two such members have no strategy in common, so that the members never stay in the group "
    "together.",
    why="aiokafka joins with its first strategy alone before it joins with the whole list "
    "(join-per-strategy). Lists of one strategy settle, and lists that begin with the same one usually do. "
    "So does CooperativeAIOKafkaConsumer: lists of strategies of kafka-assignors alone are taken for its.",
    to_do="Let the lists of all aiokafka members begin with the same strategy, and roll from a list of one: "
    "[old], then [new, old], then [new]. Or use CooperativeAIOKafkaConsumer.",
)
def never_settles(facts: LintFacts) -> Iterator[Found]:
    several = [
        member
        for member in voters(dict.fromkeys((*facts.before, *facts.after)))
        if _joins_for_each(member) and not _all_are_ours(member)
    ]
    if len({member.names[0] for member in several}) > 1:
        offers = strategy_lists((member.source, member.names) for member in several)
        yield Found(sources(several), f"aiokafka members with {offers} never settle with each other.")


def _joins_for_each(member: MemberConfig) -> bool:
    """Whether a member joins with its first strategy, then with the first two, and so on."""
    return member.client is Client.AIOKAFKA and len(member.names) > 1


def _all_are_ours(member: MemberConfig) -> bool:
    """Whether the list may be that of a CooperativeAIOKafkaConsumer, which takes no other strategies."""
    return all(use.ours for use in member.strategies or ())


@rule(
    "rack-not-told",
    Severity.WARNING,
    happens="client.rack is set, and the leader does not learn the rack: the member gets partitions as if "
    "it had none.",
    why="aiokafka and kafka-python pass client_rack to their fetcher alone, which then reads from a near "
    "replica. The cooperative consumers of kafka-assignors send it to the group; in a stock consumer its "
    "strategies send their own rack.",
    to_do="Use a strategy of kafka-assignors; in a stock consumer give it the rack, StickyAssignor(rack=…).",
)
def rack_not_told(facts: LintFacts) -> Iterator[Found]:
    for member in voters(facts.after):
        is_ours = all(use.ours for use in member.strategies or ())
        if member.client.runs_our_strategies and "client.rack" in member.given and not is_ours:
            yield Found(
                (member.source,),
                f"client.rack is {member.rack}, and its own strategies do not send it to the leader.",
            )
