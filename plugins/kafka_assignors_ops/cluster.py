"""Requests to a cluster: list, describe and delete groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from kafka_assignors_confluent.connection import Connection, NotAuthorizedError, is_timeout, reason
from kafka_assignors_confluent.topics import describe_topics, topic_of
from kafka_assignors_ops.describe import describe_groups, state_name, type_name
from kafka_assignors_ops.live_group import LiveGroup, Offsets

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

Progress = Callable[[str, int, int], None]
"""Called with the task, how many items are done, and how many there are."""

_T = TypeVar("_T")

_GROUPS_AT_ONCE = 100
_PARTITIONS_AT_ONCE = 5000


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group in a listing; `group_type` and `state` are those of `LiveGroup`."""

    id: str
    group_type: str
    state: str


@dataclass(frozen=True, slots=True)
class Listing:
    """The consumer groups that this principal may see, sorted by id; `problems` says what may be missing."""

    groups: tuple[GroupListing, ...]
    problems: tuple[str, ...] = ()


class Cluster:
    """A connection to a running cluster. No method waits much longer than `timeout_s` for a single request.

    Args:
        servers: `host:port` of the bootstrap brokers, separated by commas.
        config: librdkafka's properties, such as `security.protocol`; secrets among them are never shown.

    `ConfigurationError` for a property that librdkafka refuses. All methods raise `UnreachableError` if no
    broker answers in time, and `AuthenticationError` for a refused password or certificate.
    """

    def __init__(
        self, servers: str, config: Mapping[str, str] | None = None, *, timeout_s: float = 10.0
    ) -> None:
        self._connection = Connection(servers, dict(config or {}), timeout_s)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        # The client is closed with its last reference.
        del self._connection

    def list_groups(self) -> Listing:
        """All consumer groups. `ClusterError` if no broker lists its groups."""
        connection = self._ready()
        future = connection.admin.list_consumer_groups(request_timeout=connection.timeout_s)
        result = connection.gather({"groups": future})["groups"]
        if not hasattr(result, "valid"):
            raise connection.failure("cannot list groups", result)
        errors = [_kafka_error(error) for error in result.errors or ()]
        groups = sorted(
            (GroupListing(one.group_id, type_name(one), state_name(one)) for one in result.valid or ()),
            key=lambda group: group.id,
        )
        if errors and not groups:
            raise connection.failure("cannot list groups", errors[0])
        problems = {f"not all groups are listed: {reason(error)}" for error in errors}
        if not self._may_list_all():
            # A broker leaves out groups that a principal may not describe, without an error.
            if not groups:
                raise NotAuthorizedError(
                    "no groups are listed, and this principal may not describe the cluster: "
                    "it needs Describe on Cluster 'kafka-cluster' for all groups, or on Group for some"
                )
            problems.add(
                "groups that this principal may not describe are not listed: Describe on Cluster "
                "'kafka-cluster' shows all"
            )
        return Listing(tuple(groups), tuple(map(connection.without_secrets, sorted(problems))))

    def read_groups(
        self,
        ids: Iterable[str],
        *,
        topics: bool = True,
        offsets: bool = True,
        skip_hidden: bool = False,
        on_progress: Progress | None = None,
    ) -> tuple[LiveGroup, ...]:
        """The current state of these groups, in the order given; a group that does not exist is `Dead`.

        `topics` and `offsets` say whether to read these too. `problems`, `hidden_topics` and `unknown_topics`
        of a group name the parts that cannot be read; `error` says why it cannot be described at all. A group
        that this principal may not describe is left out if `skip_hidden`.
        """
        progress = on_progress or (lambda *_: None)
        connection = self._ready()
        wanted = list(dict.fromkeys(ids))
        groups: list[LiveGroup] = []
        for batch in _batches(wanted, _GROUPS_AT_ONCE):
            progress("reading groups", len(groups), len(wanted))
            groups += describe_groups(connection, batch, skip_hidden=skip_hidden)
        if topics:
            groups = self._with_topics(groups, progress)
        if offsets:
            groups = self._with_offsets(groups, progress)
        return tuple(groups)

    def delete_groups(self, ids: Iterable[str]) -> dict[str, str | None]:
        """Delete groups. The result has None for a deleted group, else the reason: it has members, …"""
        wanted = list(dict.fromkeys(ids))
        connection = self._ready()
        outcome: dict[str, str | None] = {}
        for batch in _batches(wanted, _GROUPS_AT_ONCE):
            futures = connection.admin.delete_consumer_groups(batch, request_timeout=connection.timeout_s)
            for group, error in connection.gather(futures).items():
                right = f"Delete on Group {group!r}"
                outcome[group] = None if error is None else connection.explained(error, right)
        return outcome

    def _may_list_all(self) -> bool:
        """Whether a listing leaves no group out; False for a broker before Kafka 2.3, which does not tell."""
        from confluent_kafka.admin import AclOperation  # pyright: ignore[reportPrivateImportUsage]

        connection = self._connection
        future = connection.admin.describe_cluster(
            include_authorized_operations=True, request_timeout=connection.timeout_s
        )
        operations = connection.result("cannot describe the cluster", future).authorized_operations
        return operations is not None and AclOperation.DESCRIBE in operations

    def _ready(self) -> Connection:
        """The connection for the next task; a new one if the last task got no answer.

        A client that has lost its brokers may back off for longer than `timeout_s`, and would not notice that
        they are back.
        """
        if self._connection.unanswered:
            lost = self._connection
            self._connection = Connection(lost.servers, lost.config, lost.timeout_s)
        self._connection.forget_complaints()
        return self._connection

    # ---- topics

    def _with_topics(self, groups: Sequence[LiveGroup], progress: Progress) -> list[LiveGroup]:
        names = sorted(set().union(*(group.subscribed for group in groups)))
        described = describe_topics(self._connection, names, partial(progress, "reading topics"))
        topics = {name: topic_of(name, found) for name, found in described.found.items()}
        return [
            replace(
                group,
                topics={name: topics[name] for name in group.subscribed if name in topics},
                hidden_topics=frozenset(group.subscribed & described.hidden),
                unknown_topics={
                    name: described.refused[name]
                    for name in sorted(group.subscribed & described.refused.keys())
                },
            )
            for group in groups
        ]

    # ---- offsets

    def _with_offsets(self, groups: Sequence[LiveGroup], progress: Progress) -> list[LiveGroup]:
        committed: dict[str, Offsets | str] = {}
        for batch in _batches([group.id for group in groups if group.error is None], _GROUPS_AT_ONCE):
            progress("reading committed offsets", len(committed), len(groups))
            committed |= self._committed(batch)
        wanted: dict[str, set[int]] = {}
        for offsets in committed.values():
            for topic, partitions in offsets.items() if not isinstance(offsets, str) else ():
                wanted.setdefault(topic, set()).update(partitions)
        ends = self._ends(wanted, progress)
        found = []
        for group in groups:
            if group.error is not None:
                found.append(group)
                continue
            offsets = committed[group.id]
            if isinstance(offsets, str):
                problem = f"committed offsets are not shown: {offsets}"
                found.append(replace(group, problems=(*group.problems, problem)))
                continue
            own_ends: Offsets = {
                topic: {
                    number: end
                    for number in partitions
                    if (end := ends.get(topic, {}).get(number)) is not None
                }
                for topic, partitions in offsets.items()
            }
            found.append(replace(group, committed=offsets, ends=own_ends))
        return found

    def _committed(self, groups: Sequence[str]) -> dict[str, Offsets | str]:
        """The committed offsets of each group, or the reason why they are not shown."""
        from confluent_kafka import ConsumerGroupTopicPartitions

        connection = self._connection
        found: dict[str, Offsets | str] = {}
        # The client needs one request for each group; all are sent at the same time.
        futures: dict[str, Any] = {}
        for group in groups:
            if not group:
                found[group] = "the admin client refuses an empty group id"
                continue
            futures |= connection.admin.list_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(group)], request_timeout=connection.timeout_s
            )
        results = connection.gather(futures)
        for group, result in results.items():
            if not hasattr(result, "topic_partitions"):
                if all(is_timeout(one) for one in results.values()):
                    raise connection.failure(f"cannot read the offsets of group {group!r}", result)
                found[group] = reason(result)
                continue
            offsets: dict[str, dict[int, int]] = {}
            for one in result.topic_partitions or ():
                if one.offset >= 0 and one.error is None:
                    offsets.setdefault(one.topic, {})[one.partition] = one.offset
            found[group] = offsets
        return found

    def _ends(self, wanted: Mapping[str, Iterable[int]], progress: Progress) -> dict[str, dict[int, int]]:
        """The end offset of each partition that has one."""
        from confluent_kafka import IsolationLevel, TopicPartition
        from confluent_kafka.admin import OffsetSpec  # pyright: ignore[reportPrivateImportUsage]

        connection = self._connection
        partitions = [(topic, number) for topic, numbers in wanted.items() for number in numbers]
        ends: dict[str, dict[int, int]] = {}
        done = 0
        for batch in _batches(partitions, _PARTITIONS_AT_ONCE):
            progress("reading end offsets", done, len(partitions))
            futures = connection.admin.list_offsets(
                {TopicPartition(*one): OffsetSpec.latest() for one in batch},  # type: ignore[no-untyped-call]
                isolation_level=IsolationLevel.READ_UNCOMMITTED,
                request_timeout=connection.timeout_s,
            )
            for asked, result in connection.gather(futures).items():
                # The client answers with a negative offset for a partition whose leader has just gone.
                if hasattr(result, "offset") and result.offset >= 0:
                    ends.setdefault(asked.topic, {})[asked.partition] = result.offset
            done += len(batch)
        return ends


def _kafka_error(error: Any) -> KafkaError:
    found: KafkaError = error.args[0] if isinstance(error, Exception) else error
    return found


def _batches(items: Sequence[_T], size: int) -> Iterator[list[_T]]:
    return (list(items[start : start + size]) for start in range(0, len(items), size))
