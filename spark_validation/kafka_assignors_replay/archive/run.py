"""The archiver, from a broker to a folder of Parquet.

One consumer reads all partitions from the places of the newest file on. It assigns them to itself, so it
joins no group, commits nothing and leaves no trace in the topic. Group records are read uncommitted: they
belong to no transaction, and an open one must not hold them back.

After any failure the archive is opened again, and the records in hand are read again: only the files say what
was written.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any

from kafka_assignors_confluent.connection import (
    ClusterError,
    Connection,
    NotAuthorizedError,
    UnreachableError,
)
from kafka_assignors_confluent.topic_metadata import (
    identify_topic,
    is_end,
    list_offsets,
    live_topics,
    open_reader,
)
from kafka_assignors_replay.archive.folder import Archive, ArchiveError, Folder, Place, without_password
from kafka_assignors_replay.history.records import from_micros, is_commit, millis_to_micros
from kafka_assignors_replay.result import OFFSETS_TOPIC, to_json

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, TopicPartition

_MOST_BYTES = 32 << 20
"""The most bytes of a batch: a generation of a large group has megabytes."""

_CONSUME_MESSAGES = 2_000
_POLL_S = 0.2
_LOOK_S = 60.0
"""The time between two looks at the end of the topic and at the catalogue."""

_LONGEST_PAUSE_S = 60.0
_MOST_WARNINGS = 100
"""In a result: the latest ones, for a process that runs for months."""

_FIRST_WAIT_S = 5.0
"""The first wait for the leaders' answers. After it, the brokers are asked again for the leaders, and it
doubles: librdkafka waits for the leaders in its metadata, also for a dead one."""

_DAY_MS = 24 * 3_600_000
"""With less time than this, an archiver that stops in the evening loses history before the morning."""


@dataclass(frozen=True, slots=True)
class ArchiveOptions:
    """What to archive, and where: `path` is a folder, or a URL that pyarrow knows.

    With `once` the archiver ends when it has all records that were in the topic at its start. Otherwise it
    goes on until it is told to stop, and writes a file every `interval_seconds`, if there are new records.
    `max_offsets_per_batch` bounds a file in offsets of all partitions together. `client_config` has
    librdkafka's properties, `timeout_seconds` is the longest wait for a broker.
    """

    path: str
    bootstrap_servers: str
    once: bool = False
    interval_seconds: float = 300.0
    max_offsets_per_batch: int = 1_000_000
    topic: str = OFFSETS_TOPIC
    client_config: Mapping[str, str] = field(default_factory=dict)
    timeout_seconds: float = 10.0


@dataclass(slots=True)
class MessageCounts:
    """Counts of the offsets that were read: `records` of groups, `offset_commits` and records `without_key`,
    which are left out, and `missing` ones, without a record: it was compacted away or deleted, or is the
    marker of a transaction."""

    records: int = 0
    offset_commits: int = 0
    without_key: int = 0
    missing: int = 0

    @property
    def offsets(self) -> int:
        return self.records + self.offset_commits + self.without_key + self.missing


@dataclass(slots=True)
class ArchiveResult:
    """What a run has done; it changes until the run ends.

    `last_timestamp` is that of the latest record, offset commits included. `topics_changed` counts the new
    rows of the catalogue. `lag_offsets` lie between what was read and the end of the topic at the last look,
    with `once` that at the start; None while that is not known. `warnings` are risks for the archive, and
    lost records.
    """

    path: str
    cluster_id: str
    topic: str
    partitions: int
    batches: int = 0
    counts: MessageCounts = field(default_factory=MessageCounts)
    last_timestamp: datetime | None = None
    topics_changed: int = 0
    lag_offsets: int | None = None
    warnings: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def complete(self) -> bool:
        """Whether the archive has all records up to that end."""
        return self.lag_offsets == 0

    def to_json(self) -> dict[str, Any]:
        counts = {**to_json(self.counts), "offsets": self.counts.offsets}
        return {**to_json(self), "counts": counts, "complete": self.complete}


OnProgress = Callable[[str, ArchiveResult], None]
"""Called with the phase, and what the run has done so far."""


@dataclass
class _Run:
    """A run; each `attempt` goes on where the archive ends, and `in_files` lacks the batch in hand.
    `worked` says whether a batch was written, or all was read once, so that another attempt may succeed."""

    options: ArchiveOptions
    connection: Connection
    result: ArchiveResult
    on_progress: OnProgress
    warn: Callable[[str], None]
    in_files: MessageCounts = field(default_factory=MessageCounts)
    complaints: deque[KafkaError] = field(default_factory=partial(deque, maxlen=1))
    worked: bool = False

    def attempt(self, archive: Archive, stop: threading.Event) -> None:
        """Archive until there is no more to do, or until `stop` is set; the batch in hand is written."""
        options, once = self.options, self.options.once
        self._archive, self._places = archive, dict(archive.places)
        self._begin_batch()
        self._look()
        starts = [self._begin_at(number) for number in sorted(self._log)]
        waits = {} if once else {"fetch.wait.max.ms": "500"}
        consumer = open_reader(self.connection, waits, self.complaints.append)
        try:
            consumer.assign(starts)
            heard = written = looked = time.monotonic()
            lag = self._report("archiving")
            while not stop.is_set() and (lag or not once):
                messages = consumer.consume(max(1, min(self._room(), _CONSUME_MESSAGES)), timeout=_POLL_S)
                now = time.monotonic()
                for message in messages:
                    self._add(message)
                if self._room() <= 0 or (not once and now >= written + options.interval_seconds):
                    self._write()
                    written = now
                if not once and now >= looked + _LOOK_S:
                    self._look()
                    looked = now
                if not (lag := self._report("archiving")):
                    self.worked = True
                if messages or not lag:
                    heard = now
                elif now > heard + options.timeout_seconds:
                    raise UnreachableError(self._silence())
            self._report("finishing the last batch")
            self._write()
        finally:
            consumer.close()

    def _begin_batch(self) -> None:
        self.in_files = replace(self.result.counts)
        self._rows: list[tuple[object, ...]] = []
        self._bytes = 0
        self._last_ms: int | None = None

    def _look(self) -> None:
        topic, now = self.options.topic, datetime.now(timezone.utc)
        self.connection.forget_complaints()
        # Also while no record comes, as all may be in new partitions.
        self._archive.require(identify_topic(self.connection, topic))
        self.result.topics_changed += self._archive.note(live_topics(self.connection), now)
        # A dead leader does not answer, and librdkafka asks for another one after the wait.
        wait, deadline = _FIRST_WAIT_S, time.monotonic() + self.options.timeout_seconds
        while True:
            left = deadline - time.monotonic()
            self.connection.forget_complaints()
            try:
                partitions = range(self._archive.manifest.partitions)
                self._log = list_offsets(self.connection, topic, partitions, min(wait, left))
                return
            except UnreachableError:
                if left <= wait or time.monotonic() >= deadline:
                    raise
                wait *= 2

    def _begin_at(self, number: int) -> TopicPartition:
        from confluent_kafka import TopicPartition

        topic, (first, end) = self.options.topic, self._log[number]
        next_, after, epoch = self._places.setdefault(number, Place(first, first, -1))
        where = f"{topic}[{number}]"
        if next_ > end:
            path = self._archive.folder.path
            raise _truncated(f"{where}: the log ends at offset {end}, and {path} has it up to {next_}")
        if next_ < first:
            self.warn(
                f"{where}: the log begins at offset {first}, and the archive ended at {next_}: "
                f"{first - next_} offsets were deleted before they were archived; run the archiver without "
                "--once, or more often than records are deleted"
            )
            self.result.counts.missing += first - next_
            next_, after, epoch = self._places[number] = Place(first, first, -1)
        if epoch < 0 or after < first:
            return TopicPartition(topic, number, next_)
        # librdkafka first asks the leader whether its log still has this epoch up to there (KIP-320): a log
        # that was truncated and has grown again has not.
        return TopicPartition(topic, number, after, leader_epoch=epoch)

    def _add(self, message: Any) -> None:
        counts, number, offset = self.result.counts, message.partition(), message.offset()
        next_, after, epoch = self._places[number]
        is_record = message.error() is None
        if not (is_record or self._is_end(message, next_)) or offset < next_:
            return
        counts.missing += offset - next_
        if not is_record:  # The last offsets are markers of transactions, or compacted away.
            self._places[number] = Place(offset, after, epoch)
            return
        key, told, at_ms = message.key(), message.leader_epoch(), message.timestamp()[1]
        self._places[number] = Place(offset + 1, offset + 1, epoch if told is None else told)
        if self._last_ms is None or at_ms > self._last_ms:
            self._last_ms = at_ms
        if key is None:
            counts.without_key += 1
        elif is_commit(key):
            counts.offset_commits += 1
        else:
            counts.records += 1
            self._rows.append((number, offset, millis_to_micros(at_ms), key, message.value()))
            self._bytes += len(message)

    def _is_end(self, message: Any, next_: int) -> bool:
        """Whether the partition has no more records; False for a harmless error, all others are raised."""
        from confluent_kafka import KafkaError

        topic, error = self.options.topic, message.error()
        where = f"{topic}[{message.partition()}]"
        if error.code() != KafkaError._AUTO_OFFSET_RESET:
            return is_end(message, topic, self.options.bootstrap_servers)
        if "truncat" in error.str().lower():
            raise _truncated(f"{where}: the records before offset {next_} are no longer those that were read")
        raise ClusterError(f"{where}: offset {next_} is gone, the log was cleaned up while it was read")

    def _room(self) -> int:
        """How many more offsets the batch in hand may have: none if it has the most bytes."""
        in_hand = self.result.counts.offsets - self.in_files.offsets
        return self.options.max_offsets_per_batch - in_hand if self._bytes < _MOST_BYTES else 0

    def _write(self) -> None:
        """Write the batch in hand. Offsets without group records are read again after a restart, unless they
        are as many as a batch may have."""
        last_micros = millis_to_micros(self._last_ms or 0)
        if self._last_ms is not None:
            latest = from_micros(last_micros)
            self.result.last_timestamp = max(latest, self.result.last_timestamp or latest)
        if self._rows or self._room() <= 0:
            # The topic has this id after the batch was read, so it had it meanwhile: no id comes back.
            self._archive.require(identify_topic(self.connection, self.options.topic))
            self._archive.write(self._rows, self._places, last_micros)
            self.result.batches += 1
            self.worked = True
            self._begin_batch()

    def _silence(self) -> str:
        said = self.connection.without_secrets(self.complaints[-1].str()) if self.complaints else ""
        why = f" ({said})" if said else ""
        late = next(number for number, (_, end) in self._log.items() if self._places[number].next < end)
        within = f"within {self.options.timeout_seconds:g} s after offset {self._places[late].next - 1}"
        return f"{self.options.topic}[{late}]: no record {within}, up to {self._log[late][1] - 1}{why}"

    def _report(self, phase: str) -> int:
        """Tell of the progress; returns the lag."""
        behind = (end - self._places[number].next for number, (_, end) in self._log.items())
        lag = self.result.lag_offsets = sum(each for each in behind if each > 0)
        self.on_progress(phase, self.result)
        return lag


def _truncated(what: str) -> ArchiveError:
    return ArchiveError(
        f"{what}: the log was truncated (an unclean leader election, or a broker that lost its disk), and "
        "other records get these offsets; begin another archive; this one stays readable"
    )


def run_archive(
    options: ArchiveOptions, on_progress: OnProgress, on_warning: Callable[[str], None], stop: threading.Event
) -> ArchiveResult:
    """Archive until all records are there (`once`), or until `stop` is set; the batch in hand is written.

    `on_progress` is called often, `on_warning` for each risk for the archive and for each error after which
    the run goes on. Raises `ArchiveError` for any problem with the cluster, the folder or the options; a run
    that fails after it has worked begins again at the newest file.
    """
    started, path, pause_s = time.monotonic(), without_password(options.path), 1.0
    if options.max_offsets_per_batch < 1 or options.interval_seconds < 0:
        raise ArchiveError("a batch has at least one offset, and an interval at least 0 seconds")
    try:
        connection = Connection(options.bootstrap_servers, options.client_config, options.timeout_seconds)
        found = identify_topic(connection, options.topic)
        risks = compaction_warnings(connection, options.topic)
    except ClusterError as error:
        raise ArchiveError(str(error)) from None
    result = ArchiveResult(path, found.cluster_id, found.topic, found.partitions)

    def warn(text: str) -> None:
        result.warnings = [*result.warnings, text][-_MOST_WARNINGS:]
        on_warning(text)

    for risk in risks:
        warn(risk)
    run = _Run(options, connection, result, on_progress, warn)
    while True:
        batches = result.batches
        try:
            with Archive.open(Folder(options.path), found, warn) as archive:
                run.attempt(archive, stop)
            break
        except (ClusterError, OSError) as error:
            why = f"{path}: {error}" if isinstance(error, OSError) else str(error)
            if options.once or not run.worked:
                raise ArchiveError(why) from None
        result.counts = replace(run.in_files)
        pause_s = 1.0 if result.batches > batches else pause_s
        warn(f"{why}; trying again in {pause_s:g} s")
        on_progress("waiting to try again", result)
        # `Event.wait` holds a lock that `Event.set` takes: a signal's handler would wait for its own thread.
        until = time.monotonic() + pause_s
        while not stop.is_set() and time.monotonic() < until:
            time.sleep(_POLL_S)
        if stop.is_set():
            break
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
    result.seconds = time.monotonic() - started
    return result


def compaction_warnings(connection: Connection, topic: str) -> list[str]:
    """Warnings with the settings that make records stay until they are archived; none if they do.

    `ClusterError` if the cluster does not answer.
    """
    try:
        told = connection.topic_settings(topic)
    except NotAuthorizedError as error:
        return [f"cannot tell how long {topic} keeps its records: {error}"]
    policy, warnings = str(told["cleanup.policy"]), []
    lag_ms, retention_ms = (int(told[name] or 0) for name in ("min.compaction.lag.ms", "retention.ms"))
    if "compact" in policy and lag_ms < _DAY_MS:
        warnings.append(
            f"min.compaction.lag.ms of {topic} is {lag_ms}: records that the log cleaner removes while no "
            "archiver runs are lost; to keep every record for a week: kafka-configs.sh --bootstrap-server "
            f"{connection.servers} --alter --entity-type topics --entity-name {topic} --add-config "
            f"min.compaction.lag.ms={7 * _DAY_MS}"
        )
    if "delete" in policy and 0 <= retention_ms < _DAY_MS:
        warnings.append(
            f"cleanup.policy of {topic} is {policy} and retention.ms {retention_ms}: records that are "
            "deleted while no archiver runs are lost"
        )
    return warnings
