"""Records what a broker writes of KIP-848 groups when something happens to them that is seldom seen:

    python -m spark_validation.recording.kip848 spark_validation/tests/data/kip848

* `moved`: a member of the new protocol joins a classic group and leaves it (online migration, both ways);
* `pods`: two static members leave, and one of them comes back; partitions are added to their topic;
* `patterns`: a member subscribes by a regular expression, and a new topic matches it;
* `again`: a group is deleted and created again.

The folder becomes a history (`raw/`, `topics.parquet`). The command takes about five minutes; times and ids
differ from run to run. The members are librdkafka's.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from compat_tests.support.kafka_cluster import KafkaCluster
from compat_tests.support.member_reports import MemberSpec
from compat_tests.support.processes import Child, Processes
from spark_validation.recording.history import CatalogueLog, read_group_records, write_history
from spark_validation.recording.play import start_member

_SESSION_S = 45
_REGEX_REFRESH_S = 10
_SETTINGS: dict[str, object] = {
    "group.consumer.session.timeout.ms": _SESSION_S * 1000,
    "group.consumer.regex.refresh.interval.ms": _REGEX_REFRESH_S * 1000,
    "group.consumer.min.regex.refresh.interval.ms": _REGEX_REFRESH_S * 1000,
}
_STEP_S = 16.0
"""In which a group settles."""


def record(folder: Path) -> None:
    """Play all scenes on our own broker, and write its records to `folder`, which must not exist."""
    folder.mkdir(parents=True)
    with KafkaCluster(brokers=1, settings=_SETTINGS) as kafka, Processes() as processes:
        logs = Path(tempfile.mkdtemp(prefix="members-"))
        processes.own_folder(logs)
        catalogue = CatalogueLog(kafka)
        running: dict[str, Child] = {}

        def join(name: str, topic: str, assignors: Sequence[str] = (), instance: str | None = None) -> None:
            """Add a member to the group that its name begins with."""
            spec = MemberSpec(
                name=f"confluent-{name}",
                bootstrap=kafka.bootstrap,
                group=name.partition("-")[0],
                topics=[topic],
                assignors=assignors,
                instance_id=instance,
                session_timeout_ms=_SESSION_S * 1000,
            )
            running[name] = start_member(processes, "confluent", spec, logs / f"{name}.log")
            time.sleep(_STEP_S)

        def leave(name: str) -> None:
            """Close a member; a static member announces that it will be back."""
            processes.stop(running.pop(name))
            time.sleep(_STEP_S)

        for topic, partitions in (("orders", 6), ("payments", 3), ("refunds", 2)):
            kafka.create_topic(topic, partitions)
        catalogue.note(["orders", "payments", "refunds"])

        join("moved-1", "orders", ["range"])
        join("moved-2", "orders", ["range"])
        join("moved-3", "orders")
        leave("moved-3")
        leave("moved-1")
        leave("moved-2")

        join("pods-0", "refunds", instance="pod-0")
        join("pods-1", "refunds", instance="pod-1")
        leave("pods-0")
        join("pods-0b", "refunds", instance="pod-0")
        kafka.add_partitions("refunds", 5)
        catalogue.note(["refunds"])
        time.sleep(_STEP_S)
        leave("pods-1")
        time.sleep(_SESSION_S + _STEP_S)

        join("patterns-1", "^pay.*")
        kafka.create_topic("paybacks", 2)
        catalogue.note(["paybacks"])
        time.sleep(_REGEX_REFRESH_S + _STEP_S)

        join("again-1", "orders")
        join("again-2", "orders")
        leave("again-1")
        leave("again-2")
        kafka.delete_group("again")
        join("again-3", "orders")

        for member in running.values():
            processes.stop(member)
        write_history(folder, read_group_records(kafka.bootstrap), catalogue)


if __name__ == "__main__":
    record(Path(sys.argv[1]))
