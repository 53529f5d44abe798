"""An archive in an object store, whose files appear when their upload ends: moto's S3, over HTTP."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import boto3  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from moto.server import ThreadedMotoServer
from pyarrow import fs

from kafka_assignors_replay.archive.folder import Archive, ArchiveError, Folder
from spark_validation.tests.test_archive_folder import (
    ALL,
    IDENTITY,
    RECORDS,
    archive_all,
    archive_next,
    archived,
)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a folder in an empty bucket."""
    settings = {"ACCESS_KEY_ID": "test", "SECRET_ACCESS_KEY": "test", "DEFAULT_REGION": "us-east-1"}
    for name, value in settings.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        # The objects of moto are those of its process, and not of one server.
        bucket = uuid.uuid4().hex
        boto3.client("s3", endpoint_url=f"http://{host}:{port}").create_bucket(Bucket=bucket)
        yield f"s3://{bucket}/groups?scheme=http&endpoint_override={host}:{port}"
    finally:
        server.stop()


def offsets(url: str) -> list[int]:
    """The offsets in all files that a reader sees, each of which it can read."""
    files, path = fs.FileSystem.from_uri(url)
    found = files.get_file_info(fs.FileSelector(f"{path}/raw", recursive=True, allow_not_found=True))
    tables = [pq.read_table(each.path, filesystem=files) for each in found if each.is_file]
    return sorted(pa.concat_tables(tables)["offset"].to_pylist()) if tables else []


def test_every_record_is_in_one_file_and_the_newest_file_is_the_ledger(store: str) -> None:
    archive_all(Folder(store))
    assert offsets(store) == [each[1] for each in ALL]
    with Archive.open(Folder(store), IDENTITY) as again:
        assert archived(again) == RECORDS


def test_a_second_archiver_of_a_batch_is_refused_and_leaves_nothing(store: str) -> None:
    with Archive.open(Folder(store), IDENTITY) as one, Archive.open(Folder(store), IDENTITY) as other:
        archive_next(one)
        with pytest.raises(ArchiveError, match="another archiver writes to this archive"):
            archive_next(other)
        archive_next(one)
    assert offsets(store) == list(range(8))


def test_a_file_that_the_store_does_not_give_is_kept(store: str) -> None:
    archive_all(Folder(store))
    bucket, _, host = store.removeprefix("s3://").partition("/groups?scheme=http&endpoint_override=")
    client = boto3.client("s3", endpoint_url=f"http://{host}")
    key = f"groups/{Folder(store).names('raw')[-1]}"
    # A lifecycle rule moves files there, and the store refuses to read them until they are restored.
    source = {"Bucket": bucket, "Key": key}
    client.copy_object(**source, CopySource=source, StorageClass="GLACIER")
    before = Folder(store).names("")
    with pytest.raises(OSError, match="during GetObject"), Archive.open(Folder(store), IDENTITY):
        pass
    assert Folder(store).names("") == before
