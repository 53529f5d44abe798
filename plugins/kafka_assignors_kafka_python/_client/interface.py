"""What a generation of kafka-python's interfaces has to be translated into."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from kafka_assignors.group import Topic
from kafka_assignors.joining import JoinedMember

__all__ = ["Interface"]


class Interface(Protocol):
    """The functions of `v2` and of `v3`."""

    def eager_protocols(self) -> list[Any]:
        """What `supported_protocols` of an assignor answers."""
        ...

    def joined_members(self, members: Any) -> Iterable[JoinedMember]:
        """The members as a coordinator has them, whose bytes nobody has decoded yet."""
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

    def topics_of(self, cluster: Any, names: Iterable[str]) -> list[Topic]:
        """Those of the named topics that the client has metadata of."""
        ...
