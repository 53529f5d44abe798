"""The archive, and the replay of a live cluster, with exactly the rights that they need."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.secured_cluster import Principal, Right, SecuredCluster
from kafka_assignors_replay.archive.folder import ArchiveError
from kafka_assignors_replay.archive.run import ArchiveOptions, ArchiveResult, run_archive
from kafka_assignors_replay.replay import run_replay
from kafka_assignors_replay.result import ReplayError, ReplayOptions, ReplayResult
from spark_validation.tests.groups import Log, member
from spark_validation.tests.replaying import folding_here

pytestmark = pytest.mark.exhaustive  # no Spark: a replay of a cluster is one of a temporary archive

RECORDS = "records"
READ = Right("Read", "Topic", RECORDS)
CONFIGS = Right("DescribeConfigs", "Topic", RECORDS)
ORDERS = Right("Describe", "Topic", "orders")
LEAST, MOST = -(2**31), 2**31 - 1


def history() -> Log:
    log = Log()
    low, high, everything = {"orders": [0, 1]}, {"orders": [2, 3]}, {"orders": [0, 1, 2, 3]}
    log.generation("billing", 1, member("a", gets=everything))
    log.generation("billing", 2, member("a", gets=low), member("b", gets=high))
    # A member may subscribe to an invalid topic name, and any client may write a record.
    log.generation("nameless", 1, member("a", ("orders", "", "a b"), gets=everything))
    log.generation("nameless", 2, member("a", ("orders", "", "a b"), gets=low), member("b", gets=high))
    log.generation("forged", LEAST, member("a", gets=everything))
    log.generation("forged", MOST, member("a", gets=low), member("b", gets=high))
    return log


@pytest.fixture(scope="module")
def secured() -> Iterator[SecuredCluster]:
    with SecuredCluster() as secured:
        secured.cluster.create_topic("orders", 4)
        secured.cluster.create_topic(RECORDS)
        producer = Producer({"bootstrap.servers": secured.cluster.bootstrap})
        for record in history().records:
            producer.produce(RECORDS, record["value"], record["key"])  # type: ignore[arg-type]
        assert producer.flush(HANG_S) == 0
        yield secured


def archived(who: Principal, folder: Path) -> ArchiveResult:
    options = ArchiveOptions(
        str(folder), who.bootstrap, once=True, topic=RECORDS, client_config=who.properties, timeout_seconds=5
    )
    return run_archive(options, lambda phase, so_far: None, lambda _: None, threading.Event())


def replayed(who: Principal) -> ReplayResult:
    options = ReplayOptions(
        bootstrap_servers=who.bootstrap,
        topic=RECORDS,
        client_config=who.properties,
        timeout_seconds=5,
        strategies=("range",),
        sample_groups=0,
    )
    with folding_here():
        return run_replay(options, lambda _: None, engine="local")


def test_an_archive_needs_to_read_its_topic_and_no_group(secured: SecuredCluster, tmp_path: Path) -> None:
    found = archived(secured.principal(READ, CONFIGS, ORDERS), tmp_path)
    assert (found.complete, found.counts.records, found.topics_changed) == (True, 6, 2)
    assert not any("not known" in warning for warning in found.warnings)


def test_an_archive_says_which_right_would_show_more(secured: SecuredCluster, tmp_path: Path) -> None:
    found = archived(secured.principal(READ), tmp_path)
    assert (found.complete, found.counts.records, found.topics_changed) == (True, 6, 1)
    assert any(str(CONFIGS) in warning for warning in found.warnings)


@pytest.mark.parametrize("rights", [(), (Right("Describe", "Topic", RECORDS),)], ids=["none", "describe"])
def test_without_the_right_to_read_it_is_named(
    secured: SecuredCluster, tmp_path: Path, rights: tuple[Right, ...]
) -> None:
    who = secured.principal(*rights, ORDERS)
    with pytest.raises(ArchiveError, match=f"this principal needs {READ}"):
        archived(who, tmp_path)
    with pytest.raises(ReplayError, match=f"this principal needs {READ}"):
        replayed(who)


def test_a_replay_needs_to_read_its_topic_and_no_group(secured: SecuredCluster) -> None:
    found = replayed(secured.principal(READ, ORDERS))
    assert found.warnings == ()
    assert {group.group: group.replayed_rebalances for group in found.groups} == {
        "billing": 2,
        "nameless": 2,
        "forged": 2,
    }
    assert found.history.skipped_numbers == MOST


def test_a_replay_goes_on_without_a_hidden_topic_and_names_it(secured: SecuredCluster) -> None:
    found = replayed(secured.principal(READ))
    (warning,) = found.warnings
    assert "'orders'" in warning
    assert "Describe on Topic" in warning
    assert {topic for group in found.groups for topic in group.inferred_topics} == {"orders"}


def test_a_wrong_password_is_the_reason_and_the_right_one_opens(
    secured: SecuredCluster, tmp_path: Path
) -> None:
    right = secured.superuser("PLAIN")
    wrong = secured.with_properties(right, sasl__password="wrong")
    with pytest.raises(ArchiveError, match=r"Authentication failed.*look at the user and the password"):
        archived(wrong, tmp_path)
    with pytest.raises(ReplayError, match=r"Authentication failed.*look at the user and the password"):
        replayed(wrong)
    assert replayed(right).warnings == ()
