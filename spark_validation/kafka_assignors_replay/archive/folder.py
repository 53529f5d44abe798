"""The files of an archive: how one gets there as a whole or not at all, and how a run opens the archive.

On a disk and in HDFS a file is written under a hidden name and renamed; on a disk it is synced before, and
its folder after. An object store has no rename, only copies, so the file is written under its own name there:
it appears when its upload ends. A process that is killed leaves at most a hidden file, or a torn newest file;
the next run removes it, and reads the records of that batch again.

The manifest names the topic and the cluster; it is written once, and every run is compared with it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from kafka_assignors_confluent.topic_metadata import LiveTopic, TopicIdentity
from kafka_assignors_replay.archive import ArchiveError, ArchiveState
from kafka_assignors_replay.catalogue import CatalogueEntry, changed_entry
from kafka_assignors_replay.history.records import from_micros, to_micros
from kafka_assignors_replay.result import MANIFEST
from kafka_assignors_replay.schemas import ARCHIVED, TOPICS, record_batch

FORMAT = 2
RAW_FOLDER, TOPICS_FOLDER = "raw", "topics"
_STATE = b"kafka-assignors"
"""The key of an `ArchiveState` in the footer of a file."""

_LOCK = ".lock"
_OURS = re.compile(r"(?:.*/)?(\d{10,})-[0-9a-f]{6}\.parquet")


def _plain(name: str) -> str:
    return name.rpartition("/")[2]


def _number(name: str) -> int | None:
    """The number that an archiver gave to this file; None for a file of others."""
    found = _OURS.fullmatch(name)
    return None if found is None else int(found[1])


def without_password(path: str) -> str:
    """The path or URL without a user and password."""
    return re.sub(r"//[^/@]*@", "//", path)


class Folder:
    """A folder on a disk or at a URL that pyarrow knows. Names are relative to it, with slashes.

    `files` is the file system of a path, by default a disk; `renames` says whether its rename is atomic.
    """

    def __init__(self, path: str, files: fs.FileSystem | None = None, *, renames: bool = False) -> None:
        self.path = without_password(path)
        """For messages."""
        if files is not None or "://" not in path:
            self._files, self._root = files or fs.LocalFileSystem(), os.path.abspath(path)
        else:
            try:
                self._files, self._root = fs.FileSystem.from_uri(re.sub("^s3a:", "s3:", path))
            except (pa.ArrowException, ValueError) as error:
                raise ArchiveError(f"{self.path}: {_first_line(error)}") from None
        self._root = self._root.rstrip("/")
        self.local = isinstance(self._files, fs.LocalFileSystem)
        self._renames = renames or self.local or isinstance(self._files, fs.HadoopFileSystem)

    def at(self, name: str) -> str:
        """The path of a file for a message."""
        return f"{self.path.rstrip('/')}/{name}"

    def _place(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    def names(self, folder: str, *, recursive: bool = True) -> list[str]:
        """The files and folders in a folder, hidden ones too, in the order of their own names."""
        selector = fs.FileSelector(self._place(folder), recursive=recursive, allow_not_found=True)
        start = len(self._root) + 1
        found = (
            info.path[start:] for info in self._files.get_file_info(selector) if info.is_file or not recursive
        )
        return sorted(found, key=_plain)

    def read(self, name: str) -> bytes | None:
        """The content of a file, None if there is no such file; `OSError` if it cannot be read."""
        try:
            with self._files.open_input_stream(self._place(name)) as file:
                return bytes(file.read())
        except FileNotFoundError:
            return None

    def read_table(self, name: str) -> pa.Table:
        """The table in a file, every page of it checked."""
        with self._files.open_input_file(self._place(name)) as file:
            return pq.ParquetFile(file, page_checksum_verification=True).read()

    def state_of(self, name: str) -> ArchiveState:
        """The state in the footer of a batch."""
        with self._files.open_input_file(self._place(name)) as file:
            metadata = pq.ParquetFile(file).schema_arrow.metadata or {}
        try:
            return ArchiveState.from_json(metadata[_STATE])
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ArchiveError(f"{self.at(name)}: its footer is not that of an archive: {error!r}") from None

    def write_table(self, name: str, table: pa.Table) -> None:
        buffer = pa.BufferOutputStream()
        pq.write_table(table, buffer, compression="zstd", write_page_checksum=True)
        self.write(name, buffer.getvalue())

    def write(self, name: str, content: bytes | pa.Buffer) -> None:
        """Write a file that is there as a whole or not at all."""
        folder, slash, plain = name.rpartition("/")
        self._files.create_dir(self._place(folder), recursive=True)
        beside = f"{folder}{slash}.{plain}" if self._renames else name
        try:
            with self._files.open_output_stream(self._place(beside)) as file:
                file.write(content)
            # Closing a stream after an error ends an upload all the same.
            size = self._files.get_file_info(self._place(beside)).size
            if size != len(content):
                raise OSError(f"it has {size} bytes in place of {len(content)}")
        except OSError as error:
            with contextlib.suppress(OSError):
                self.delete(beside)
            raise OSError(f"{self.at(name)} cannot be written: {_first_line(error)}") from None
        if self._renames:
            self._sync(beside)
            self._files.move(self._place(beside), self._place(name))
            self._sync(folder)

    def delete(self, name: str) -> None:
        self._files.delete_file(self._place(name))

    def _sync(self, name: str) -> None:
        if self.local:
            opened = os.open(self._place(name), os.O_RDONLY)
            try:
                os.fsync(opened)
            finally:
                os.close(opened)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder for the block, on a disk; elsewhere `Archive.write` finds another archiver.

        The operating system releases the lock when the process ends in any way.
        """
        self._files.create_dir(self._root, recursive=True)
        if not self.local:
            yield
            return
        with open(self._place(_LOCK), "ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise another_archiver(self) from None
            yield


def another_archiver(folder: Folder) -> ArchiveError:
    return ArchiveError(
        f"{folder.path}: another archiver writes to this archive: stop it first, or give this one a folder "
        "of its own"
    )


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _is_torn(folder: Folder, name: str) -> bool:
    content = folder.read(name)
    if content is None:
        raise FileNotFoundError(f"{folder.at(name)} was removed while the archive was opened")
    # Parsed from memory: pyarrow has the same errors for a file that is not whole and for a store that does
    # not give it, and after the latter the file must stay.
    try:
        pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True).read()
    except (pa.ArrowException, OSError):
        return True
    return False


class Archive:
    """The archive in a folder, with its `state`. `open` makes it."""

    def __init__(self, folder: Folder, manifest: TopicIdentity, on_warning: Callable[[str], None]) -> None:
        self.folder, self.manifest, self._warn = folder, manifest, on_warning
        self._run = secrets.token_hex(3)
        names = {kind: self._cleaned(kind) for kind in (RAW_FOLDER, TOPICS_FOLDER)}
        self.state, self._newest = ArchiveState(), ""
        if batches := names[RAW_FOLDER]:
            self._require_single(batches)
            self._newest = batches[-1]
            self.state = folder.state_of(self._newest)
        self._known: dict[str, CatalogueEntry] = {}
        self._looks = 0
        for name in names[TOPICS_FOLDER]:
            self._looks = _number(name) or 0
            for row in folder.read_table(name).to_pylist():
                since = row["from"] and to_micros(row["from"])
                self._known[row["topic"]] = CatalogueEntry.from_row({**row, "from": since})

    @classmethod
    @contextlib.contextmanager
    def open(
        cls, folder: Folder, found: TopicIdentity, on_warning: Callable[[str], None] = lambda _: None
    ) -> Iterator[Archive]:
        """Open the archive for this process alone until the block ends; an empty folder becomes one.

        `ArchiveError` if the folder has an archive of another topic, or other files, or is open elsewhere.
        """
        _require_ours(folder)
        with folder.locked():
            ours = (json.dumps({"format": FORMAT, **asdict(found)}, indent=1) + "\n").encode()
            text = folder.read(MANIFEST)
            if text is None or (text != ours and ours.startswith(text)):  # not written to its end
                folder.write(MANIFEST, ours)
            else:
                require_same(folder.path, _manifest(folder.at(MANIFEST), text), found)
            yield cls(folder, found, on_warning)

    def _cleaned(self, kind: str) -> list[str]:
        """The files that archivers wrote, in order, without those that were not finished."""
        names = self.folder.names(kind)
        for name in names:
            if _plain(name).startswith("."):
                self.folder.delete(name)
        ours = [name for name in names if _number(name) is not None]
        whole = [name for name in names if not _plain(name).startswith((".", "_"))]
        if whole and not ours and kind == RAW_FOLDER:
            raise ArchiveError(
                f"{self.folder.at(kind)}: no file here is as an archiver wrote it, so the archived offsets "
                "are not known; restore the newest file, or begin another archive"
            )
        if not ours or not _is_torn(self.folder, ours[-1]):
            return ours
        # Every file is complete before the next is begun, so an archiver tears one file at most.
        if len(ours) > 1 and _is_torn(self.folder, ours[-2]):
            raise ArchiveError(
                f"{self.folder.at(ours[-1])} is damaged, and the file before it too: restore them, or begin "
                "another archive"
            )
        self._warn(f"{self.folder.at(ours[-1])} was not written to its end: it is removed and written again")
        self.folder.delete(ours[-1])
        return ours[:-1]

    def _require_single(self, batches: Sequence[str]) -> None:
        """`ArchiveError` if two archivers wrote the same batch; it names the files that no other follows."""
        numbers = [_number(name) or 0 for name in batches]
        number, count = Counter(numbers).most_common(1)[0]
        if count == 1:
            return
        of = {
            name: self.folder.state_of(name)
            for name, each in zip(batches, numbers, strict=True)
            if each >= number
        }
        twice = [name for name, state in of.items() if state.batches == number]
        followed = {state.follows for state in of.values()}
        kept = next((name for name in twice if _plain(name) in followed), None) or max(
            twice, key=lambda name: of[name].counts.offsets
        )
        others = ", ".join(self.folder.at(name) for name in twice if name != kept)
        raise ArchiveError(
            f"{self.folder.path}: two archivers wrote batch {number}; stop one of them and delete {others}: "
            f"{_plain(kept)} has these records, too"
        )

    def write(self, rows: Sequence[tuple[Any, ...]], state: ArchiveState, last_micros: int) -> None:
        """Write a batch: the rows, in the columns of `schemas.RAW`, and the `state` after it.

        `last_micros` is the latest time of the rows; the file lies in the folder of this date.
        """
        state = state.copy()
        state.batches, state.follows = self.state.batches + 1, _plain(self._newest)
        date = f"date={from_micros(last_micros).date()}"
        name = f"{RAW_FOLDER}/{date}/{state.batches:010d}-{self._run}.parquet"
        rows = [(*row, self.manifest.cluster_id) for row in rows]
        batches = [record_batch(rows, ARCHIVED)] if rows else []
        table = pa.Table.from_batches(batches, ARCHIVED)
        self.folder.write_table(name, table.replace_schema_metadata({_STATE: state.to_json()}))
        if not self.folder.local and self._other(name, state.batches, date):
            self.folder.delete(name)
            raise another_archiver(self.folder)
        self.state, self._newest = state, name

    def _other(self, name: str, number: int, date: str) -> bool:
        """Whether there is another file of this batch, or of a later one."""
        first = min(date, *self._newest.split("/")[1:2])
        dates = [each for each in self.folder.names(RAW_FOLDER, recursive=False) if _plain(each) >= first]
        files = (file for each in dates for file in self.folder.names(each) if file != name)
        return any(found is not None and found >= number for found in map(_number, files))

    def note(self, found: Iterable[LiveTopic], now: datetime) -> int:
        """Write the topics that have changed since the last look; returns how many there are.

        The state of a topic before its first look is not known: that entry has no `from`, and holds for all
        times before the next. A deleted topic keeps its entries.
        """
        changes = (
            changed_entry(self._known.get(live.topic.name), live.topic, now, racks_known=live.complete)
            for live in found
        )
        if new := [entry for entry in changes if entry is not None]:
            self._looks += 1
            table = pa.Table.from_batches([record_batch([entry.row() for entry in new], TOPICS)])
            self.folder.write_table(f"{TOPICS_FOLDER}/{self._looks:010d}-{self._run}.parquet", table)
            self._known.update((entry.topic.name, entry) for entry in new)
        return len(new)


def _require_ours(folder: Folder) -> None:
    """`ArchiveError` for a folder that has other files and no manifest."""
    there = [each for each in map(_plain, folder.names("", recursive=False)) if not each.startswith(".")]
    if there and MANIFEST not in there:
        raise ArchiveError(
            f"{folder.path}: {', '.join(there[:3])} is there already, and no {MANIFEST}: this is not an "
            "archive; give a folder of its own"
        )


def _manifest(where: str, text: bytes) -> TopicIdentity:
    try:
        read: dict[str, Any] = json.loads(text)
        number = read["format"]
        if number == 1:
            raise ArchiveError(
                f"{where}: this archive has format 1, and archives have format {FORMAT}: begin another one; "
                "replay reads both"
            )
        if number != FORMAT:
            raise ArchiveError(f"{where}: format {number!r}, and this version knows {FORMAT}")
        return TopicIdentity(**{field.name: read[field.name] for field in fields(TopicIdentity)})
    except (ValueError, TypeError, KeyError) as error:
        raise ArchiveError(f"{where}: not the manifest of an archive: {error!r}") from None


def require_same(where: str, archived: TopicIdentity, found: TopicIdentity) -> None:
    """`ArchiveError` if `found` is not the topic of the archive at `where`."""
    if archived.cluster_id != found.cluster_id:
        raise ArchiveError(
            f"{where} is the archive of cluster {archived.cluster_id}, and this is cluster "
            f"{found.cluster_id}: give each cluster a folder of its own"
        )
    if archived.topic != found.topic:
        raise ArchiveError(
            f"{where} is the archive of topic {archived.topic}, not of {found.topic}: "
            "give each a folder of its own"
        )
    if archived.topic_id != found.topic_id:
        raise ArchiveError(
            f"topic {found.topic} was recreated since {where} was begun (its id was {archived.topic_id}, "
            f"and is {found.topic_id}): offsets start over, so begin another archive; this one stays readable"
        )
    if archived.partitions != found.partitions:
        raise ArchiveError(
            f"topic {found.topic} has {found.partitions} partitions, and had {archived.partitions} when "
            f"{where} was begun: groups live in other partitions now, so begin another archive; this one "
            "stays readable"
        )
