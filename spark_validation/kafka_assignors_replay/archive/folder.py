"""The files of an archive: how one gets there as a whole or not at all, and how a run opens the archive.

On a disk and in HDFS a file is written under a hidden name and renamed; on a disk it is synced before, and
its folder after. An object store has no rename, only copies, so the file is written under its own name there:
it appears when its upload ends. A process that is killed leaves at most a hidden file, or a torn newest file;
the next run removes it, and reads the records of that batch again.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from kafka_assignors.arguments import UserError
from kafka_assignors_confluent.topic_metadata import LiveTopic, TopicIdentity
from kafka_assignors_replay.catalogue import CatalogueEntry, changed_entry
from kafka_assignors_replay.history.records import from_micros
from kafka_assignors_replay.history_files import first_line, rows_by_name
from kafka_assignors_replay.result import MANIFEST
from kafka_assignors_replay.schemas import ARCHIVED, TOPICS, record_batch

FORMAT = 2
RAW_FOLDER, TOPICS_FOLDER = "raw", "topics"
_LEDGER = b"kafka-assignors"
"""The key of the ledger in the footer of a batch: the file that it `follows`, and the `places` after it."""

_OURS = re.compile(r"(?:.*/)?(\d{10,})-[0-9a-f]{6}\.parquet")


class ArchiveError(UserError):
    """The archiver cannot run as asked: one line that says what is wrong, where, and what to do."""


class Place(NamedTuple):
    """How far a partition was read: the `next` offset to read, and the offset `after` the last record, which
    is below `next` if no records follow it. The leader `epoch` of that record shows later whether the log
    still has it; -1 if unknown."""

    next: int
    after: int
    epoch: int


def _plain(name: str) -> str:
    return name.rpartition("/")[2]


def _number(name: str) -> int:
    """The number, from 1 up, that an archiver gave to this file; 0 for a file of others."""
    found = _OURS.fullmatch(name)
    return 0 if found is None else int(found[1])


def without_password(path: str) -> str:
    """The path, or a text with a URL, without a user and password, which may have a / or @ in it."""
    return re.sub(r"//(?:[^/@\s]*:\S*|[^/@\s]*)@", "//", path)


class Folder:
    """A folder on a disk or at a URL that pyarrow knows. Names are relative to it, with slashes.

    `files` is the file system of a path, by default a disk; `renames` says whether its rename is atomic.
    """

    def __init__(self, path: str, files: fs.FileSystem | None = None, *, renames: bool = False) -> None:
        self.path = without_password(path)
        """For messages."""
        self._root = os.path.abspath(path)
        if files is None and "://" in path:
            try:
                files, self._root = fs.FileSystem.from_uri(re.sub("^s3a:", "s3:", path))
            except (pa.ArrowException, ValueError) as error:
                raise ArchiveError(f"{self.path}: {without_password(first_line(error))}") from None
        files = files or fs.LocalFileSystem()
        self._files = fs.SubTreeFileSystem(self._root, files)
        self.local = isinstance(files, fs.LocalFileSystem)
        self._renames = renames or self.local or isinstance(files, fs.HadoopFileSystem)
        self._lock = os.path.join(self._root, ".lock")
        self._locked: os.stat_result | None = None

    def at(self, name: str) -> str:
        """The path of a file for a message."""
        return f"{self.path.rstrip('/')}/{name}"

    def names(self, folder: str, *, recursive: bool = True) -> list[str]:
        """The files in a folder, hidden ones too, in the order of their own names; if it is not `recursive`,
        also the folders there."""
        found = self._files.get_file_info(fs.FileSelector(folder, recursive=recursive, allow_not_found=True))
        return sorted((each.path for each in found if each.is_file or not recursive), key=_plain)

    def read(self, name: str) -> bytes:
        """The content of a file; `OSError` if there is none, or if the store does not give it."""
        with self._files.open_input_stream(name) as file:
            return bytes(file.read())

    def read_table(self, name: str) -> pa.Table:
        """The table in a file, every page of it checked; `ArchiveError` if it was not written to its end."""
        # Parsed from memory: pyarrow has the same errors for a file that is not whole and for a store that
        # does not give it, and after the latter the file must stay.
        content = self.read(name)
        try:
            return pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True).read()
        except (pa.ArrowException, OSError):
            damaged = f"{self.at(name)} is damaged: restore it, or begin another archive"
            raise ArchiveError(damaged) from None

    def write_table(self, name: str, rows: Sequence[tuple[object, ...]], schema: pa.Schema) -> None:
        table = pa.Table.from_batches([record_batch(rows, schema)] if rows else [], schema)
        buffer = pa.BufferOutputStream()
        pq.write_table(table, buffer, compression="zstd", write_page_checksum=True)
        self.write(name, buffer.getvalue())

    def write(self, name: str, content: bytes | pa.Buffer) -> None:
        """Write a file that is there as a whole or not at all.

        `ArchiveError` if the folder is no longer the locked one: the path would become a folder without a
        manifest, or have the files of two archivers.
        """
        there = os.path.exists(self._lock)
        if self._locked and not (there and os.path.samestat(self._locked, os.stat(self._lock))):
            raise ArchiveError(
                f"{self.path}: the folder was moved, replaced or deleted while it was archived to"
            )
        folder, slash, plain = name.rpartition("/")
        self._files.base_fs.create_dir(f"{self._files.base_path}{folder}".rstrip("/"), recursive=True)
        beside = f"{folder}{slash}.{plain}" if self._renames else name
        try:
            with self._files.open_output_stream(beside) as file:
                file.write(content)
            # Closing a stream after an error ends an upload all the same.
            if (size := self._files.get_file_info(beside).size) != len(content):
                raise OSError(f"it has {size} bytes in place of {len(content)}")
        except OSError as error:
            with contextlib.suppress(OSError):
                self.delete(beside)
            raise OSError(f"{self.at(name)} cannot be written: {first_line(error)}") from None
        if self._renames:
            self._sync(beside)
            self._files.move(beside, name)
            self._sync(folder)

    def delete(self, name: str) -> None:
        self._files.delete_file(name)

    def _sync(self, name: str) -> None:
        if self.local:
            opened = os.open(os.path.join(self._root, name), os.O_RDONLY)
            try:
                os.fsync(opened)
            finally:
                os.close(opened)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder for the block, on a disk; elsewhere `Archive.write` finds another archiver.

        The operating system releases the lock when the process ends in any way.
        """
        if not self.local:
            yield
            return
        os.makedirs(self._root, exist_ok=True)
        with open(self._lock, "ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise self.another_archiver() from None
            self._locked = os.fstat(file.fileno())
            yield

    def another_archiver(self) -> ArchiveError:
        return ArchiveError(
            f"{self.path}: another archiver writes to this archive: stop it first, or give this one a folder "
            "of its own"
        )


class Archive:
    """The archive in a folder: the `places` of the partitions after all batches. `open` makes it."""

    def __init__(self, folder: Folder, manifest: TopicIdentity, on_warning: Callable[[str], None]) -> None:
        self.folder, self.manifest, self._warn = folder, manifest, on_warning
        self._run = secrets.token_hex(3)
        batches, looks = self._cleaned(RAW_FOLDER), self._cleaned(TOPICS_FOLDER)
        self._require_single(batches)
        self._newest, self._newest_look = (names[-1] if names else "" for names in (batches, looks))
        self.places = self._ledger(self._newest)[1] if batches else dict[int, Place]()
        self._known: dict[str, CatalogueEntry] = {}
        for name in looks:
            for row in rows_by_name(folder.read_table(name), TOPICS):
                self._known[row["topic"]] = CatalogueEntry.from_row(row)

    @classmethod
    @contextlib.contextmanager
    def open(
        cls, folder: Folder, found: TopicIdentity, on_warning: Callable[[str], None] = lambda _: None
    ) -> Iterator[Archive]:
        """Open the archive for this process alone until the block ends; an empty folder becomes one.

        `ArchiveError` if the folder has an archive of another topic, or other files, or is open elsewhere.
        """
        there = [each for each in folder.names("", recursive=False) if not each.startswith(".")]
        if there and MANIFEST not in there:
            raise ArchiveError(
                f"{folder.path}: {', '.join(there[:3])} is there already, and no {MANIFEST}: this is not an "
                "archive; give a folder of its own"
            )
        with folder.locked():
            ours = (json.dumps({"format": FORMAT, **asdict(found)}, indent=1) + "\n").encode()
            text = folder.read(MANIFEST) if MANIFEST in folder.names("", recursive=False) else b""
            if text != ours and ours.startswith(text):  # It is not there, or was not written to its end.
                folder.write(MANIFEST, text := ours)
            try:
                _require_same(folder.at(MANIFEST), dict(json.loads(text)), found)
            except (ValueError, TypeError) as error:
                where = folder.at(MANIFEST)
                raise ArchiveError(f"{where}: not the manifest of an archive: {error!r}") from None
            yield cls(folder, found, on_warning)

    def require(self, found: TopicIdentity) -> None:
        """`ArchiveError` if the topic is no longer that of the archive."""
        _require_same(self.folder.path, {"format": FORMAT, **asdict(self.manifest)}, found)

    def _cleaned(self, kind: str) -> list[str]:
        """The files that archivers wrote, in order, without those that were not finished."""
        names = self.folder.names(kind)
        for name in names:
            if _plain(name).startswith("."):
                self.folder.delete(name)
        ours = [name for name in names if _number(name)]
        whole = [name for name in names if not _plain(name).startswith((".", "_"))]
        if whole and not ours and kind == RAW_FOLDER:
            raise ArchiveError(
                f"{self.folder.at(kind)}: no file here is as an archiver wrote it, so the archived offsets "
                "are not known; restore the newest file, or begin another archive"
            )
        try:
            for newest in ours[-1:]:
                self.folder.read_table(newest)
        except ArchiveError:
            # Every file is complete before the next is begun, so an archiver tears one file at most.
            for before in ours[-2:-1]:
                self.folder.read_table(before)
            torn = ours.pop()
            self._warn(f"{self.folder.at(torn)} was not written to its end: it is removed and written again")
            self.folder.delete(torn)
        return ours

    def _ledger(self, name: str) -> tuple[str, dict[int, Place]]:
        metadata = self.folder.read_table(name).schema.metadata or {}
        try:
            read = json.loads(metadata[_LEDGER])
            places = {int(number): Place(*map(int, place)) for number, place in read["places"].items()}
            return str(read["follows"]), places
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            where = self.folder.at(name)
            raise ArchiveError(f"{where}: its footer is not that of an archive: {error!r}") from None

    def _require_single(self, batches: Sequence[str]) -> None:
        """`ArchiveError` if two archivers wrote the same batch; it names the files that no other follows."""
        number, count = Counter(map(_number, batches)).most_common(1)[0] if batches else (0, 0)
        if count < 2:
            return
        followed = {self._ledger(name)[0] for name in batches if _number(name) == number + 1}

        def rank(name: str) -> tuple[bool, int]:
            return _plain(name) in followed, sum(place.next for place in self._ledger(name)[1].values())

        *others, kept = sorted((name for name in batches if _number(name) == number), key=rank)
        raise ArchiveError(
            f"{self.folder.path}: two archivers wrote batch {number}; stop one of them and delete "
            f"{', '.join(map(self.folder.at, others))}: {_plain(kept)} has these records, too"
        )

    def write(
        self, rows: Sequence[tuple[object, ...]], places: Mapping[int, Place], last_micros: int
    ) -> None:
        """Write a batch: the rows, in the columns of `schemas.RAW`, and the `places` after it.

        `last_micros` is the latest time of the rows; the file lies in the folder of this date.
        """
        date = f"date={from_micros(last_micros).date()}"
        name = self._next(f"{RAW_FOLDER}/{date}", self._newest)
        ledger = json.dumps({"follows": _plain(self._newest), "places": places})
        rows = [(*row, self.manifest.cluster_id) for row in rows]
        self.folder.write_table(name, rows, ARCHIVED.with_metadata({_LEDGER: ledger}))
        if not self.folder.local and self._other(name, date):
            self.folder.delete(name)
            raise self.folder.another_archiver()
        self.places, self._newest = dict(places), name

    def _next(self, folder: str, newest: str) -> str:
        return f"{folder}/{_number(newest) + 1:010d}-{self._run}.parquet"

    def _other(self, name: str, date: str) -> bool:
        """Whether there is another file of this batch, or of a later one."""
        first = min(date, *self._newest.split("/")[1:2])
        dates = [each for each in self.folder.names(RAW_FOLDER, recursive=False) if _plain(each) >= first]
        files = (file for each in dates for file in self.folder.names(each) if file != name)
        return any(_number(file) >= _number(name) for file in files)

    def note(self, found: Iterable[LiveTopic], now: datetime) -> int:
        """Write the topics that have changed since the last look; returns how many there are.

        The state of a topic before its first look is not known: that entry has no `from`, and holds for all
        times before the next. A deleted topic keeps its entries.
        """
        new: dict[str, CatalogueEntry] = {}
        for name, live in ((live.topic.name, live) for live in found):
            if entry := changed_entry(self._known.get(name), live.topic, now, racks_known=live.complete):
                new[name] = entry
        if new:
            self._newest_look = self._next(TOPICS_FOLDER, self._newest_look)
            self.folder.write_table(self._newest_look, [entry.row() for entry in new.values()], TOPICS)
            self._known.update(new)
        return len(new)


_CHANGES = {
    "format": "it has the format of another version",
    "cluster_id": "this is another cluster",
    "topic": "this is another topic",
    "topic_id": "the topic was recreated, and its offsets start over",
    "partitions": "the topic has other partitions, and groups live elsewhere",
}
"""What it means if an entry of the manifest is not that of the topic."""


def _require_same(where: str, archived: Mapping[str, object], found: TopicIdentity) -> None:
    for name, now in {"format": FORMAT, **asdict(found)}.items():
        if (before := archived.get(name)) != now:
            raise ArchiveError(
                f"{where}: {_CHANGES[name]} (its {name} was {before}, and is {now}): begin another archive; "
                "this one stays readable"
            )
