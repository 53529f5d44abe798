"""The part of the source that runs on executors: reads the messages of a range, and makes rows of them."""

from __future__ import annotations

import contextlib
import json
import operator
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kafka_assignors_confluent.topics import is_end, reader_config
from kafka_assignors_replay.folds.rates import CommitThinner
from kafka_assignors_replay.folds.records import group_bytes, is_commit, millis_to_micros
from kafka_assignors_replay.live_catalogue import SourceError, source_errors
from kafka_assignors_replay.source.planning import LastRead, OffsetRange, SourceOptions

if TYPE_CHECKING:
    from confluent_kafka import Message

_BATCH_ROWS = 10_000
_BATCH_BYTES = 32 << 20
"""A generation of a large group has megabytes, and ten thousand exceed the memory of an executor."""

_CONSUME_MESSAGES = 2_000
_POLL_SECONDS = 0.2


@dataclass(slots=True)
class MessageCounts:
    """Counts of the offsets that were read.

    Attributes:
        offsets: all offsets: the sum of the counts up to `missing`.
        group_records: records of groups, by the version of their key: 2 is a generation of a classic group, 3
            and up groups of KIP-848 and other kinds, -1 a key that is too short for a version.
        offset_commits: left out, except those in `commits_kept`.
        without_key: left out.
        missing: offsets without a record: compacted away or deleted, or the marker of a transaction.
        longest_gap: the most missing offsets in a row.
        commits_kept: offset commits whose committed offset is kept.
        commits_undecodable: offset commits whose bytes do not follow their schema; counted only where
            committed offsets are kept.
    """

    offsets: int = 0
    group_records: dict[int, int] = field(default_factory=dict)
    offset_commits: int = 0
    without_key: int = 0
    missing: int = 0
    longest_gap: int = 0
    commits_kept: int = 0
    commits_undecodable: int = 0

    @classmethod
    def from_json(cls, read: dict[str, Any]) -> MessageCounts:
        """The inverse of `asdict`, through JSON."""
        kinds = {int(version): count for version, count in read.pop("group_records").items()}
        return cls(group_records=kinds, **read)

    @property
    def records(self) -> int:
        """How many records of groups there are."""
        return sum(self.group_records.values())

    def add(self, key: bytes | None) -> None:
        """Count a record with this key."""
        if key is None:
            self.without_key += 1
        elif is_commit(key):
            self.offset_commits += 1
        else:
            version = int.from_bytes(key[:2], "big") if len(key) > 1 else -1
            self.group_records[version] = self.group_records.get(version, 0) + 1

    def add_gap(self, offsets: int) -> None:
        """Count consecutive offsets without a record."""
        self.missing += offsets
        self.longest_gap = max(self.longest_gap, offsets)

    def __add__(self, other: MessageCounts) -> MessageCounts:
        return self._with(other, operator.add)

    def since(self, earlier: MessageCounts) -> MessageCounts:
        """The counts since `earlier`, with the longest gap of all."""
        return self._with(earlier, operator.sub)

    def _with(self, other: MessageCounts, combine: Callable[[Any, Any], Any]) -> MessageCounts:
        found = {each.name: combine(getattr(self, each.name), getattr(other, each.name)) for each in _PLAIN}
        kinds = combine(Counter(self.group_records), Counter(other.group_records))
        gap = max(self.longest_gap, other.longest_gap)
        return MessageCounts(group_records=dict(sorted(kinds.items())), longest_gap=gap, **found)


_PLAIN = [each for each in fields(MessageCounts) if each.name not in ("group_records", "longest_gap")]


@dataclass(slots=True)
class RangeReport:
    """The counts of a range of offsets, including records that made no row.

    Attributes:
        last_timestamp_ms: of the last record, offset commits included; None without a record.
        log_start: the first offset of the log when the range was planned.
        last_read: the offset after the last record and its leader epoch; None without a record.
    """

    partition: int
    start: int
    end: int
    counts: MessageCounts
    last_timestamp_ms: int | None = None
    log_start: int = 0
    last_read: LastRead | None = None

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> RangeReport:
        read: dict[str, Any] = json.loads(text)
        counts, last_read = MessageCounts.from_json(read.pop("counts")), read.pop("last_read")
        return cls(counts=counts, last_read=last_read and LastRead(*last_read), **read)


def read_range(options: SourceOptions, work: OffsetRange) -> Iterator[pa.RecordBatch]:
    """The rows of a range: records in the order of offsets, then kept commits, and the report at the end, as
    far as the options ask for them."""
    # Every key of a group has the length and the name after the version, which is two bytes.
    names = map(group_bytes, options.groups or ())
    prefixes = tuple(len(name).to_bytes(2, "big") + name for name in names)
    rows: list[Message] = []
    size, next_ = 0, work.start
    counts = MessageCounts(work.end - work.start)
    report = RangeReport(work.partition, work.start, work.end, counts, log_start=work.log_start)
    interval_s = options.committed_offsets_s
    thinner = None if interval_s is None else CommitThinner(interval_s)
    with contextlib.closing(_messages(options, work)) as messages:
        for message in messages:
            key, offset = message.key(), _offset_of(message)
            counts.add_gap(offset - next_)
            counts.add(key)
            next_ = offset + 1
            report.last_timestamp_ms = _micros(message) // 1000
            if (epoch := message.leader_epoch()) is not None:
                report.last_read = LastRead(next_, epoch)
            if key is None or (prefixes and not key.startswith(prefixes, 2)):
                continue
            if not is_commit(key):
                rows.append(message)
                size += len(message)
                if len(rows) == _BATCH_ROWS or size >= _BATCH_BYTES:
                    yield _batch(options, work.partition, rows)
                    rows, size = [], 0
            elif thinner is not None:
                thinner.add(offset, _micros(message), key, message.value())
                if thinner.full:
                    yield _commit_batch(options, work.partition, thinner)
    if rows:
        yield _batch(options, work.partition, rows)
    counts.add_gap(work.end - next_)
    if thinner is not None:
        yield _commit_batch(options, work.partition, thinner)
        counts.commits_kept, counts.commits_undecodable = thinner.kept, thinner.undecodable
    if options.reports:
        row = {"partition": report.partition, "report": report.to_json()}
        yield pa.RecordBatch.from_pylist([row], options.columns)


def _offset_of(message: Message) -> int:
    offset = message.offset()
    assert offset is not None  # a record, and the end of a partition, have one
    return offset


def _micros(message: Message) -> int:
    # Kafka's timestamps are milliseconds since 1970 in UTC, Spark's are microseconds.
    return millis_to_micros(message.timestamp()[1])


def _batch(options: SourceOptions, partition: int, messages: Iterable[Message]) -> pa.RecordBatch:
    # Columns that a row does not name are null.
    rows = [
        {
            "partition": partition,
            "offset": message.offset(),
            "timestamp": _micros(message),
            "key": message.key(),
            "value": message.value(),
        }
        for message in messages
    ]
    return pa.RecordBatch.from_pylist(rows, options.columns)


def _commit_batch(options: SourceOptions, partition: int, thinner: CommitThinner) -> pa.RecordBatch:
    of_all = {"partition": partition, "interval_s": options.committed_offsets_s}
    rows = [{**of_all, "timestamp": each.micros, **each._asdict()} for each in thinner.take()]
    return pa.RecordBatch.from_pylist(rows, options.columns)


def _messages(options: SourceOptions, work: OffsetRange) -> Generator[Message, None, None]:
    """Every message of the range that is still in the log, in order; `SourceError` if it ends early."""
    from confluent_kafka import Consumer, TopicPartition

    position = max(work.start, work.log_start)
    if position >= work.end:
        return
    start = TopicPartition(options.topic, work.partition, position)
    last_read, begin = options.last_read.get(work.partition), options.starting.of(work.partition, 0, 0)
    after_epoch = last_read is not None and position == begin and last_read.offset >= work.log_start
    if last_read is not None and after_epoch:
        # librdkafka first asks the leader whether its log still has that epoch up to this offset (KIP-320).
        # There was no record between it and `position`.
        epoch = last_read.leader_epoch
        start = TopicPartition(options.topic, work.partition, last_read.offset, leader_epoch=epoch)
    complaints: list[str] = []
    # The client reads ahead, and the offsets after the range belong to another task.
    ahead = str(max(1, min(100_000, work.end - position)))
    config = {"queued.min.messages": ahead, **options.client_config}
    consumer = Consumer(
        reader_config(options.bootstrap_servers, config, lambda error: complaints.append(error.str()))
    )
    try:
        consumer.assign([start])
        deadline = time.monotonic() + options.timeout_seconds
        while position < work.end:
            # Never ask for more than is left: the end of every range would wait for messages that never come.
            messages = consumer.consume(min(_CONSUME_MESSAGES, work.end - position), timeout=_POLL_SECONDS)
            if messages:
                deadline = time.monotonic() + options.timeout_seconds
            elif time.monotonic() > deadline:
                raise SourceError(
                    f"{options.topic}[{work.partition}]: no record within {options.timeout_seconds:g} s "
                    f"after offset {position - 1}, wanted up to {work.end - 1}"
                    + (f" ({complaints[-1]})" if complaints else "")
                )
            for message in messages:
                if message.error() is not None:
                    if _ends(message, options, work, position, after_epoch=after_epoch):
                        return
                    continue
                offset = _offset_of(message)
                if offset >= work.end:
                    return
                position = offset + 1
                yield message
    finally:
        consumer.close()


def _ends(
    message: Message, options: SourceOptions, work: OffsetRange, position: int, *, after_epoch: bool
) -> bool:
    """Whether an error message says that the range has no more records; other errors are raised.

    `after_epoch` says that librdkafka checks the leader epoch of the log up to `position`.
    """
    from confluent_kafka import KafkaError

    where, error = f"{options.topic}[{work.partition}]", message.error()
    if error is not None and error.code() == KafkaError._AUTO_OFFSET_RESET:
        if after_epoch and "truncat" in error.str().lower():
            raise SourceError(
                f"{where}: the records before offset {position} are no longer those that were read: the log "
                "was truncated (an unclean leader election, or a broker that lost its disk) and has grown "
                "again; begin another archive; this one stays readable"
            )
        raise SourceError(
            f"{where}: offset {position} is gone, the log was cleaned up while it was read: run again"
        )
    with source_errors():
        if not is_end(message, options.topic, options.bootstrap_servers):
            return False
    if (offset := _offset_of(message)) < work.end:
        raise SourceError(
            f"{where}: the log ends at {offset}, and ended at {work.end} "
            "when the query was planned: was the topic truncated?"
        )
    return True  # the rest of the range is control records, or was compacted away
