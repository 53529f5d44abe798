"""The README of a recording: how it was made, with which versions, and what it contains."""

from __future__ import annotations

import contextlib
import platform
import re
import subprocess
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from importlib import metadata

from confluent_kafka import libversion

from compat_tests.support.jvm import classpath, java_home_binary
from spark_validation.recording.groups import Act, Group
from spark_validation.recording.offsets_topic import GroupRecords
from spark_validation.recording.play import Happening
from spark_validation.recording.summary import Summary

__all__ = ["readme"]


_PACKAGES = ("aiokafka", "kafka-python", "confluent-kafka", "kafka-assignors", "pyarrow")


def readme(
    groups: Sequence[Group],
    happenings: Sequence[Happening],
    records: GroupRecords,
    summary: Summary,
    started: datetime,
    minutes: float,
    seed: int,
) -> str:
    """The README as Markdown."""
    return f"""\
# A recorded history of consumer groups

Written by `make record` (`spark_validation/recording/record.py --minutes {minutes:g} --seed {seed}`) on
{started:%Y-%m-%d}, from {started:%H:%M} UTC on: {summary.groups} groups of real consumers on a cluster of
three brokers, recorded as the brokers wrote them to `__consumer_offsets`. The seed fixes what is done to
which group and in which order; what the groups make of it, their member ids and the exact times differ from
run to run.

- `raw/`: the records of the groups: partition, offset, timestamp (of the record, UTC), key, value. The
  {records.offset_commits} offset commits that lay between them were left out, hence the holes in the
  offsets.
  The log cleaner was off, so nothing was compacted away.
- `topics.parquet`: the topics over time: topic, topic_id, from (when the broker had confirmed the change),
  partitions, replica_racks.
- `events.json`: what was done to which group and when: at_ms (milliseconds since the epoch), group, what,
  detail (client, process id and, for static members, instance id; or topic).

A member's client id is its kind (`java`, `confluent`, `aiokafka` or `kafka-python` with `-stock` or `-ours`
for whose assignors it runs), a hyphen and its group.

## Contents

{len(records.rows)} records, {summary.generations} generations of classic groups.

| group | generations | empty | what it is |
|---|--:|--:|---|
{_group_rows(groups, summary)}

Generations by the client that led them:

| protocol | led by | generations |
|---|---|--:|
{_leader_rows(summary)}

What was done to the groups: {_acts(happenings)}. Members that ended unasked: {_died(happenings)}.

## Versions

| | |
|---|---|
{_version_rows()}
"""


def _group_rows(groups: Sequence[Group], summary: Summary) -> str:
    generations = summary.by_group()
    rows = []
    for group in groups:
        count: object = generations[group.name]
        if group.name in summary.consumer_protocol:
            count = f"({summary.consumer_protocol[group.name]} records)"
        rows.append(f"| {group.name} | {count} | {summary.empty[group.name] or ''} | {group.shape} |")
    return "\n".join(rows)


def _leader_rows(summary: Summary) -> str:
    rows = sorted(summary.by_leader().items())
    return "\n".join(f"| {protocol} | {client} | {count} |" for (protocol, client), count in rows)


def _acts(happenings: Sequence[Happening]) -> str:
    counts = Counter(happening.what for happening in happenings)
    return ", ".join(f"{act.value} {counts[act.value]}" for act in Act if counts[act.value])


def _died(happenings: Sequence[Happening]) -> int:
    return sum(happening.what == "died" for happening in happenings)


def _version_rows() -> str:
    java = subprocess.run([java_home_binary("java"), "-version"], capture_output=True, text=True, check=True)
    kafka = re.search(r"kafka-clients-([\d.]+)\.jar", classpath())
    versions = {
        "Apache Kafka (brokers, Java client)": kafka[1] if kafka else "?",
        "Java": java.stderr.splitlines()[0],
        "Python": platform.python_version(),
        "librdkafka": libversion()[0],
    }
    for package in _PACKAGES:
        # Some recordings lack members of some clients.
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return "\n".join(f"| {what} | {version} |" for what, version in versions.items())
