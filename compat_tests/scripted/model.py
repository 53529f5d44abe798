"""A model of a group with one real member (generations, assignments, offsets); other members are scripted."""

from __future__ import annotations

import asyncio
import functools
import struct
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafka.protocol import consumer, metadata
from kafka.record.memory_records import MemoryRecordsBuilder

from compat_tests.support.hang_limit import HANG_S, hang_limit
from kafka_assignors.group import by_topic
from kafka_assignors.wire import ConsumerAssignment, decode_assignment, encode_assignment
from kafka_assignors.wire.warm_sections import Unit, WarmList, warm_list_bytes

if TYPE_CHECKING:
    from compat_tests.scripted.broker import Answer, Request

NODE_ID = 0
LATEST_OFFSET = 1_000_000
"""The end of each partition; every earlier offset has a record."""

ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS, MEMBER_ID_REQUIRED = 22, 25, 27, 79
_PEER = "peer"
_EARLIEST = -2

Partition = tuple[str, int]


@dataclass(slots=True)
class _Rule:
    api: str
    answer: Answer
    times: float
    when: Callable[[Request], bool]


@dataclass
class Group:
    """One group, and the cluster that its consumer sees.

    Attributes:
        peer_leads: whether a scripted member leads. It assigns `assigned`, or all partitions if that is None.
        others: the metadata with which the other members joined, by member id, if the consumer leads.
        fetch_wait_s: how long a fetch takes.
        nodes: how many nodes lead the partitions, in turn. All have the address of this broker.
        coordinator: the node that coordinates the group.
        leader_epoch: the leader epoch of every partition in the metadata.
        recreated: how often the topics were deleted and created again.
        to_warm: the units that a peer that leads lists for the consumer; None if it knows no warm handoff.
        requests: all requests of the consumer, in order.
    """

    id: str
    topics: dict[str, int]
    loop: asyncio.AbstractEventLoop
    peer_leads: bool = False
    assigned: Iterable[Partition] | None = None
    others: Mapping[str, bytes] = field(default_factory=dict)
    fetch_wait_s: float = 0.05
    nodes: int = 1
    coordinator: int = NODE_ID
    leader_epoch: int = 0
    recreated: int = 0
    to_warm: Sequence[Unit] | None = None
    generation: int = 0
    member_id: str = ""
    """The id of the real member; empty if it has not joined."""
    rebalancing: bool = False
    """Whether heartbeats get REBALANCE_IN_PROGRESS."""
    syncing: bool = False
    """Whether the generation has members but no assignment yet."""
    committed: dict[Partition, int] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    _rules: list[_Rule] = field(default_factory=list)
    _waiting: list[tuple[Callable[[], Any], asyncio.Future[None]]] = field(default_factory=list)
    _promised: str = ""
    _members_so_far: int = 0

    @property
    def has_member(self) -> bool:
        """Whether the consumer is a member, or has been given a member id to join with."""
        return bool(self.member_id or self._promised)

    # ---- what a scene does

    def answer(
        self,
        api: str,
        answer: Answer,
        *,
        times: float = 1,
        when: Callable[[Request], bool] = lambda _: True,
    ) -> None:
        """Replace the response to the next `times` requests of this API for which `when` is true."""
        self._rules.append(_Rule(api, answer, times, when))

    def begin_rebalance(self) -> None:
        """Act as if another member joined: the consumer has to rejoin."""
        self.rebalancing = True

    def remove_member(self) -> None:
        """End the consumer's session."""
        self.member_id, self.generation = "", self.generation + 1

    def sent(self, api: str, *, since: int = 0) -> list[Request]:
        """The requests of this API, from the `since`-th of all requests on."""
        return [request for request in self.requests[since:] if request.api == api]

    def fetched_from(self, partition: int) -> list[int]:
        """The offsets at which this partition of a topic was fetched."""
        topics = (topic for request in self.sent("Fetch") for topic in request.body.topics)
        return [
            one.fetch_offset for topic in topics for one in topic.partitions if one.partition == partition
        ]

    async def until(self, condition: Callable[[], Any], limit_s: float = HANG_S) -> None:
        """Wait until the condition is true; it is checked at each request and each response."""
        if condition():
            return
        future: asyncio.Future[None] = self.loop.create_future()
        self._waiting.append((condition, future))
        async with hang_limit(limit_s):
            await future

    def wait_until(self, condition: Callable[[], Any], limit_s: float = HANG_S) -> None:
        """As `until`, from another thread than the broker's."""
        asyncio.run_coroutine_threadsafe(self.until(condition, limit_s), self.loop).result()

    # ---- what the broker does

    def scripted(self, request: Request) -> Answer | None:
        """The scripted answer to this request, if there is one."""
        for rule in self._rules:
            if rule.api == request.api and rule.when(request):
                rule.times -= 1
                if rule.times <= 0:
                    self._rules.remove(rule)
                return rule.answer
        return None

    def record(self, request: Request) -> None:
        self.requests.append(request)
        self.changed()

    def changed(self) -> None:
        """Check the conditions of all waiting calls."""
        for waiting in list(self._waiting):
            condition, future = waiting
            if future.done() or condition():
                self._waiting.remove(waiting)
                if not future.done():
                    future.set_result(None)

    async def answered(self, request: Request, port: int) -> Mapping[str, Any]:
        """The usual response; the request takes effect."""
        if request.api == "Fetch":
            await asyncio.sleep(self.fetch_wait_s)
        return self._values(request, port, 0, False)

    def refused(self, request: Request, error_code: int, in_partitions: bool) -> Mapping[str, Any]:
        """The response with an error; the request has no effect."""
        return self._values(request, 0, error_code, in_partitions)

    def _values(self, request: Request, port: int, code: int, in_partitions: bool) -> Mapping[str, Any]:
        """The fields that differ from the schema's defaults."""
        body = request.body
        match request.api:
            case "FindCoordinator":
                if code:
                    return {"error_code": code, "node_id": -1, "port": -1}
                return {"error_code": 0, "node_id": self.coordinator, "host": "127.0.0.1", "port": port}
            case "JoinGroup":
                return self._join(request, code)
            case "SyncGroup":
                return self._sync(body, code)
            case "Heartbeat":
                return {"error_code": code or self._refusal(body, rebalancing=self.rebalancing)}
            case "LeaveGroup":
                return self._leave(request, code)
            case "OffsetCommit":
                return self._commit(body, code)
            case "OffsetFetch":
                return self._offsets(body, code, in_partitions)
            case "ListOffsets":
                return self._list_offsets(body, code)
            case "OffsetForLeaderEpoch":
                return self._leader_epochs(body, code)
            case "Fetch":
                return self._fetch(body, code)
            case "Metadata":
                return self._metadata(body, port, code)
        raise LookupError(f"this broker does not answer {request.api}")

    # ---- membership

    def _refusal(self, body: Any, *, rebalancing: bool) -> int:
        if body.member_id != self.member_id or not self.member_id:
            return UNKNOWN_MEMBER_ID
        if _generation(body) != self.generation:
            return ILLEGAL_GENERATION
        return REBALANCE_IN_PROGRESS if rebalancing else 0

    def _join(self, request: Request, code: int) -> Mapping[str, Any]:
        body = request.body
        member_id = body.member_id
        instance_id = getattr(body, "group_instance_id", None)
        if code == MEMBER_ID_REQUIRED:
            # A coordinator that gives an id to a member with an id does not know that member.
            self.member_id, self._promised = "", self._new_id()
            member_id = self._promised
        elif not code and not member_id and request.version >= 4 and instance_id is None:
            code, member_id = MEMBER_ID_REQUIRED, self._new_id()
            self._promised = member_id
        elif not code and not member_id:
            member_id = self._new_id()
        elif not code and member_id not in (self.member_id, self._promised):
            code = UNKNOWN_MEMBER_ID
        members: list[Any] = []
        if not code:
            self.member_id, self._promised = member_id, ""
            self.generation += 1
            self.rebalancing, self.syncing = False, True
            if not self.peer_leads:
                of_member = consumer.JoinGroupResponse.JoinGroupResponseMember
                data = body.protocols[0].metadata
                members = [of_member(member_id=member_id, group_instance_id=instance_id, metadata=data)]
                members += [
                    of_member(member_id=other, metadata=metadata) for other, metadata in self.others.items()
                ]
        return {
            "error_code": code,
            "generation_id": -1 if code else self.generation,
            "protocol_name": "" if code else body.protocols[0].name,
            "leader": "" if code else _PEER if self.peer_leads else member_id,
            "member_id": member_id,
            "members": members,
        }

    def _new_id(self) -> str:
        self._members_so_far += 1
        return f"{self.id}-{self._members_so_far}"

    def _sync(self, body: Any, code: int) -> Mapping[str, Any]:
        code = code or self._refusal(body, rebalancing=self.rebalancing)
        assignment = b""
        if not code:
            self.syncing = False
            for one in body.assignments:
                if one.member_id == self.member_id:
                    assignment = bytes(one.assignment)
            if self.peer_leads:
                assignment = self._of_peer()
            else:
                decoded = decode_assignment(assignment).partitions
                self.assigned = [(topic, number) for topic, numbers in decoded.items() for number in numbers]
        return {"error_code": code, "assignment": assignment}

    def _of_peer(self) -> bytes:
        given = self.assigned
        if given is None:
            given = [(topic, number) for topic, count in self.topics.items() for number in range(count)]
        user_data = b"" if self.to_warm is None else warm_list_bytes(WarmList(1, (*self.to_warm,)))
        return encode_assignment(ConsumerAssignment(0, by_topic(given), user_data))

    def _leave(self, request: Request, code: int) -> Mapping[str, Any]:
        body = request.body
        leaving = [one.member_id for one in body.members] if request.version >= 3 else [body.member_id]
        if not code:
            is_member = bool({self.member_id, self._promised} & {*leaving})
            code = 0 if is_member else UNKNOWN_MEMBER_ID
        if not code:
            self.member_id, self._promised, self.generation = "", "", self.generation + 1
        of_member = consumer.LeaveGroupResponse.MemberResponse
        members = [of_member(member_id=one, error_code=code) for one in leaving]
        top = 0 if code == UNKNOWN_MEMBER_ID and request.version >= 3 else code
        return {"error_code": top, "members": members if not top else []}

    # ---- offsets and records

    def _commit(self, body: Any, code: int) -> Mapping[str, Any]:
        code = code or self._refusal(body, rebalancing=self.syncing)

        def commit(topic: str, one: Any) -> Mapping[str, Any]:
            if not code:
                self.committed[topic, one.partition_index] = one.committed_offset
            return {"partition_index": one.partition_index, "error_code": code}

        of_topic = consumer.OffsetCommitResponse.OffsetCommitResponseTopic
        return {"topics": _topics(body, of_topic, of_topic.OffsetCommitResponsePartition, commit)}

    def _offsets(self, body: Any, code: int, in_partitions: bool) -> Mapping[str, Any]:
        if code and not in_partitions:
            return {"error_code": code}

        def offset(topic: str, number: int) -> Mapping[str, Any]:
            found = -1 if code else self.committed.get((topic, number), -1)
            return {"partition_index": number, "committed_offset": found, "error_code": code}

        of_topic = consumer.OffsetFetchResponse.OffsetFetchResponseTopic
        return {"topics": _topics(body, of_topic, of_topic.OffsetFetchResponsePartition, offset)}

    def _list_offsets(self, body: Any, code: int) -> Mapping[str, Any]:
        def offset(_: str, one: Any) -> Mapping[str, Any]:
            found = -1 if code else 0 if one.timestamp == _EARLIEST else LATEST_OFFSET
            return {"partition_index": one.partition_index, "error_code": code, "offset": found}

        of_topic = consumer.ListOffsetsResponse.ListOffsetsTopicResponse
        return {"topics": _topics(body, of_topic, of_topic.ListOffsetsPartitionResponse, offset)}

    def _leader_epochs(self, body: Any, code: int) -> Mapping[str, Any]:
        def end(_: str, one: Any) -> Mapping[str, Any]:
            found = {"leader_epoch": 0, "end_offset": LATEST_OFFSET}
            return {"error_code": code, "partition": one.partition, **found}

        of_topic = consumer.OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
        return {"topics": _topics(body, of_topic, of_topic.EpochEndOffset, end)}

    def _fetch(self, body: Any, code: int) -> Mapping[str, Any]:
        def record(_: str, one: Any) -> Mapping[str, Any]:
            return {
                "partition_index": one.partition,
                "error_code": code,
                "high_watermark": LATEST_OFFSET,
                "last_stable_offset": LATEST_OFFSET,
                "log_start_offset": 0,
                "records": b"" if code else _record_at(one.fetch_offset),
            }

        of_topic = consumer.FetchResponse.FetchableTopicResponse
        return {"responses": _topics(body, of_topic, of_topic.PartitionData, record)}

    # ---- topics

    def _metadata(self, body: Any, port: int, code: int) -> Mapping[str, Any]:
        response = metadata.MetadataResponse
        of_topic = response.MetadataResponseTopic
        names = self.topics if body.topics is None else [topic.name for topic in body.topics]
        topics = []
        for name in names:
            wrong = code or (0 if name in self.topics else 3)
            partitions = [
                of_topic.MetadataResponsePartition(
                    error_code=0,
                    partition_index=number,
                    leader_id=NODE_ID + number % self.nodes,
                    leader_epoch=self.leader_epoch,
                    replica_nodes=[NODE_ID + number % self.nodes],
                    isr_nodes=[NODE_ID + number % self.nodes],
                )
                for number in range(0 if wrong else self.topics[name])
            ]
            topic_id = uuid.uuid5(uuid.NAMESPACE_OID, f"{name} {self.recreated}")
            topics.append(of_topic(error_code=wrong, name=name, topic_id=topic_id, partitions=partitions))
        nodes = [
            response.MetadataResponseBroker(node_id=NODE_ID + one, host="127.0.0.1", port=port)
            for one in range(self.nodes)
        ]
        return {"brokers": nodes if port else [], "controller_id": NODE_ID, "topics": topics}


def _topics(
    body: Any, of_topic: Any, of_partition: Any, answer: Callable[[str, Any], Mapping[str, Any]]
) -> list[Any]:
    """For each partition in a request, the fields that `answer` gives for the topic and what was asked."""
    topics = []
    for topic in body.topics or ():
        named = "topic" if hasattr(topic, "topic") else "name"
        name = getattr(topic, named)
        asked = topic.partitions if hasattr(topic, "partitions") else topic.partition_indexes
        topics.append(
            of_topic(**{named: name, "partitions": [of_partition(**answer(name, one)) for one in asked]})
        )
    return topics


def _generation(body: Any) -> int:
    of_commit = "generation_id_or_member_epoch"
    return int(getattr(body, of_commit if hasattr(body, of_commit) else "generation_id"))


@functools.cache
def _a_record() -> bytes:
    builder = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=1 << 16)
    builder.append(timestamp=0, key=None, value=b"record")
    builder.close()
    return bytes(builder.buffer())


def _record_at(offset: int) -> bytes:
    # The checksum does not cover the base offset and the leader epoch, which is 0.
    return struct.pack(">q", offset) + _a_record()[8:12] + bytes(4) + _a_record()[16:]
