"""Groups with hostile ids on a real broker: each is listed, described and judged, and shown as text."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from compat_tests.hostile.groups import GROUP_IDS, hostile_groups
from compat_tests.support.kafka_cluster import KafkaCluster
from kafka_assignors_cli import main
from tests.hostile_names import assert_harmless


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with KafkaCluster(settings={"group.max.session.timeout.ms": 120_000}) as cluster:
        cluster.create_topic("orders", 3)
        with hostile_groups(cluster.bootstrap, "orders"):
            yield cluster.bootstrap


def test_every_group_is_in_the_list(bootstrap: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["groups", "--json", "--bootstrap-server", bootstrap]) == 0
    as_json = capsys.readouterr().out
    assert {json.loads(line)["group"] for line in as_json.splitlines()} == set(GROUP_IDS.values())
    assert main(["groups", "--bootstrap-server", bootstrap]) == 0
    shown = capsys.readouterr()
    assert_harmless(as_json + shown.out + shown.err)


@pytest.mark.parametrize("group", GROUP_IDS.values(), ids=GROUP_IDS)
def test_a_group_is_described_and_judged(
    bootstrap: str, group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--bootstrap-server", bootstrap)
    assert main(["groups", "describe", *where, "--", group]) == 0
    shown = capsys.readouterr()
    assert main(["groups", "describe", "--json", *where, "--", group]) == 0
    as_json = capsys.readouterr()
    described = json.loads(as_json.out)
    assert [member["id"].startswith(group) for member in described["members"]] == [True]
    assert main(["lint", f"--group={group}", *where]) in (0, 1)
    judged = capsys.readouterr()
    for said in (shown, as_json, judged):
        assert_harmless(said.out + said.err)
