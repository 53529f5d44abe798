"""The archiver is killed in each state of its archive: no record is missing or doubled."""

from __future__ import annotations

from pathlib import Path

from compat_tests.recording.archive_kills import MOMENTS, archive_under_kills, make_offsets_topic
from compat_tests.support.kafka_cluster import KafkaCluster

KILLS = 10


def test_an_archive_is_exact_after_kills(tmp_path: Path) -> None:
    with KafkaCluster() as kafka:
        make_offsets_topic(kafka)
        outcome = archive_under_kills(kafka, tmp_path / "archive", tmp_path / "log", kills=KILLS, seed=1)
    assert outcome.exact, outcome
    assert outcome.records > 0
    assert sum(outcome.kills.values()) == KILLS
    assert len(outcome.kills) == 1 + len(MOMENTS)
