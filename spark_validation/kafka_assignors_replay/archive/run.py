"""The archiver, from a broker to a folder of Parquet.

One consumer reads all partitions from the places of the newest file on. It assigns them to itself, so it
joins no group, commits nothing and leaves no trace in the topic. Group records are read uncommitted: they
belong to no transaction, and an open one must not hold them back.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timezone
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
    reader_config,
)
from kafka_assignors_replay.archive import (
    ArchiveError,
    ArchiveOptions,
    ArchiveProgress,
    ArchiveResult,
    ArchiveState,
    MessageCounts,
    Place,
)
from kafka_assignors_replay.archive.folder import Archive, Folder, require_same, without_password
from kafka_assignors_replay.history.records import from_micros, millis_to_micros

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError

_MOST_BYTES = 32 << 20
"""The most bytes of a batch: a generation of a large group has megabytes."""

_CONSUME_MESSAGES = 2_000
_POLL_S = 0.2
_LOOK_S = 2.0
"""The time between two looks at the end of the topic, which give the lag."""

_CATALOGUE_S = 60.0
_LONGEST_PAUSE_S = 60.0
_MOST_WARNINGS = 100
"""The most warnings in a result: the latest ones, for a process that runs for months."""

_FIRST_WAIT_S = 5.0
"""The first wait for the leaders' answers. After it, the brokers are asked again for the leaders, and it
doubles: librdkafka waits for the leaders in its metadata, also for a dead one."""

_SAFE_LAG_MS = 24 * 3_600_000
"""With less than a day, an archiver that stops in the evening loses history before the morning."""

_SUGGESTED_LAG_MS = 7 * 24 * 3_600_000


class TryAgainError(Exception):
    """The run cannot go on, and a later attempt may: one line that says why."""


class Run:
    """A run, from the state of an archive to its end: `go` once. Its `state` may be ahead of the archive's.

    A run that follows a failed one, `since`, goes on with its counts and warnings.
    """

    def __init__(
        self,
        archive: Archive,
        options: ArchiveOptions,
        connection: Connection,
        on_progress: Callable[[ArchiveProgress], None],
        on_warning: Callable[[str], None],
        since: Run | None = None,
    ) -> None:
        self.archive, self._options, self._connection = archive, options, connection
        self._on_progress, self._on_warning = on_progress, on_warning
        self.begin: ArchiveState = archive.state.copy() if since is None else since.begin
        self.state = archive.state.copy()
        self.worked: bool = since is not None and since.worked
        """Whether a batch was written, or all was read once, so that another attempt may succeed."""
        self.topics_changed: int = 0 if since is None else since.topics_changed
        self._told: MessageCounts = MessageCounts() if since is None else since._told
        self._complaints: deque[KafkaError] = deque(maxlen=1)
        self._next_look = self._next_catalogue = 0.0
        self._rows: list[tuple[Any, ...]] = []
        self._bytes = 0
        self._last_ms: int | None = None
        log = self._offsets()
        self._target = self._ends = {number: end for number, (_, end) in log.items()}
        self._log_starts = {number: first for number, (first, _) in log.items()}
        for number, (first, end) in sorted(log.items()):
            self._begin_at(number, first, end)

    def _begin_at(self, number: int, first: int, end: int) -> None:
        place, where = self.state.places.get(number), f"{self._options.topic}[{number}]"
        if place is None:
            self.state.places[number] = Place(first, first, -1)
        elif place.next > end:
            raise ArchiveError(
                f"{where}: the log ends at offset {end}, and {self.archive.folder.path} has it up to "
                f"{place.next}: the log was truncated (an unclean leader election, or a broker that lost "
                "its disk), and other records get these offsets now; begin another archive; this one stays "
                "readable"
            )
        elif place.next < first:
            self._on_warning(
                f"{where}: the log begins at offset {first}, and the archive ended at {place.next}: "
                f"{first - place.next} offsets were deleted before they were archived; run the archiver "
                "without --once, or more often than records are deleted"
            )
            self.state.counts.add_gap(first - place.next)
            self.state.places[number] = Place(first, first, -1)

    @property
    def complete(self) -> bool:
        """Whether all records that were in the topic when the run began are read."""
        return not self._behind(self._target)

    def _behind(self, ends: Mapping[int, int]) -> int:
        places = self.state.places
        return sum(max(0, end - places[number].next) for number, end in ends.items())

    @property
    def lag(self) -> int:
        return self._behind(self._ends)

    def go(self, stop: threading.Event) -> None:
        """Archive until there is no more to do, or until `stop` is set; the batch in hand is written."""
        options = self._options
        consumer = self._consumer()
        try:
            consumer.assign([*self._assignment()])
            heard = written = time.monotonic()
            self._look(heard)
            while not stop.is_set() and not (options.once and self.complete):
                room = max(1, options.max_offsets_per_batch - self._in_hand())
                messages = consumer.consume(min(room, _CONSUME_MESSAGES), timeout=_POLL_S)
                now = time.monotonic()
                for message in messages:
                    self._add(message)
                if messages or not self.lag:
                    heard = now
                elif now > heard + options.timeout_seconds:
                    raise TryAgainError(self._silence())
                if self._is_full() or (not options.once and now >= written + options.interval_seconds):
                    self._write()
                    written = now
                self._look(now)
                self.worked = self.worked or not self.lag
            self._report("finishing the last batch")
            self._write()
            self._tell_of_missing()
        finally:
            consumer.close()

    def _consumer(self) -> Consumer:
        from confluent_kafka import Consumer, KafkaException

        options = self._options
        waits = {} if options.once else {"fetch.wait.max.ms": "500"}
        config = {**waits, **options.client_config}
        try:
            return Consumer(reader_config(options.bootstrap_servers, config, self._complaints.append))
        except KafkaException as error:
            raise self._connection.failure(f"cannot read topic {options.topic!r}", error.args[0]) from None

    def _assignment(self) -> Iterator[Any]:
        """The places to begin at. librdkafka first asks the leader whether its log still has the epoch of the
        last record up to there (KIP-320): a log that was truncated and has grown again has not."""
        from confluent_kafka import TopicPartition

        topic = self._options.topic
        for number, (next_, after, epoch) in self.state.places.items():
            if epoch >= 0 and after >= self._log_starts[number]:
                yield TopicPartition(topic, number, after, leader_epoch=epoch)
            else:
                yield TopicPartition(topic, number, next_)

    def _add(self, message: Any) -> None:
        if message.error() is not None:
            self._add_error(message)
            return
        state, number, offset, key = self.state, message.partition(), message.offset(), message.key()
        next_, _, epoch = state.places[number]
        if offset < next_:
            return
        if offset > next_:
            state.counts.add_gap(offset - next_)
        told = message.leader_epoch()
        state.places[number] = Place(offset + 1, offset + 1, epoch if told is None else told)
        at_ms = message.timestamp()[1]
        if self._last_ms is None or at_ms > self._last_ms:
            self._last_ms = at_ms
        if state.counts.add(key):
            self._rows.append((number, offset, millis_to_micros(at_ms), key, message.value()))
            self._bytes += len(message)

    def _add_error(self, message: Any) -> None:
        from confluent_kafka import KafkaError

        where, number = f"{self._options.topic}[{message.partition()}]", message.partition()
        if message.error().code() == KafkaError._AUTO_OFFSET_RESET:
            place = self.state.places[number]
            if "truncat" in message.error().str().lower():
                raise ArchiveError(
                    f"{where}: the records before offset {place.next} are no longer those that were read: "
                    "the log was truncated (an unclean leader election, or a broker that lost its disk) and "
                    "has grown again; begin another archive; this one stays readable"
                )
            raise TryAgainError(
                f"{where}: offset {place.next} is gone, the log was cleaned up while it was read"
            )
        if is_end(message, self._options.topic, self._options.bootstrap_servers):
            place = self.state.places[number]
            if (end := message.offset()) > place.next:
                # The last offsets are markers of transactions, or were compacted away.
                self.state.counts.add_gap(end - place.next)
                self.state.places[number] = place._replace(next=end)

    def _in_hand(self) -> int:
        """The number of offsets that were read and are in no file."""
        return self.state.counts.offsets - self.archive.state.counts.offsets

    def _is_full(self) -> bool:
        return self._in_hand() >= self._options.max_offsets_per_batch or self._bytes >= _MOST_BYTES

    def _write(self) -> None:
        """Write the batch in hand. Offsets without group records are read again after a restart, unless they
        are as many as a batch may have."""
        if not self._rows and not self._is_full():
            return
        # The topic has this id after the batch was read, so it had it meanwhile: an id does not come back.
        self._require_same_topic()
        latest = [each for each in (self.state.last_timestamp_ms, self._last_ms) if each is not None]
        self.state.last_timestamp_ms = max(latest, default=None)
        self.archive.write(self._rows, self.state, millis_to_micros(self._last_ms or 0))
        self.worked = True
        self._rows, self._bytes, self._last_ms = [], 0, None

    def _require_same_topic(self) -> None:
        archive, found = self.archive, identify_topic(self._connection, self._options.topic)
        require_same(archive.folder.path, archive.manifest, found)

    def _offsets(self) -> dict[int, tuple[int, int]]:
        """The first and the next offset of each partition; asked again while a leader does not answer."""
        connection, wait = self._connection, _FIRST_WAIT_S
        deadline = time.monotonic() + self._options.timeout_seconds
        while True:
            left = deadline - time.monotonic()
            connection.forget_complaints()
            try:
                partitions = range(self.archive.manifest.partitions)
                return list_offsets(connection, self._options.topic, partitions, min(wait, left))
            except UnreachableError:
                if left <= wait or time.monotonic() >= deadline:
                    raise
                wait *= 2

    def _look(self, now: float) -> None:
        if now >= self._next_catalogue:
            self._next_catalogue = now + _CATALOGUE_S
            self._require_same_topic()  # also while no record comes, as all may be in new partitions
            topics = live_topics(self._connection)
            self.topics_changed += self.archive.note(topics, datetime.now(timezone.utc))
        if now >= self._next_look:
            self._next_look = now + _LOOK_S
            if not self._options.once:
                self._ends = {number: end for number, (_, end) in self._offsets().items()}
            if self.complete:
                self._tell_of_missing()
        self._report("archiving")

    def _silence(self) -> str:
        late = next(each for each, end in self._ends.items() if end > self.state.places[each].next)
        said = self._complaints[-1].str() if self._complaints else ""
        why = f" ({self._connection.without_secrets(said)})" if said else ""
        return (
            f"{self._options.topic}[{late}]: no record within {self._options.timeout_seconds:g} s after "
            f"offset {self.state.places[late].next - 1}, wanted up to {self._ends[late] - 1}{why}"
        )

    def _tell_of_missing(self) -> None:
        """Warn of missing records once in a run, and again after a longer gap than ever."""
        counts = self.state.counts.since(self.begin.counts)
        if not counts.missing or (self._told.missing and counts.longest_gap <= self._told.longest_gap):
            return
        self._told = counts
        self._on_warning(
            f"{counts.missing} of {counts.offsets} offsets had no record any more, up to "
            f"{counts.longest_gap} in a row since the archive was begun: either compaction took them before "
            "they could be archived, or they are markers of transactions, one for each that commits offsets; "
            "the log does not say which"
        )

    def _report(self, phase: str) -> None:
        counts = self.state.counts.since(self.begin.counts)
        batches = self.archive.state.batches - self.begin.batches
        self._on_progress(ArchiveProgress(phase, counts, batches, self.lag))


def run_archive(
    options: ArchiveOptions,
    on_progress: Callable[[ArchiveProgress], None],
    on_warning: Callable[[str], None],
    stop: threading.Event,
) -> ArchiveResult:
    """Archive until all records are there (`once`), or until `stop` is set; the batch in hand is written.

    `on_progress` is called often, `on_warning` for each risk for the archive and for each error after which
    the run goes on. Raises `ArchiveError` for any problem with the cluster, the folder or the options; a run
    that fails after it has worked begins again at the newest file.
    """
    started, pause = time.monotonic(), 1.0
    _check(options)
    warnings: deque[str] = deque(maxlen=_MOST_WARNINGS)
    run: Run | None = None

    def warn(text: str) -> None:
        warnings.append(text)
        on_warning(text)

    on_progress(ArchiveProgress("asking the cluster"))
    while True:
        batches = run.archive.state.batches if run is not None else 0
        try:
            connection = Connection(options.bootstrap_servers, options.client_config, options.timeout_seconds)
            found = identify_topic(connection, options.topic)
            if run is None:
                for warning in compaction_warnings(connection, options.topic):
                    warn(warning)
            with Archive.open(Folder(options.path), found, warn) as archive:
                run = Run(archive, options, connection, on_progress, warn, since=run)
                run.go(stop)
            break
        except (ClusterError, TryAgainError, OSError) as error:
            why = f"{without_password(options.path)}: {error}" if isinstance(error, OSError) else str(error)
            if options.once or run is None or not run.worked:
                raise ArchiveError(why) from None
        if run.archive.state.batches > batches:
            pause = 1.0
        warn(f"{why}; trying again in {pause:g} s")
        on_progress(ArchiveProgress("waiting to try again"))
        if stop.wait(pause):
            break
        pause = min(2 * pause, _LONGEST_PAUSE_S)
    return _result(run, tuple(warnings), time.monotonic() - started)


def _result(run: Run, warnings: tuple[str, ...], seconds: float) -> ArchiveResult:
    state, begin, found = run.state, run.begin, run.archive.manifest
    last_ms = run.archive.state.last_timestamp_ms
    return ArchiveResult(
        path=run.archive.folder.path,
        cluster_id=found.cluster_id,
        topic=found.topic,
        partitions=found.partitions,
        batches=run.archive.state.batches - begin.batches,
        counts=state.counts.since(begin.counts),
        total=state.counts,
        last_timestamp=None if last_ms is None else from_micros(millis_to_micros(last_ms)),
        topics_changed=run.topics_changed,
        lag_offsets=run.lag,
        complete=run.complete,
        warnings=warnings,
        seconds=seconds,
    )


def _check(options: ArchiveOptions) -> None:
    if options.max_offsets_per_batch < 1:
        raise ArchiveError(f"a batch has at least one offset, not {options.max_offsets_per_batch}")
    if options.interval_seconds < 0:
        raise ArchiveError(f"the interval is a number of seconds from 0 up, not {options.interval_seconds:g}")


def compaction_warnings(connection: Connection, topic: str) -> list[str]:
    """Warnings with the settings that make records stay until they are archived; none if they do.

    `ClusterError` if the cluster does not answer.
    """
    try:
        told = connection.settings("topic", topic)
    except NotAuthorizedError as error:
        return [f"cannot tell how long {topic} keeps its records: {error}"]
    policy = str(told["cleanup.policy"])
    lag_ms, retention_ms = (int(told[name] or 0) for name in ("min.compaction.lag.ms", "retention.ms"))
    warnings = []
    if "compact" in policy and lag_ms < _SAFE_LAG_MS:
        warnings.append(
            f"min.compaction.lag.ms of {topic} is {lag_ms}: records that the log cleaner removes while no "
            "archiver runs are lost; to keep every record for a week: kafka-configs.sh --bootstrap-server "
            f"{connection.servers} --alter --entity-type topics --entity-name {topic} --add-config "
            f"min.compaction.lag.ms={_SUGGESTED_LAG_MS}"
        )
    if "delete" in policy and 0 <= retention_ms < _SAFE_LAG_MS:
        warnings.append(
            f"cleanup.policy of {topic} is {policy} and retention.ms {retention_ms}: records that are "
            "deleted while no archiver runs are lost"
        )
    return warnings
