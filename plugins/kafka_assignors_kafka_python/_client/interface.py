"""What differs between the generations of kafka-python: the functions of `v2` and `v3`, and what they use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from kafka_assignors.group import Topic
from kafka_assignors.leader_bytes import JoinedMember, RackWatch

__all__ = ["GroupLeader", "Interface", "LedGeneration"]


class LedGeneration(Protocol):
    """A generation that our consumer leads: `leading.Leading`."""

    generation: int
    heartbeat_pause_s: float
    metadata_timeout_s: float
    """How long newer metadata are waited for."""

    def read_metadata(self) -> None:
        """Take what the client knows of the topics now."""
        ...

    def think_in_background(self, then: Any) -> None:
        """Run the strategy in a thread of its own, and then, in the same thread, `then()`."""
        ...


class GroupLeader(Protocol):
    """What one coordinator does whenever it leads its group: `leading.Leadership`."""

    def notice_leader(self, leader_id: str, protocol_name: str) -> None:
        """Warn, once, in a group that has no leader."""
        ...

    def begin(self, protocol_name: str, members: Any, generation: int) -> LedGeneration | None:
        """Start to lead a generation; None if the group runs it with an assignor of kafka-python."""
        ...


class Interface(Protocol):
    """The functions of `v2` and of `v3`."""

    def eager_protocols(self) -> list[Any]:
        """What `supported_protocols` of an assignor answers."""
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

    def watch_all(self, coordinator: Any) -> None:
        """Have the client fetch the metadata of all topics of the cluster."""
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
