"""The README of a recording: how it was made, with which versions, and what it contains."""

from __future__ import annotations

import contextlib
import platform
import subprocess
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from importlib import metadata

import pyarrow as pa
from confluent_kafka import libversion

from compat_tests.support.jvm import java_home_binary, kafka_version
from kafka_assignors_replay.history.records import RecordKind, decode_record
from spark_validation.recording.groups import Group

__all__ = ["readme"]


_PACKAGES = ("aiokafka", "kafka-python", "confluent-kafka", "kafka-assignors", "pyarrow")


def readme(groups: Sequence[Group], records: pa.Table, started: datetime, minutes: float, seed: int) -> str:
    """The README as Markdown."""
    return f"""\
# A recorded history of consumer groups

Written by `make record` (`spark_validation/recording/record.py --minutes {minutes:g} --seed {seed}`) on
{started:%Y-%m-%d}, from {started:%H:%M} UTC on: {len(groups)} groups of real consumers on a cluster of
three brokers, recorded as the brokers wrote them to `__consumer_offsets`. The seed fixes what is done to
which group and in which order; what the groups make of it, their member ids and the exact times differ from
run to run.

- `raw/`: the records of the groups: partition, offset, timestamp (of the record, UTC), key, value. The
  offset commits that lay between them were left out, hence the holes in the offsets. The log cleaner was
  off, so nothing was compacted away.
- `topics.parquet`: the topics over time: topic, topic_id, from (when the broker had confirmed the change),
  partitions, replica_racks.
- `events.json`: what was done to which group and when: at_ms (milliseconds since the epoch), group, what,
  detail (client, process id and, for static members, instance id; or topic).

A member's client id is its kind (`java`, `confluent`, `aiokafka` or `kafka-python` with `-stock` or `-ours`
for whose assignors it runs), a hyphen and its group.

## Contents

{records.num_rows} records.

| group | generations | what it is |
|---|--:|---|
{_group_rows(groups, records)}

## Versions

| | |
|---|---|
{_version_rows()}
"""


def _group_rows(groups: Sequence[Group], records: pa.Table) -> str:
    decoded = [decode_record(row["key"], row["value"]) for row in records.to_pylist()]
    generations = Counter(each.group for each in decoded if each.kind is RecordKind.GENERATION)
    of_kip848 = Counter(each.group for each in decoded if each.kind is RecordKind.KIP848)
    counts = {**generations, **{group: f"({records} records)" for group, records in of_kip848.items()}}
    return "\n".join(f"| {group.name} | {counts.get(group.name, 0)} | {group.shape} |" for group in groups)


def _version_rows() -> str:
    java = subprocess.run([java_home_binary("java"), "-version"], capture_output=True, text=True, check=True)
    versions = {
        "Apache Kafka (brokers, Java client)": kafka_version(),
        "Java": java.stderr.splitlines()[0],
        "Python": platform.python_version(),
        "librdkafka": libversion()[0],
    }
    for package in _PACKAGES:
        # Some recordings lack members of some clients.
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return "\n".join(f"| {what} | {version} |" for what, version in versions.items())
