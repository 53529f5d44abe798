"""Every place where we depend on how kafka-python works inside.

kafka-python decodes what the members sent before it asks an assignor, so a member that sends garbage takes
the leader down; the generation being formed does not reach the assignor. An assignor is never given the
coordinator, but it is only ever called by it: `calling_coordinator` finds it in the call stack, and
`lead_with_our_assignors` replaces a few attributes of that one object.

What all versions share is in `coordinator`; what differs is in `v2` and `v3`, which have the functions of
`Interface`. The one of the two that speaks to the installed kafka-python is `interface`. The
private names that are touched are listed at the top of `coordinator`, `v2` and `v3`; those that the
cooperative consumer touches are in `v3` too.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, cast

from kafka_assignors.client_versions import installed_release, numbers_of, require_release
from kafka_assignors.group import Topic
from kafka_assignors.leader_bytes import JoinedMember, RackWatch

__all__ = [
    "CHECKED",
    "INSTALLED",
    "MODULE",
    "GroupLeader",
    "Interface",
    "LedGeneration",
    "interface",
    "module_for",
]


class LedGeneration(Protocol):
    """A generation that our consumer leads: `coordinator.Leading`."""

    generation: int
    heartbeat_pause_s: float
    metadata_timeout_s: float
    """How long a leader waits for newer metadata."""

    def read_metadata(self) -> None:
        """Take what the client knows of the topics now."""
        ...

    def think_in_background(self, then: Any) -> None:
        """Run the strategy in a thread of its own, and then, in the same thread, `then()`."""
        ...


class GroupLeader(Protocol):
    """The work of a coordinator whenever it leads its group: `coordinator.Leadership`."""

    def notice_leader(self, leader_id: str, protocol_name: str) -> None:
        """Warn, once, in a group that has no leader."""
        ...

    def begin(self, protocol_name: str, members: Any, generation: int) -> LedGeneration | None:
        """Start to lead a generation; None if the group runs it with an assignor of kafka-python."""
        ...


class Interface(Protocol):
    """The functions of `v2` and of `v3`."""

    def eager_protocols(self) -> list[Any]:
        """The result of an assignor's `supported_protocols`."""
        ...

    def is_called_by_cooperative_consumer(self) -> bool:
        """Whether the consumer that is being constructed is a `CooperativeKafkaConsumer`."""
        ...

    def rack_of_caller(self) -> str | None:
        """The rack of the consumer that is being constructed, if its client has such a setting."""
        ...

    def assignors_of(self, coordinator: Any) -> list[Any]:
        """The assignors that the coordinator chooses from."""
        ...

    def configured_names(self, coordinator: Any) -> list[str]:
        """The names of all assignors that the user has configured."""
        ...

    def joined_members(self, members: Any) -> Iterable[JoinedMember]:
        """The members as a coordinator has them, whose bytes are not decoded yet."""
        ...

    def decoded_members(self, members: Any) -> Iterable[JoinedMember]:
        """The members as `assign` of an assignor is given them."""
        ...

    def partitions_of(self, assignment: Any) -> Mapping[str, Sequence[int]]:
        """The decoded assignment of one member, by topic."""
        ...

    def assignment_of(self, assignment: bytes) -> Any:
        """The assignment of one member as `assign` of an assignor returns it."""
        ...

    def watch(self, coordinator: Any, topics: Iterable[str]) -> None:
        """Have the client fetch the metadata of these topics too."""
        ...

    def watch_only(self, coordinator: Any, topics: Iterable[str]) -> None:
        """Have the client fetch the metadata of these topics and of no others."""
        ...

    def topics_of(self, cluster: Any, watch: RackWatch, names: Iterable[str]) -> list[Topic]:
        """Those of the named topics that the client has metadata of."""
        ...

    def hold_back_answers(self, coordinator: Any, leadership: GroupLeader) -> None:
        """Have the coordinator, where it leads, get the answer to JoinGroup when the assignment is ready."""
        ...

    def keep_heartbeats(self, coordinator: Any) -> None:
        """Make a member that has joined send heartbeats."""
        ...


CHECKED = ("2.0.6", "2.1.6", "2.2.21", "2.3.3", "3.0.12")
"""The newest release of each series, oldest first."""


def module_for(installed: str) -> str:
    """The module for this release of kafka-python: "v2" or "v3".

    Raises ImportError for one that is too old. For one that may be too new there is a warning and an attempt.
    """
    oldest, newest = numbers_of(CHECKED[0]), numbers_of(CHECKED[-1])[:2]
    log = logging.getLogger("kafka_assignors_kafka_python")
    require_release("kafka-python", installed, oldest, newest, log)
    return "v2" if (2,) <= numbers_of(installed) < (3,) else "v3"


INSTALLED = installed_release("kafka-python", "kafka")
"""The distribution's own word: the oldest releases do not import on the newest Pythons."""

MODULE = module_for(INSTALLED)
interface = cast(Interface, importlib.import_module(f"kafka_assignors_kafka_python._client.{MODULE}"))
