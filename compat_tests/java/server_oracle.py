"""The assignors of KIP-848, which run on the broker, as an oracle.

One JVM per assignor (`src/ServerAssignorOracle.java`) uses the coordinator's own classes and keeps one group
in the coordinator's own tables. Therefore it answers as a broker whose group has had this history.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any

from compat_tests.java.oracle import LineProcess
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.jvm import compile_java, java_command
from kafka_assignors.group import Group, Member, Topic
from kafka_assignors.strategies.range_roundrobin import java_order
from kafka_assignors_cli.group_form import group_to_json

__all__ = ["BrokerError", "ServerOracle"]

ByMember = dict[str, dict[str, list[int]]]


class BrokerError(RuntimeError):
    """The assignor threw; a broker would answer the heartbeat with this error."""


class ServerOracle:
    """The coordinator of one group, as a context manager around one JVM."""

    def __init__(self, assignor: str, timeout_s: float = HANG_S) -> None:
        self._java = LineProcess(
            java_command("ServerAssignorOracle", assignor, classes=compile_java()), timeout_s=timeout_s
        )

    def __enter__(self) -> ServerOracle:
        self._java.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._java.__exit__(kind, error, trace)

    def heartbeat(
        self,
        topics: Iterable[Topic],
        heartbeat: Member,
        *,
        members: Sequence[Member] = (),
        leave: Iterable[str] = (),
        new: bool = False,
    ) -> ByMember:
        """The targets of all members after this member's heartbeat.

        Args:
            topics: of the cluster, all with an id.
            heartbeat: a member of the group, or one that joins; its owned partitions are ignored.
            members: put into the coordinator's table before the heartbeat, in this order, with their owned
                partitions as their last target.
            leave: members that leave before the heartbeat.
            new: forget the group, and begin with an empty one.

        Raises:
            BrokerError: the assignor threw.
        """
        (named,) = _members([heartbeat])
        named.pop("owned", None)
        answer: dict[str, Any] = self._java.ask(
            {
                "new": new,
                "topics": group_to_json(Group.of(topics, ()))["topics"],
                "leave": list(leave),
                "members": _members(members),
                "heartbeat": named,
            }
        )
        if "error" in answer:
            raise BrokerError(answer["error"])
        assignment: ByMember = answer["assignment"]
        return assignment


def _members(members: Sequence[Member]) -> list[dict[str, Any]]:
    """The members as JSON, in this order; topic names are in Java's order, as in the coordinator."""
    form = {one["id"]: one for one in group_to_json(Group.of((), members))["members"]}
    for one in form.values():
        one["topics"].sort(key=java_order)
        owned = one.get("owned", {})
        one["owned"] = {topic: owned[topic] for topic in sorted(owned, key=java_order)}
    return [form[member.id] for member in members]
