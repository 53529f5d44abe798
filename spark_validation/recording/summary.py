"""The content of a recording: generations by group, by protocol and by the leader's kind of client."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from kafka_assignors_replay.history.consumer_offsets import (
    ConsumerGroupKey,
    GroupMetadataKey,
    decode_group_metadata,
    decode_key,
)

__all__ = ["Summary", "summarize"]


@dataclass(frozen=True, slots=True)
class Summary:
    """Counts over a recording.

    Attributes:
        led: generations with members, by group, protocol and the client id of the leader.
        empty: records of classic groups without members, by group.
        consumer_protocol: records of KIP-848 groups, by group.
    """

    led: Counter[tuple[str, str, str]]
    empty: Counter[str]
    consumer_protocol: Counter[str]

    @property
    def generations(self) -> int:
        return self.led.total()

    @property
    def groups(self) -> int:
        return len({group for group, _, _ in self.led} | set(self.consumer_protocol))

    def by_group(self) -> Counter[str]:
        counts: Counter[str] = Counter()
        for (group, _, _), generations in self.led.items():
            counts[group] += generations
        return counts

    def by_leader(self) -> Counter[tuple[str, str]]:
        """The generations by protocol and kind of client."""
        counts: Counter[tuple[str, str]] = Counter()
        for (group, protocol, client_id), generations in self.led.items():
            counts[protocol, client_id.removesuffix(f"-{group}")] += generations
        return counts


def summarize(records: Iterable[tuple[bytes, bytes | None]]) -> Summary:
    """Count the group records with these keys and values."""
    led: Counter[tuple[str, str, str]] = Counter()
    empty: Counter[str] = Counter()
    consumer_protocol: Counter[str] = Counter()
    for key, value in records:
        decoded = decode_key(key)
        if isinstance(decoded, ConsumerGroupKey):
            consumer_protocol[decoded.group] += 1
        elif isinstance(decoded, GroupMetadataKey) and value is not None:
            metadata = decode_group_metadata(value)
            if not metadata.members:
                empty[decoded.group] += 1
                continue
            client = next((m.client_id for m in metadata.members if m.member_id == metadata.leader), "?")
            led[decoded.group, metadata.protocol or "?", client] += 1
    return Summary(led, empty, consumer_protocol)
