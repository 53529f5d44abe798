"""The peers: a client and a way of rebalancing, and the command of one member."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.pause.members.spec import MemberSpec
from compat_tests.support.jvm import compile_java, java_command

__all__ = ["PEERS", "Peer"]


@dataclass(frozen=True, slots=True)
class Peer:
    """One line of the tables.

    Attributes:
        client: `aiokafka`, `kafka_python`, `confluent` or `java`; names the program of the members.
        protocol: the program's name for the way of rebalancing.
        label: the name in the tables.
    """

    client: str
    protocol: str
    label: str

    def command(self, spec: MemberSpec) -> list[str]:
        """The command of a member."""
        if self.client == "java":
            return java_command("PauseMember", spec.to_json(), heap="96m", classes=compile_java())
        return [sys.executable, "-m", f"benchmarks.pause.members.{self.client}_member", spec.to_json()]


PEERS: Mapping[str, Peer] = {
    "aiokafka-ours": Peer("aiokafka", "ours", "aiokafka, **ours**"),
    "aiokafka-range": Peer("aiokafka", "range", "aiokafka range"),
    "aiokafka-sticky": Peer("aiokafka", "sticky", "aiokafka sticky"),
    "kafka-python-ours": Peer("kafka_python", "ours", "kafka-python, **ours**"),
    "kafka-python-sticky": Peer("kafka_python", "sticky", "kafka-python sticky"),
    "kafka-python-cooperative": Peer("kafka_python", "cooperative", "kafka-python cooperative"),
    "confluent-cooperative": Peer("confluent", "cooperative", "confluent cooperative"),
    "confluent-kip848": Peer("confluent", "kip848", "confluent KIP-848"),
    "java-cooperative": Peer("java", "cooperative", "Java cooperative"),
}
