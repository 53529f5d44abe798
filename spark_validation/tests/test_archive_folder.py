"""The files of an archive: each record is in exactly one, also if a process ends at any change of them."""

from __future__ import annotations

import errno
import io
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Node
from pyarrow import fs

from kafka_assignors.group import Topic
from kafka_assignors_confluent import topic_metadata
from kafka_assignors_confluent.topic_metadata import DescribedTopics, LiveTopic, TopicIdentity, live_topics
from kafka_assignors_replay import archive_command
from kafka_assignors_replay.archive import run as run_module
from kafka_assignors_replay.archive.folder import Archive, ArchiveError, Folder, Place
from kafka_assignors_replay.archive.run import ArchiveOptions, run_archive
from kafka_assignors_replay.history.records import to_micros
from kafka_assignors_replay.history_files import catalogue_of, catalogue_rows, read_records, record_files
from kafka_assignors_replay.result import MANIFEST
from spark_validation.tests.failing_files import FailingFiles, Killed

MIDNIGHT = datetime(2026, 3, 2, tzinfo=timezone.utc)
IDENTITY = TopicIdentity("cluster", "__consumer_offsets", "topic-id", 1)
RECORDS = 12
IN_A_BATCH = 4
TOPICS = (LiveTopic(Topic("orders", 2), complete=True),)

OLD = '{"format": 1, "cluster_id": "c", "topic": "t", "topic_id": "i", "partitions": 1}'

Row = tuple[int, int, int, bytes, bytes]


def row(offset: int) -> Row:
    micros = to_micros(MIDNIGHT + timedelta(hours=offset - RECORDS // 2))
    return 0, offset, micros, b"\0\2\0\1g", b"value of %d" % offset


ALL = [row(offset) for offset in range(RECORDS)]


def archived(archive: Archive) -> int:
    """How many records of the topic the archive has."""
    return archive.places[0].next if archive.places else 0


def archive_next(archive: Archive, records: int = IN_A_BATCH) -> None:
    """Write the records of the topic after those in the archive."""
    first = archived(archive)
    rows = ALL[first : first + records]
    after = first + len(rows)
    archive.write(rows, {0: Place(after, after, 3)}, rows[-1][2])


def archive_all(place: Folder | Path) -> None:
    folder = place if isinstance(place, Folder) else Folder(str(place))
    with Archive.open(folder, IDENTITY) as archive:
        archive.note(TOPICS, MIDNIGHT)
        while archived(archive) < RECORDS:
            archive_next(archive)


def read(path: Path) -> list[Row]:
    """The records in the archive, as the replay reads them, by offset."""
    place, files = record_files(str(path), ())
    return sorted(each for rows, _ in read_records(files, place, IDENTITY.topic) for each in rows)


def readable(path: Path, *, all_are: bool) -> list[int]:
    """The offsets in the files that a reader can read; on a disk a file has its name once it is whole."""
    found: list[int] = []
    for file in path.glob("raw/*/[!.]*.parquet"):
        try:
            found += pq.read_table(file, partitioning=None)["offset"].to_pylist()
        except pa.ArrowInvalid:
            assert not all_are
    return found


def failing(
    path: Path, at: int, *, renames: bool, half: bool = False, error: OSError | None = None
) -> Folder:
    files = fs.PyFileSystem(FailingFiles(at, half=half, error=error))
    return Folder(str(path), files, renames=renames)


def unlocked(path: Path, renames: bool = False) -> Folder:
    return failing(path, 10_000, renames=renames)


def sorted_files(path: Path) -> list[Path]:
    return sorted(path.glob("raw/*/*.parquet"), key=lambda file: file.name)


def assert_refused(path: Path, why: str, identity: TopicIdentity = IDENTITY) -> None:
    with pytest.raises(ArchiveError, match=why), Archive.open(Folder(str(path)), identity):
        pass


ways = pytest.mark.parametrize("renames", [True, False], ids=["rename", "upload"])


@pytest.mark.parametrize("error", [None, OSError(errno.ENOSPC, "No space left")], ids=["killed", "full"])
@pytest.mark.parametrize("half", [False, True], ids=["before", "half-way"])
@ways
def test_each_record_is_in_one_file_wherever_a_process_is_killed_or_a_disk_is_full(
    tmp_path: Path, renames: bool, half: bool, error: OSError | None
) -> None:
    for at in range(1, 100):
        path = tmp_path / str(at)
        killed = False
        try:
            archive_all(failing(path, at, renames=renames, half=half, error=error))
        except (Killed, OSError):
            killed = True
        seen = readable(path, all_are=renames and not half)
        assert len(seen) == len(set(seen)), at
        archive_all(unlocked(path, renames))
        assert read(path) == ALL, at
        assert catalogue_rows(str(path)) is not None
        assert not [file for file in path.rglob(".*") if file.name != ".lock"]
        if not killed:
            # The manifest, the catalogue and three batches: a write, an end, and a rename each.
            assert at - 1 == 5 * (3 if renames else 2)
            return
    pytest.fail("an archive takes more than a hundred changes")


class _UnreadableOnce(FailingFiles):
    """A store that fails at the `at`-th file that is opened, or at its content, as pyarrow does."""

    def __init__(self, at: int, *, content: bool) -> None:
        super().__init__(10_000)
        self._read_at, self._content, self._opened = at, content, 0

    def _open(self, path: str, opened: Any) -> Any:
        self._opened += 1
        if self._opened != self._read_at:
            return opened
        if self._content:
            return pa.PythonFile(_Unreadable(path), mode="r")
        raise OSError("AWS Error SLOW_DOWN during GetObject operation")  # an error of pyarrow has no errno

    def open_input_stream(self, path: str) -> Any:
        return self._open(path, super().open_input_stream(path))

    def open_input_file(self, path: str) -> Any:
        return self._open(path, super().open_input_file(path))


class _Unreadable(io.FileIO):
    def read(self, size: int | None = -1) -> bytes:
        raise OSError("AWS Error NETWORK_CONNECTION during GetObject operation")


@pytest.mark.parametrize("content", [False, True], ids=["open", "read"])
@ways
def test_a_read_that_fails_removes_no_file(tmp_path: Path, renames: bool, content: bool) -> None:
    archive_all(tmp_path)
    before = sorted(tmp_path.rglob("*.parquet"))
    for at in range(1, 100):
        files = fs.PyFileSystem(_UnreadableOnce(at, content=content))
        folder = Folder(str(tmp_path), files, renames=renames)
        try:
            with Archive.open(folder, IDENTITY) as archive:
                assert archived(archive) == RECORDS
        except OSError:
            assert sorted(tmp_path.rglob("*.parquet")) == before, at
        else:
            assert at > 2
            return
    pytest.fail("an archive is opened with fewer than a hundred reads")


def test_on_a_disk_a_file_gets_its_name_after_it_is_synced_and_its_folder_is_synced_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[str, bool]] = []
    sync = os.fsync

    def fsync(opened: int) -> None:
        name = Path(os.readlink(f"/proc/self/fd/{opened}")).name
        synced.append((name, bool(list(tmp_path.glob("raw/*/[0-9]*.parquet")))))
        sync(opened)

    with Archive.open(Folder(str(tmp_path)), IDENTITY) as archive:
        monkeypatch.setattr(os, "fsync", fsync)
        archive_next(archive)
    (file,) = tmp_path.glob("raw/*/*.parquet")
    assert synced == [(f".{file.name}", False), (file.parent.name, True)]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "short": lambda content: content[: len(content) // 2],
    "without its last byte": lambda content: content[:-1],
    "zeros": lambda content: bytes(len(content)),
    "zeros at the end": lambda content: content[: len(content) // 2] + bytes(len(content) // 2),
    "zeros in a page": lambda content: content[:60] + bytes(20) + content[80:],
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_newest_file_that_lost_bytes_with_the_power_is_no_ledger(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    folder, warnings = Folder(str(tmp_path)), list[str]()
    archive_all(folder)
    newest, catalogue = (max(tmp_path.glob(f"{kind}/*.parquet")) for kind in ("raw/*", "topics"))
    for file in (newest, catalogue):
        file.write_bytes(damage(file.read_bytes()))
    with Archive.open(folder, IDENTITY, warnings.append) as archive:
        assert archived(archive) == RECORDS - IN_A_BATCH
        archive_next(archive)
        assert archive.note(TOPICS, MIDNIGHT) == 1
    assert [warning.partition(" ")[0] for warning in warnings] == [str(newest), str(catalogue)]
    assert read(tmp_path) == ALL


def test_two_damaged_files_are_no_work_of_an_archiver_and_stay(tmp_path: Path) -> None:
    archive_all(tmp_path)
    files = sorted_files(tmp_path)
    for file in files[-2:]:
        file.write_bytes(b"")
    assert_refused(tmp_path, r"is damaged: restore it, or begin another")
    assert sorted_files(tmp_path) == files


def test_dates_are_deleted_from_either_end_without_harm(tmp_path: Path) -> None:
    archive_all(tmp_path)
    oldest, newest = sorted((tmp_path / "raw").iterdir())
    for file in oldest.iterdir():
        file.unlink()
    oldest.rmdir()
    left = read(tmp_path)
    archive_all(tmp_path)
    assert read(tmp_path) == left
    for file in newest.iterdir():
        file.unlink()
    archive_all(tmp_path)  # begins again with what the topic still has
    assert read(tmp_path) == ALL


def test_files_of_another_program_are_no_ledger(tmp_path: Path) -> None:
    archive_all(tmp_path)
    for number, file in enumerate(tmp_path.glob("raw/*/*.parquet")):
        file.rename(file.with_name(f"part-{number}.parquet"))
    assert_refused(tmp_path, r"raw: no file here is as an archiver wrote it")


def test_one_archiver_at_a_time_on_a_disk(tmp_path: Path) -> None:
    with Archive.open(Folder(str(tmp_path)), IDENTITY) as archive:
        archive_next(archive)
        assert_refused(tmp_path, "another archiver writes to this archive: stop it first")
        archive_next(archive)
    archive_all(tmp_path)
    assert read(tmp_path) == ALL


@pytest.mark.parametrize("then", ["deleted", "replaced"])
def test_a_folder_that_is_moved_meanwhile_is_not_begun_anew_at_its_old_path(
    tmp_path: Path, then: str
) -> None:
    """The next archiver of the moved folder reads the records again, which must be nowhere else."""
    path, moved = tmp_path / "archive", tmp_path / "moved"
    with Archive.open(Folder(str(path)), IDENTITY) as archive:
        archive_next(archive)
        path.rename(moved)
        if then == "replaced":
            archive_all(path)
        with pytest.raises(ArchiveError, match="archive: the folder was moved, replaced or deleted"):
            archive_next(archive)
    assert path.exists() == (then == "replaced")
    assert then != "replaced" or read(path) == ALL
    archive_all(moved)
    assert read(moved) == ALL


@pytest.mark.parametrize("ahead", [1, 2], ids=["same batch", "an older batch"])
def test_without_locks_the_second_archiver_takes_its_batch_back(tmp_path: Path, ahead: int) -> None:
    with (
        Archive.open(unlocked(tmp_path), IDENTITY) as one,
        Archive.open(unlocked(tmp_path), IDENTITY) as other,
    ):
        for _ in range(ahead):
            archive_next(one)
        with pytest.raises(ArchiveError, match="another archiver writes to this archive"):
            archive_next(other, records=2)
        while archived(one) < RECORDS:
            archive_next(one)
    assert read(tmp_path) == ALL


@pytest.mark.parametrize("ahead", [1, 2], ids=["newest batch", "followed batch"])
def test_a_batch_that_two_archivers_wrote_is_named_with_the_file_to_delete(
    tmp_path: Path, ahead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> bool:
        raise Killed

    with (
        Archive.open(unlocked(tmp_path), IDENTITY) as one,
        Archive.open(unlocked(tmp_path), IDENTITY) as other,
    ):
        for _ in range(ahead):
            archive_next(one)
        monkeypatch.setattr(other, "_other", killed)
        with pytest.raises(Killed):
            archive_next(other, records=2)
    with pytest.raises(ArchiveError, match=r"two archivers wrote batch 1; .* delete (\S+): ") as refused:
        archive_all(unlocked(tmp_path))
    Path(str(refused.value).partition(" delete ")[2].partition(": ")[0]).unlink()
    archive_all(unlocked(tmp_path))
    assert read(tmp_path) == ALL


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"cluster_id": "x"}, "is another cluster .its cluster_id was cluster, and is x.: begin another"),
        ({"topic": "x"}, "this is another topic .its topic was __consumer_offsets, and is x."),
        ({"topic_id": "x"}, "the topic was recreated, and its offsets start over"),
        ({"partitions": 2}, "has other partitions, .* .its partitions was 1, and is 2."),
    ],
)
def test_the_manifest_is_that_of_one_topic(tmp_path: Path, change: dict[str, Any], why: str) -> None:
    archive_all(tmp_path)
    assert_refused(tmp_path, why, replace(IDENTITY, **change))


@pytest.mark.parametrize("text", ["[]", "{}", "nothing", '{"format": 9}', '{"format": 2}', "\xff", OLD])
def test_a_manifest_that_no_archiver_wrote_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / MANIFEST).write_text(text, encoding="latin-1")
    why = "archive.json: it has the format of another .* begin" if text == OLD else MANIFEST
    assert_refused(tmp_path, why)


def test_a_folder_with_other_files_is_refused_and_unchanged(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("")
    assert_refused(tmp_path, r"thesis\.txt is there already, and no archive\.json")
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("state", [b"", b"{}", b"[]", b'{"places": 1, "follows": ""}'])
def test_a_footer_that_no_archiver_wrote_is_refused(tmp_path: Path, state: bytes) -> None:
    archive_all(tmp_path)
    newest = sorted_files(tmp_path)[-1]
    table = pq.read_table(newest, partitioning=None).replace_schema_metadata({b"kafka-assignors": state})
    pq.write_table(table, newest)
    assert_refused(tmp_path, "its footer is not that of an archive")


@pytest.mark.parametrize("kind", ["nowhere", "http", "file"])
def test_a_url_of_an_unknown_kind_is_one_line_without_the_password(kind: str) -> None:
    with pytest.raises(ArchiveError, match=rf"^{kind}://bucket/groups: ") as refused:
        Folder(f"{kind}://user:of/secret@s@bucket/groups")
    assert "\n" not in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_store_that_does_not_answer_is_named_without_the_password(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: object) -> None:
        raise OSError("Could not connect to server")

    monkeypatch.setattr(run_module, "identify_topic", lambda *_: IDENTITY)
    monkeypatch.setattr(run_module, "compaction_warnings", lambda *_: [])
    monkeypatch.setattr(run_module, "Folder", unreachable)
    options = ArchiveOptions("s3://user:secret@bucket/groups", "127.0.0.1:9", once=True)
    with pytest.raises(ArchiveError, match=r"^s3://bucket/groups: Could not connect to server$"):
        run_archive(options, lambda phase, so_far: None, lambda _: None, threading.Event())


# The catalogue


def live(name: str, racks: list[set[str]], topic_id: str = "id", complete: bool = True) -> LiveTopic:
    replica_racks = tuple(map(frozenset, racks)) if any(racks) else None
    return LiveTopic(Topic(name, len(racks), replica_racks, topic_id), complete)


def test_racks_that_are_known_in_part_are_unknown_until_all_are(tmp_path: Path) -> None:
    """Otherwise the first look while a broker is down would hold for all of the past."""
    down, up = live("t", [{"a"}, set()], complete=False), live("t", [{"a"}, {"b"}])
    grown = live("t", [{"a"}, {"b"}, set()], complete=False)
    moments = [MIDNIGHT + timedelta(hours=hour) for hour in range(4)]
    with Archive.open(Folder(str(tmp_path)), IDENTITY) as archive:
        for found, now in zip([down, down, up, grown], moments, strict=True):
            archive.note([found], now)
    catalogue = catalogue_of(catalogue_rows(str(tmp_path)))
    unknown, known = Topic("t", 2, None, "id"), up.topic
    assert catalogue.entries("t") == (unknown, known, Topic("t", 3, None, "id"))
    assert catalogue.at("t", MIDNIGHT - timedelta(days=9)) == unknown
    assert catalogue.at("t", moments[2]) == known


@pytest.mark.parametrize(
    ("replicas", "complete"),
    [
        ([Node(1, "one", 9092, "a"), Node(2, "two", 9092, "b")], True),
        ([Node(1, "one", 9092, "a"), Node(2, "two", 9092)], True),  # without a rack
        ([Node(1, "one", 9092, "a"), Node(2, None, 0)], False),  # down
    ],
)
def test_racks_are_complete_if_all_replicas_are_on_brokers_that_are_up(
    monkeypatch: pytest.MonkeyPatch, replicas: list[Node], complete: bool
) -> None:
    def topic(*nodes: Node) -> SimpleNamespace:
        partition = SimpleNamespace(id=0, replicas=nodes)
        return SimpleNamespace(partitions=[partition], topic_id="id", is_internal=False)

    described = DescribedTopics({"t": topic(*replicas), "only-one": topic(replicas[0])})
    monkeypatch.setattr(topic_metadata, "describe_topics", lambda connection, names: described)
    admin = SimpleNamespace(list_topics=lambda timeout: SimpleNamespace(topics=described.found))
    connection: Any = SimpleNamespace(admin=admin, timeout_s=1.0)
    found = {each.topic.name: each.complete for each in live_topics(connection)}
    assert found == {"t": complete, "only-one": True}


def test_the_catalogue_has_a_row_for_every_change_and_no_other(tmp_path: Path) -> None:
    later = MIDNIGHT + timedelta(hours=1)
    with Archive.open(Folder(str(tmp_path)), IDENTITY) as archive:
        assert archive.note([live("t", [{"a"}]), live("u", [set()])], MIDNIGHT) == 2
        assert archive.note([live("t", [{"a"}]), live("u", [set()])], MIDNIGHT) == 0
    more, other_racks = live("t", [{"a"}, {"b"}]), live("t", [{"a"}, {"c"}])
    anew = live("t", [{"a"}, {"c"}], topic_id="other")
    with Archive.open(Folder(str(tmp_path)), IDENTITY) as archive:
        for hour, found in enumerate((more, other_racks, anew)):
            assert archive.note([found], later + timedelta(hours=hour)) == 1
            assert archive.note([found, live("u", [set()])], later + timedelta(hours=hour)) == 0
            assert archive.note([replace(found, complete=False)], later + timedelta(hours=hour)) == 0
    catalogue = catalogue_of(catalogue_rows(str(tmp_path)))
    assert catalogue.at("t", MIDNIGHT - timedelta(days=9)) == Topic("t", 1, (frozenset("a"),), "id")
    assert catalogue.entries("t")[1:] == (more.topic, other_racks.topic, anew.topic)
    assert catalogue.at("t", later) == more.topic
    assert catalogue.entries("u") == (Topic("u", 1, None, "id"),)


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_asks_the_archiver_to_stop_and_ctrl_c_after_it_interrupts(first: signal.Signals) -> None:
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    with archive_command._stop_signals() as stop:
        assert not stop.is_set()
        signal.raise_signal(first)
        assert stop.is_set()
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert [signal.getsignal(number) for number in numbers] == before
