"""Archive and replay of the real offsets topic: groups with hostile ids, and one of three brokers down."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from compat_tests.hostile.groups import GROUP_IDS, hostile_groups
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import KafkaCluster
from kafka_assignors_cli.app import run
from kafka_assignors_replay.history.consumer_offsets import GroupMetadataKey, decode_key

pytestmark = [pytest.mark.exhaustive, pytest.mark.slow]

GROUPS = set(GROUP_IDS.values())


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    """Three brokers, the third with the only replica of a partition, and groups that members have left."""
    with KafkaCluster(brokers=3, settings={"group.max.session.timeout.ms": 120_000}) as cluster:
        cluster.create_topic("orders", replicas=[[3], [1]])
        with hostile_groups(cluster.bootstrap, "orders"):
            pass
        yield cluster


def archived_groups(archive: Path) -> set[str]:
    keys = (decode_key(key) for key in pq.read_table(archive / "raw")["key"].to_pylist())
    return {key.group for key in keys if isinstance(key, GroupMetadataKey)}


def test_with_one_broker_down_all_groups_are_archived_and_replayed(
    cluster: KafkaCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive, report = tmp_path / "archive", tmp_path / "report.json"
    where = ["--bootstrap-server", cluster.bootstrap, "--timeout", f"{HANG_S:g}"]
    cluster.kill(3)
    # The two commands wait until the other two brokers lead the partitions of the third.
    assert run(["archive", *where, "--to", str(archive), "--once"]) == 0, capsys.readouterr().err
    assert run(["replay", *where, "--strategy", "range", "--json", str(report)]) == 0, capsys.readouterr().err
    assert archived_groups(archive) == GROUPS
    groups = json.loads(report.read_text(encoding="utf-8"))["groups"]
    assert {group["group"] for group in groups} == GROUPS
