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
from kafka_assignors_replay.result import ReplayError, ReplayResult
from spark_validation.tests.groups import ALL, HIGH, LOW, Log, member
from spark_validation.tests.replaying import replay

pytestmark = pytest.mark.exhaustive  # no Spark: a replay of a cluster is one of a temporary archive

RECORDS = "records"
READ = Right("Read", "Topic", RECORDS)
CONFIGS = Right("DescribeConfigs", "Topic", RECORDS)
ORDERS = Right("Describe", "Topic", "orders")
LEAST, MOST = -(2**31), 2**31 - 1


def history() -> Log:
    log = Log().generation("billing", 1, member("a", gets=ALL))
    log.generation("billing", 2, member("a", gets=LOW), member("b", gets=HIGH))
    # A member may subscribe to an invalid topic name, and any client may write a record.
    log.generation("nameless", 1, member("a", ("orders", "", "a b"), gets=ALL))
    log.generation("nameless", 2, member("a", ("orders", "", "a b"), gets=LOW), member("b", gets=HIGH))
    log.generation("forged", LEAST, member("a", gets=ALL))
    return log.generation("forged", MOST, member("a", gets=LOW), member("b", gets=HIGH))


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


def replayed(who: Principal, groups: tuple[str, ...] | None = None) -> ReplayResult:
    cluster = {"bootstrap_servers": who.bootstrap, "topic": RECORDS, "client_config": who.properties}
    return replay(strategies=("range",), sample_groups=0, timeout_seconds=5, groups=groups, **cluster)


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
    of_each = {group.group: group.replayed_rebalances for group in found.groups}
    assert of_each == dict.fromkeys(("billing", "nameless", "forged"), 2)
    assert found.history.skipped_numbers == MOST
    alone = replayed(secured.principal(READ, ORDERS), ("billing",))
    assert {group.group: group.replayed_rebalances for group in alone.groups} == {"billing": 2}
    assert alone.verdicts == tuple(each for each in found.verdicts if each.group == "billing")


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
