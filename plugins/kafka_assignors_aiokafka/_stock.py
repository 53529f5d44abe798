"""An assignor in AIOKafkaConsumer: it reads the call that it runs in, and replaces or changes nothing.

aiokafka decodes the members' subscriptions as version 0 of the protocol before it calls an assignor, so owned
partitions, generation and rack are lost. A leader that assigned from the rest would give partitions that a
cooperative member still holds to another member: two owners. aiokafka also tells no assignor which consumer
calls it, nor the generation. The functions of aiokafka that call an assignor have all of it:

    function                                        calls           what is read of its arguments
    CoordinatorGroupRebalance.perform_group_join    metadata        self._coordinator
    GroupCoordinator._perform_assignment            assign          response.members, .generation_id
    GroupCoordinator._on_join_complete              on_assignment   self, generation

A member in the response is (id, metadata), or (id, instance id, metadata). Of the coordinator the assignors
read what `_TOUCHED_OF_COORDINATOR` lists.

Whether a release has these functions and arguments is checked on their code, before a consumer joins. Checked
with aiokafka 0.10.0, 0.11.0, 0.12.0, 0.13.0 and 0.14.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from aiokafka.cluster import ClusterMetadata
from aiokafka.consumer.group_coordinator import CoordinatorGroupRebalance, GroupCoordinator

from kafka_assignors.assignor import CLASS_GIVEN, Assignor, require_eager, require_unique_names
from kafka_assignors.group import NO_GENERATION, Topic
from kafka_assignors.installed_client import code_of, installed_release, require_attributes, variables_of
from kafka_assignors.leader import InvalidAssignmentError
from kafka_assignors.messages import JoinedMember, topics_from

_OURS = "CooperativeAIOKafkaConsumer"

_TOUCHED_OF_COORDINATOR = (
    "_assignors",  # what the user configured
    "_group_instance_id",
    "_cluster.brokers",  # nodeId, rack
    "_cluster._partitions",  # {topic: {partition: PartitionMetadata}}
)


class _Function(NamedTuple):
    """A function of aiokafka that calls an assignor, the arguments that are read, and an attribute of one."""

    of: type
    name: str
    arguments: Iterable[str]
    attribute: str | None = None

    def unreadable(self) -> str | None:
        """What is missing; None if all is there."""
        code, name = code_of(self.of, self.name), f"{self.of.__name__}.{self.name}"
        if code is None:
            return f"it has no function {name}"
        for argument in self.arguments:
            if argument not in code.co_varnames[: code.co_argcount]:
                return f"its {name} has no argument {argument!r}"
        if self.attribute is not None and self.attribute not in code.co_names:
            return f"its {name} does not use {self.attribute!r}"
        return None

    def running(self) -> Mapping[str, Any] | None:
        """The variables of the nearest running call; None if there is none."""
        return variables_of(code_of(self.of, self.name))


_JOINS = _Function(CoordinatorGroupRebalance, "perform_group_join", ["self"], "_coordinator")
_ASSIGNS = _Function(GroupCoordinator, "_perform_assignment", ["response"], "members")
_IS_ASSIGNED = _Function(GroupCoordinator, "_on_join_complete", ["self", "generation"])


def members_unreadable() -> str | None:
    """Why the members' bytes cannot be read in the installed aiokafka; None if they can."""
    return _ASSIGNS.unreadable()


def members_to_assign() -> tuple[list[JoinedMember], int | None]:
    """The members with the bytes that they joined with, and the generation that is being formed.

    RuntimeError outside of a running call: what aiokafka has decoded must not take the place of the bytes.
    """
    call = _ASSIGNS.running()
    if call is None:
        raise RuntimeError(
            "an assignor of kafka_assignors_aiokafka assigns inside a running AIOKafkaConsumer only: "
            "outside of one, call assign of its strategy"
        )
    response = call["response"]
    members = [
        JoinedMember(member[0], member[1] if len(member) == 3 else None, member[-1])
        for member in response.members
    ]
    return members, getattr(response, "generation_id", None)


def joining_coordinator() -> Any:
    """The coordinator of the consumer that joins; None where it cannot be read.

    RuntimeError for a release of aiokafka that lacks an attribute in the list above.
    """
    call = None if _consumer_unreadable() else _JOINS.running()
    if call is None:
        return None
    coordinator = call["self"]._coordinator
    require_attributes("kafka_assignors_aiokafka", "aiokafka", (coordinator, _TOUCHED_OF_COORDINATOR))
    return coordinator


def assigned_coordinator() -> tuple[Any, int]:
    """The coordinator of the consumer that is assigned, and its generation.

    None and -1 where they cannot be read.
    """
    call = None if _consumer_unreadable() else _IS_ASSIGNED.running()
    return (None, NO_GENERATION) if call is None else (call["self"], call["generation"])


def _consumer_unreadable() -> str | None:
    # Both or neither: an assignor finds what it remembers in one call by the coordinator of the other.
    return _JOINS.unreadable() or _IS_ASSIGNED.unreadable()


# ---- what aiokafka asks of an assignor


def metadata(one: Assignor, topics: Iterable[str]) -> bytes:
    """What the calling consumer joins with; an error for assignors that AIOKafkaConsumer cannot run."""
    coordinator = joining_coordinator()
    _require_stock([one] if coordinator is None else coordinator._assignors)
    instance_id = None if coordinator is None else coordinator._group_instance_id
    return one.subscription_of(coordinator or one, topics, instance_id)


def assign(one: Assignor, cluster: ClusterMetadata) -> Mapping[str, bytes]:
    """The bytes of every member's assignment, from the bytes that the members joined with.

    What aiokafka has decoded of these lacks what members hold, racks and instance ids.
    """
    joined, generation = members_to_assign()
    decoded = one.read_members(joined)
    try:
        topics = topics_of(cluster, decoded.topics)
        return one.encode_assignments(decoded, topics, generation).assignments
    except InvalidAssignmentError:
        raise
    except Exception:
        # aiokafka turns it into a KafkaError without a cause and a traceback.
        one.log.exception("strategy %r failed", one.name)
        raise


def topics_of(cluster: ClusterMetadata, names: Iterable[str]) -> list[Topic]:
    """The named topics, without those that aiokafka has no metadata of."""
    racks = {broker.nodeId: broker.rack for broker in cluster.brokers() if broker.rack}
    return topics_from(cluster._partitions, racks, attrgetter("replicas"), names)


def _require_stock(assignors: Sequence[Any]) -> None:
    """TypeError, ValueError or RuntimeError for assignors that AIOKafkaConsumer cannot run."""
    require_unique_names(one.name for one in assignors)
    require_eager(assignors, _OURS)
    if any(isinstance(one, type) and issubclass(one, Assignor) for one in assignors):
        raise TypeError(CLASS_GIVEN)
    if missing := members_unreadable():
        raise RuntimeError(
            "the leader must know the bytes that members join with, and aiokafka "
            f"{installed_release('aiokafka', 'aiokafka')} does not let an assignor read them: {missing}. "
            f"Use {_OURS}, or install a release that assignors work with, "
            "pip install 'kafka-assignors[aiokafka]'"
        )
