"""The members of a running group, as far as a broker shows how they are configured.

A broker shows the strategy that won the vote, not the lists; the client id, which tells the library unless it
is configured; instance ids and racks; and whether a member held its partitions when it joined. The group's
record has the session and rebalance timeouts. The broker never learns the heartbeat interval, the poll
interval and the clients' request timeouts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from kafka_assignors.lint.members import (
    Client,
    MemberConfig,
    NotJudged,
    StrategyUse,
    client_of_id,
    stock_strategy,
)
from kafka_assignors.live_group import CONSUMER, LiveGroup, LiveMember, hidden_topics_problem
from kafka_assignors.wire import GroupMetadata, ProtocolError, decode_member

__all__ = ["live_members"]


def live_members(
    group: LiveGroup, record: GroupMetadata | None, listed: Sequence[StrategyUse] = (), no_record: str = ""
) -> tuple[tuple[MemberConfig, ...], tuple[NotJudged, ...]]:
    """The members as they run now, and the questions about them that stay open.

    `listed` are the strategies that they list, if the user gave them; otherwise it is the strategy in use.
    `no_record` is the reason for a missing record.
    """
    timeouts = {member.member_id: member for member in record.members} if record is not None else {}
    members = []
    for member in group.members:
        client, version = client_of_id(member.client_id)
        stored = timeouts.get(member.id)
        uses = tuple(listed)
        # If the broker assigns, the group's "protocol" is the broker's assignor, and no vote chose it.
        if not uses and group.protocol and group.group_type != CONSUMER:
            use = stock_strategy(client, version, group.protocol)
            # The Python clients' own strategies join with version 0 or 1, ours with 3.
            joined = member.subscription.version if member.subscription is not None else 0
            uses = (dataclasses.replace(use, ours=client.runs_our_strategies and joined > 1),)
        members.append(
            MemberConfig(
                member.id,
                client,
                version,
                strategies=uses or None,
                session_timeout_ms=stored.session_timeout_ms if stored else None,
                rebalance_timeout_ms=stored.rebalance_timeout_ms if stored else None,
                instance_id=member.instance_id,
                rack=member.rack,
                kept_partitions=_kept_partitions(group, member),
            )
        )
    return tuple(members), tuple(_not_judged(group, members, no_record))


def _kept_partitions(group: LiveGroup, member: LiveMember) -> bool | None:
    """Whether the member held what it owned when it joined last; None if it owned nothing or hides it."""
    if member.metadata is None or not group.protocol:
        return None
    try:
        joined = decode_member(group.protocol, member.id, member.metadata)
    except ProtocolError:
        return None
    return not joined.revoked if joined.owned else None


def _not_judged(group: LiveGroup, members: Sequence[MemberConfig], no_record: str) -> list[NotJudged]:
    if not members:
        return [
            NotJudged(
                f"group {group.id}", f"it has no members now ({group.state}): nothing shows their settings"
            )
        ]
    left_open = [
        NotJudged(
            "heartbeat, poll and request timeouts", "a broker does not learn them; give the members' files"
        )
    ]
    if group.hidden_topics:
        left_open.append(NotJudged("whether members are idle", hidden_topics_problem(group)))
    unknown = [member for member in members if member.client is Client.UNKNOWN]
    if unknown:
        left_open.append(
            NotJudged(
                f"what the clients of {len(unknown)} members can do",
                "their client ids do not tell the library; give the members' files",
            )
        )
    if group.group_type == CONSUMER:
        left_open.append(
            NotJudged("which strategies the members list", "the broker assigns, and does not tell")
        )
    else:
        if any(member.session_timeout_ms is None for member in members):
            left_open.append(
                NotJudged("session and rebalance timeouts", no_record or "the record is of other members")
            )
    return left_open
