"""The watch of a running cluster: reads its group records until it is told to stop, and shows the groups at
any time.

Records from before the start make the groups known; they count only on request. With a state file the records
since the last run count, each once: the file has the counts, and the offsets up to which they go. Nothing is
shown before all records from before the start are read, so that no counter decreases.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from kafka_assignors.arguments import UserError
from kafka_assignors.group import some_of
from kafka_assignors_confluent.connection import (
    ClusterError,
    ConfigurationError,
    Connection,
    NoTopicError,
    UnreachableError,
)
from kafka_assignors_confluent.topic_metadata import (
    TopicIdentity,
    describe_topics,
    identify_topic,
    is_end,
    list_offsets,
    live_topics,
    open_reader,
)
from kafka_assignors_ops.watch.fleet import Counts, Fleet, FleetLimits, FleetSnapshot, WatchedTopics
from kafka_assignors_ops.watch.metric_table import WatchStatus
from kafka_assignors_replay.history.generations import Record
from kafka_assignors_replay.history.records import millis_to_micros
from kafka_assignors_replay.result import to_json

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

_POLL_S = 0.5
_LOOK_DOWN_S = 5.0
_LONGEST_PAUSE_S = 10.0

_SAVE_S = 30.0
"""The time between two writes of the state."""

_MOST_TROUBLES = 20
_MOST_ASKED = 1_000
"""The most unseen topics that one look asks for: they are hidden or deleted."""

_CONSUME_MESSAGES = 2_000
_QUEUED_KIB = 32 * 1024
"""The most that librdkafka reads ahead, over all partitions: a generation of a large group has megabytes."""


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """What to watch. With `once` the watch reads and counts the records that are there, and ends. `state` is
    a file that keeps the counts from one run to the next. The watch looks at the topics every `look_s`."""

    bootstrap_servers: str
    client_config: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 10.0
    topic: str = "__consumer_offsets"
    once: bool = False
    limits: FleetLimits = field(default_factory=FleetLimits)
    state: Path | None = None
    look_s: float = 60.0


class RecordReader:
    """A consumer of each partition from its position on, until `close`.

    `positions` has the next offset of each partition. `unread` are the partitions of which neither a record
    nor the end was read yet. `down` says that no broker answers.
    """

    def __init__(self, connection: Connection, topic: str, positions: Mapping[int, int]) -> None:
        from confluent_kafka import TopicPartition

        self._topic, self._servers, self.down = topic, connection.servers, False
        self.positions, self.unread = dict(positions), set(positions)
        bound = {"queued.max.messages.kbytes": str(_QUEUED_KIB)}
        self._consumer = open_reader(connection, bound, self._hear)
        self._consumer.assign(
            [TopicPartition(self._topic, partition, offset) for partition, offset in positions.items()]
        )

    def poll(self, timeout_s: float) -> list[Record]:
        """The next records, in the order of offsets within each partition.

        `ClusterError` if the reader cannot go on.
        """
        records = map(self._record, self._consumer.consume(_CONSUME_MESSAGES, timeout=timeout_s))
        return [record for record in records if record is not None]

    def lag(self) -> int:
        """The offsets up to the end of the topic, as the brokers have last reported it."""
        from confluent_kafka import TopicPartition

        lag = 0
        for partition, position in self.positions.items():
            known = self._consumer.get_watermark_offsets(TopicPartition(self._topic, partition), cached=True)
            if known is not None:
                lag += max(0, known[1] - position)
        return lag

    def close(self) -> None:
        self._consumer.close()

    def _hear(self, error: KafkaError) -> None:
        from confluent_kafka import KafkaError as Codes

        self.down = self.down or error.code() == Codes._ALL_BROKERS_DOWN

    def _record(self, message: Message) -> Record | None:
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        if message.error() is not None and not is_end(message, self._topic, self._servers):
            return None
        assert offset is not None  # a record, and the end of a partition, have one
        self.unread.discard(partition)
        self.down = False
        if message.error() is not None:
            # After the last record there may be markers of transactions, and compacted offsets.
            self.positions[partition] = max(offset, self.positions[partition])
            return None
        self.positions[partition] = offset + 1
        micros = millis_to_micros(message.timestamp()[1])
        return Record(partition, offset, micros, message.key(), message.value())


class Troubles:
    """Passes each trouble to `tell` once, until `clear`; the first 20 of them.

    Troubles alternate. All errors that mean that no broker answers are one: their texts vary.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._told: set[str] = set()

    def add(self, error: Exception, then: str) -> None:
        """Tell the error, and what happens `then`, if it was not told since `clear`."""
        kind = "no answer" if isinstance(error, UnreachableError) else str(error)
        if kind not in self._told and len(self._told) < _MOST_TROUBLES:
            self._told.add(kind)
            self._tell(f"{error}; {then}")

    def clear(self) -> bool:
        """All is well: tell each trouble again from now on. Returns whether any was told."""
        told, self._told = bool(self._told), set()
        return told


class Watcher:
    """One thread calls `run`; any other thread may call `status` and `snapshot`."""

    def __init__(self, options: WatchOptions, on_note: Callable[[str], None]) -> None:
        self._options, self._note = options, on_note
        self._topics = WatchedTopics()
        self._identity: TopicIdentity | None = None
        self._seen: TopicIdentity | None = None  # at the latest look
        self._positions: dict[int, int] = {}
        self._history: dict[int, int] = {}  # offsets before these are from before the start
        self._target: dict[int, int] = {}  # where the topic ended at the start
        self._all_is_new = False  # there was no topic at the start
        self._up = self._caught_up = False
        self._lag = self._errors = 0
        self._resumed: WatchState | None = None
        self._troubles, self._state_troubles = Troubles(on_note), Troubles(on_note)
        self._hidden: set[str] = set()  # hidden topics that the user was told of
        self._next_look = self._next_save = 0.0
        self._changed = False
        if options.state is not None:
            self._resumed = load_state(options.state)
        counts = self._resumed.counts if self._resumed is not None else None
        self._fleet = Fleet(self._topics.catalogue, options.limits, on_note, counts)

    def status(self) -> WatchStatus:
        return WatchStatus(self._up, self._caught_up, self._lag, self._errors)

    @property
    def records(self) -> int:
        """How many records were read, without those of groups that are left out."""
        return self._fleet.records.total()

    def snapshot(self) -> FleetSnapshot:
        return self._fleet.snapshot(time.monotonic())

    def run(self, stop: threading.Event) -> None:
        """Watch until `stop` is set or, with `once`, until all records from before the start are read.

        `UserError` if that cannot succeed. If the cluster does not answer, or a right is missing, the watch
        retries after pauses of up to ten seconds; with `once` it is an error.
        """
        try:
            self._run(stop)
            # Not after an unexpected error: the counts may be ahead of the offsets.
            self._save()
        except BaseException:
            self._up = False
            raise

    def _run(self, stop: threading.Event) -> None:
        pause = 1.0
        while not stop.is_set():
            try:
                with contextlib.closing(self._open()) as reader:
                    self._read(reader, stop)
                    if self._options.once and self._caught_up:
                        return
            except ClusterError as error:
                pause = 1.0 if self._up else pause
                self._up = False
                self._errors += 1
                self._all_is_new = self._all_is_new or isinstance(error, NoTopicError)
                never = isinstance(error, ConfigurationError)
                if self._options.once or (never and not self._caught_up):
                    raise UserError(str(error)) from None
                self._troubles.add(error, "trying again until it succeeds")
                stop.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _open(self) -> RecordReader:
        """A reader that continues where the last one ended."""
        options = self._options
        identity, offsets = self._look()
        if self._identity is None:
            self._require_same(identity)
            self._target = {partition: end for partition, (_, end) in offsets.items()}
            if self._resumed is not None:
                saved = self._resumed.offsets
                self._history = {each: self._position(each, saved, *found) for each, found in offsets.items()}
            elif not (options.once or self._all_is_new):
                self._history = dict(self._target)
        elif identity.topic_id != self._identity.topic_id:
            raise UserError(f"topic {options.topic} was made anew: start the watch again, without its state")
        self._identity = self._seen = identity
        self._positions = {
            each: self._position(each, self._positions, *found) for each, found in offsets.items()
        }
        self._look_at_topics()
        return RecordReader(self._connection(), options.topic, self._positions)

    def _connection(self) -> Connection:
        options = self._options
        return Connection(options.bootstrap_servers, options.client_config, options.timeout_s)

    def _look(self) -> tuple[TopicIdentity, dict[int, tuple[int, int]]]:
        """The topic, and the earliest and latest offset of each partition.

        `ConfigurationError` if no later attempt can succeed, another `ClusterError` otherwise.
        """
        connection, topic = self._connection(), self._options.topic
        identity = identify_topic(connection, topic)
        return identity, list_offsets(connection, topic, range(identity.partitions), connection.timeout_s)

    def _position(self, partition: int, known: Mapping[int, int], start: int, end: int) -> int:
        """Where to go on in a partition; a note if records in between are lost."""
        at = known.get(partition, start)
        where = f"{self._options.topic}[{partition}]"
        if at < start:
            self._note(
                f"warning: {where}: the log begins at offset {start}, and was read up to {at}: "
                f"{start - at} offsets were deleted before they were read"
            )
            return start
        if at > end:
            self._note(
                f"warning: {where}: the log ends at offset {end}, and was read up to {at}: it was "
                "truncated; the lost records stay counted"
            )
            return end
        return at

    def _require_same(self, found: TopicIdentity) -> None:
        state, file = self._resumed, self._options.state
        if state is None:
            return
        if (state.cluster_id, state.topic_id) != (found.cluster_id, found.topic_id):
            raise UserError(
                f"{file}: the state is of topic {state.topic_id} of cluster {state.cluster_id}, and this is "
                f"topic {found.topic_id} of cluster {found.cluster_id}; give each cluster a file of its own"
            )

    def _read(self, reader: RecordReader, stop: threading.Event) -> None:
        """Read until `stop` is set, or until another reader is needed."""
        while not stop.is_set():
            for record in reader.poll(_POLL_S):
                history = record.offset < self._history.get(record.partition, 0)
                if self._fleet.feed(record, time.monotonic(), history=history) is not None and not history:
                    self._changed = True
            self._positions = dict(reader.positions)
            self._note_health(reader)
            if not self._caught_up and self._has_caught_up(reader):
                # The topics of the groups are known from here on.
                with contextlib.suppress(ClusterError):
                    self._look_at_topics()
                self._caught_up = True
                self._fleet.forget_earlier()
            if self._options.once and self._caught_up:
                return
            self._lag = reader.lag()
            self._look_after(reader)
            if self._seen != self._identity:
                return  # there are more partitions, or the topic was recreated

    def _has_caught_up(self, reader: RecordReader) -> bool:
        return not reader.unread and all(
            self._positions.get(partition, end) >= end for partition, end in self._target.items()
        )

    def _note_health(self, reader: RecordReader) -> None:
        if reader.down:
            self._errors += self._up
            self._up = False
            self._next_look = min(self._next_look, time.monotonic() + _LOOK_DOWN_S)
            self._troubles.add(UnreachableError("no broker answers"), "waiting for one")
        elif not (self._up or reader.unread):
            # Only after a read, since the brokers check the right to read with it.
            self._up = True
            if self._troubles.clear():
                self._note(f"reading {self._options.topic} of {self._options.bootstrap_servers} again")

    def _look_after(self, reader: RecordReader) -> None:
        """Do what is due: forget groups, look at the cluster, write the state file."""
        now = time.monotonic()
        if now >= self._next_look:
            self._fleet.evict(time.monotonic())
            try:
                self._seen, _ = self._look()
                self._look_at_topics()
                reader.down = False
            except ClusterError as error:
                if self._options.once:
                    raise
                # librdkafka says once that all brokers are down, and records that came before may follow.
                reader.down = reader.down or isinstance(error, UnreachableError)
            self._next_look = time.monotonic() + (_LOOK_DOWN_S if reader.down else self._options.look_s)
        if now >= self._next_save:
            self._save()

    def _look_at_topics(self) -> None:
        """Note the partitions of the topics, and name hidden topics, each once until it is visible."""
        connection = self._connection()
        found = [*live_topics(connection)]
        self._topics.note(found, datetime.now(timezone.utc))
        visible = {live.topic.name for live in found}
        self._hidden &= self._fleet.topics() - visible
        unknown = sorted(self._fleet.topics() - visible - self._hidden)[:_MOST_ASKED]
        if hidden := describe_topics(connection, unknown).hidden:
            self._hidden |= hidden
            self._note(
                "warning: topics of the groups are hidden, so their partitions are taken from the records: "
                f"this principal needs Describe on Topic {some_of([*map(repr, sorted(hidden))], 5)}"
            )
        self._next_look = time.monotonic() + self._options.look_s

    def _save(self) -> None:
        """Write the state, if a record was counted since the last time."""
        self._next_save = time.monotonic() + _SAVE_S
        file, identity = self._options.state, self._identity
        # Before the history is read, the counts of the last run are not all taken over.
        if file is None or identity is None or not (self._changed and self._caught_up):
            return
        counts = {key: group.counts for key, group in self._fleet.groups.items()}
        try:
            save_state(file, WatchState(identity.cluster_id, identity.topic_id, self._positions, counts))
        except UserError as error:
            self._errors += 1
            self._state_troubles.add(error, "trying again")
        else:
            self._changed = False
            self._state_troubles.clear()


_STATE_FORMAT = 1


@dataclass(frozen=True, slots=True)
class WatchState:
    """The state of a watch: the `counts` of each group, by the bytes of its id, cover all records before
    `offsets`, the next of each partition."""

    cluster_id: str
    topic_id: str
    offsets: dict[int, int]
    counts: dict[bytes, Counts]


def load_state(file: Path) -> WatchState | None:
    """The state in the file; None if there is no file. `UserError` if it is not the state of a watch."""
    try:
        text = file.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UserError(f"{file}: cannot be read: {error.strerror}") from None
    try:
        found = json.loads(text)
        if found.pop("format") != _STATE_FORMAT:
            raise ValueError("another format")
        offsets = {int(partition): int(offset) for partition, offset in found.pop("offsets").items()}
        groups = found.pop("counts").items()
        counts = {group.encode(errors=_ANY_BYTES): Counts.from_json(each) for group, each in groups}
        return WatchState(offsets=offsets, counts=counts, **found)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UserError(
            f"{file}: not the state of a watch: {type(error).__name__}: {error}; remove the file and all "
            "counts start at 0"
        ) from None


_ANY_BYTES = "surrogateescape"


def save_state(file: Path, state: WatchState) -> None:
    """Replace the file, not a link to it; `UserError` if it cannot be written, and the old file stays."""
    counts = {group.decode(errors=_ANY_BYTES): to_json(each) for group, each in state.counts.items()}
    text = json.dumps(
        {
            "format": _STATE_FORMAT,
            "cluster_id": state.cluster_id,
            "topic_id": state.topic_id,
            "offsets": dict(state.offsets),
            "counts": counts,
        }
    )
    target = Path(os.path.realpath(file))
    # Always the same name: a killed process leaves one file, which the next write removes.
    part = target.with_name(target.name + ".part")
    try:
        part.unlink(missing_ok=True)
        with open(part, "xb", opener=_open_private) as stream:
            stream.write(text.encode())
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(target)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise UserError(f"{file}: the state cannot be written: {error.strerror}") from None


def _open_private(path: str, flags: int) -> int:
    """Groups and their topics concern only the user that may read the offsets topic."""
    return os.open(path, flags, 0o600)
