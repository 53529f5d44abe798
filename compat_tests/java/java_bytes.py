"""Bytes that Java writes and reads, and random contents for them.

A *sample* is `{"kind", "version", "fields", "hex"}`: the contents in the form of `src/JavaBytes.java`, and
Java's bytes for them. `tests/data/java_bytes.jsonl` stores some samples for the tests without a JVM.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator
from typing import Any

from compat_tests.java.oracle import LineProcess
from compat_tests.java.random_groups import ODD_LETTERS
from compat_tests.support.jvm import compile_java, java_command

KINDS: tuple[tuple[str, int], ...] = (
    *(("subscription", version) for version in range(4)),
    *(("assignment", version) for version in range(4)),
    ("sticky", 1),
    ("cooperative-sticky", 0),
    *(("record_key", record_type) for record_type in range(9)),
    ("record_key", 16),
    *(("group_metadata", version) for version in range(5)),
    *(("consumer_group", record_type) for record_type in (3, 4, 5, 6, 7, 8, 16)),
)
"""Every kind with each of its versions. For record keys and for values of consumer groups, the version is
the type of the record."""


class JavaBytesError(ValueError):
    """Java cannot write these fields, or does not accept these bytes; the message is Java's."""


class JavaBytes(LineProcess):
    """Java's codecs, as a context manager around one JVM."""

    def __init__(self) -> None:
        super().__init__(java_command("JavaBytes", classes=compile_java()))

    def write(self, kind: str, version: int, fields: dict[str, Any]) -> bytes:
        """Java's bytes for these fields."""
        return bytes.fromhex(self._ask("hex", kind=kind, version=version, fields=fields))

    def read(self, kind: str, version: int, data: bytes) -> dict[str, Any]:
        """The fields that Java reads from these bytes; only `consumer_group` needs `version`."""
        fields: dict[str, Any] = self._ask("fields", kind=kind, version=version, hex=data.hex())
        return fields

    def _ask(self, key: str, **question: object) -> Any:
        answer = self.ask(question)
        if "error" in answer:
            raise JavaBytesError(f"{question}: {answer['error']}")
        return answer[key]


def random_fields(kind: str, version: int, rng: random.Random) -> dict[str, Any]:
    """Random contents of this kind that this version can carry."""
    if kind == "subscription":
        return {
            "topics": _topics(rng),
            "user_data": _user_data(rng),
            "owned": _partitions(rng) if version >= 1 else {},
            "generation": rng.choice((-1, 0, rng.randint(1, 2**31 - 1))) if version >= 2 else -1,
            "rack": rng.choice((None, _text(rng))) if version >= 3 else None,
        }
    if kind == "assignment":
        return {"partitions": _partitions(rng), "user_data": _user_data(rng)}
    if kind == "sticky":
        return {"owned": _partitions(rng), "generation": rng.choice((-1, 0, rng.randint(1, 2**31 - 1)))}
    if kind == "cooperative-sticky":
        return {"owned": {}, "generation": rng.choice((-1, 0, rng.randint(1, 2**31 - 1)))}
    if kind == "record_key":
        return _record_key(rng, version)
    if kind == "consumer_group":
        return _consumer_group(rng, version)
    return _group_metadata(rng, version)


def _record_key(rng: random.Random, record_type: int) -> dict[str, Any]:
    if record_type in (0, 1):
        return {"group": _text(rng), "topic": _topics(rng, at_least=1)[0], "partition": rng.randint(0, 9999)}
    if record_type == 2:
        return {"group": _text(rng)}
    key = {"groupId": _text(rng)}
    if record_type in (5, 7, 8):
        key["memberId"] = _text(rng)
    if record_type == 16:
        key["regularExpression"] = _text(rng)
    return key


def _group_metadata(rng: random.Random, version: int) -> dict[str, Any]:
    empty = rng.random() < 0.2
    members = [_group_member(rng, version) for _ in range(0 if empty else rng.randint(1, 4))]
    value: dict[str, Any] = {
        "protocolType": rng.choice(("consumer", "consumer", "connect", "")),
        "generation": rng.randint(0, 2**31 - 1),
        "protocol": None if empty else rng.choice(("range", "cooperative-sticky", _text(rng))),
        "leader": None if empty else members[0]["memberId"],
    }
    if version >= 2:
        value["currentStateTimestamp"] = rng.choice((-1, rng.randint(0, 2**43)))
    return value | {"members": members}


def _group_member(rng: random.Random, version: int) -> dict[str, Any]:
    member: dict[str, Any] = {"memberId": _text(rng)}
    if version >= 3:
        member["groupInstanceId"] = rng.choice((None, _text(rng)))
    member |= {"clientId": _text(rng), "clientHost": "/127.0.0.1"}
    if version >= 1:
        member["rebalanceTimeout"] = rng.randint(0, 2**31 - 1)
    return member | {
        "sessionTimeout": rng.randint(0, 2**31 - 1),
        "subscription": base64.b64encode(rng.randbytes(rng.choice((0, 3, 40, 200)))).decode(),
        "assignment": base64.b64encode(rng.randbytes(rng.choice((0, 5, 127, 128)))).decode(),
    }


def _consumer_group(rng: random.Random, record_type: int) -> dict[str, Any]:
    """Random fields. Tagged fields with their default are left out, as in Java's JSON."""
    if record_type == 3:
        return {"epoch": rng.randint(0, 2**31 - 1)} | _tagged(rng, "metadataHash", rng.randint(-(2**63), -1))
    if record_type == 6:
        tagged = _tagged(rng, "assignmentTimestamp", rng.randint(1, 2**43))
        return {"assignmentEpoch": rng.randint(0, 2**31 - 1)} | tagged
    if record_type == 4:
        return {"topics": [_topic_metadata(rng) for _ in range(rng.randint(0, 3))]}
    if record_type == 5:
        return _consumer_group_member(rng)
    if record_type == 7:
        return {"topicPartitions": [_topic_partitions(rng) for _ in range(rng.randint(0, 4))]}
    if record_type == 8:
        return {
            "memberEpoch": rng.choice((-2, 0, rng.randint(1, 2**31 - 1))),
            "previousMemberEpoch": rng.randint(-1, 2**31 - 1),
            "state": rng.choice((0, 1, 2, 127)),
            "assignedPartitions": [_with_epochs(rng) for _ in range(rng.randint(0, 4))],
            "partitionsPendingRevocation": [_with_epochs(rng) for _ in range(rng.randint(0, 2))],
        }
    return {
        "topics": _topics(rng),
        "version": rng.randint(0, 2**63 - 1),
        "timestamp": rng.randint(0, 2**43),
    }


def _tagged(rng: random.Random, name: str, value: object) -> dict[str, Any]:
    return rng.choice(({}, {name: value}))


def _topic_metadata(rng: random.Random) -> dict[str, Any]:
    racks = [{"partition": number, "racks": _topics(rng)} for number in range(rng.randint(0, 3))]
    return {
        "topicId": _uuid(rng),
        "topicName": _topics(rng, at_least=1)[0],
        "numPartitions": rng.randint(1, 9999),
        "partitionMetadata": racks,
    }


def _consumer_group_member(rng: random.Random) -> dict[str, Any]:
    classic = {
        "sessionTimeoutMs": rng.randint(1, 2**31 - 1),
        "supportedProtocols": [
            {
                "name": _text(rng),
                "metadata": base64.b64encode(rng.randbytes(rng.choice((0, 3, 200)))).decode(),
            }
            for _ in range(rng.randint(0, 3))
        ],
    }
    return {
        "instanceId": rng.choice((None, _text(rng))),
        "rackId": rng.choice((None, _text(rng))),
        "clientId": _text(rng),
        "clientHost": "/127.0.0.1",
        "subscribedTopicNames": _topics(rng),
        "subscribedTopicRegex": rng.choice((None, "", _text(rng))),
        "rebalanceTimeoutMs": rng.randint(-1, 2**31 - 1),
        "serverAssignor": rng.choice((None, "uniform", _text(rng))),
    } | _tagged(rng, "classicMemberMetadata", rng.choice((None, classic)))


def _topic_partitions(rng: random.Random) -> dict[str, Any]:
    return {"topicId": _uuid(rng), "partitions": sorted(rng.sample(range(3000), rng.randint(0, 20)))}


def _with_epochs(rng: random.Random) -> dict[str, Any]:
    topic = _topic_partitions(rng)
    epochs = [rng.randint(0, 2**31 - 1) for _ in topic["partitions"]] or None
    return topic | _tagged(rng, "assignmentEpochs", rng.choice((None, epochs)))


def _uuid(rng: random.Random) -> str:
    return base64.urlsafe_b64encode(rng.randbytes(16)).rstrip(b"=").decode()


def _topics(rng: random.Random, at_least: int = 0) -> list[str]:
    # The only characters that Kafka allows in the name of a topic.
    letters = "abcXYZ019._-"
    made = {"".join(rng.choices(letters, k=rng.randint(1, 12))) for _ in range(rng.randint(at_least, 4))}
    return sorted(made)


def _partitions(rng: random.Random) -> dict[str, list[int]]:
    return {topic: sorted(rng.sample(range(3000), rng.randint(1, 20))) for topic in _topics(rng)}


def _user_data(rng: random.Random) -> str | None:
    return rng.choice((None, "", rng.randbytes(rng.randint(1, 30)).hex()))


def _text(rng: random.Random) -> str:
    def texts() -> Iterator[str]:
        yield "".join(rng.choices("abcdefXYZ0123456789-_", k=rng.randint(1, 40)))
        yield "".join(rng.choices(ODD_LETTERS, k=rng.randint(1, 12)))
        yield "x" * rng.choice((126, 127, 128, 300))  # The encoded length grows by a byte at 127.

    return rng.choice(list(texts()))
