"""Groups with hostile ids on a real broker: each is listed, described and linted, and shown as plain text."""

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


WITH_A_ZERO_BYTE = {group for group in GROUP_IDS.values() if "\0" in group}
"""librdkafka cuts these ids off at the zero byte, and a command line cannot contain one."""


def test_every_group_is_in_the_list_or_named_beside_it(
    bootstrap: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["groups", "--json", "-", "--bootstrap-server", bootstrap]) == 0
    as_json = capsys.readouterr()
    listed = {json.loads(line)["group"] for line in as_json.out.splitlines()}
    assert listed == set(GROUP_IDS.values()) - WITH_A_ZERO_BYTE
    assert main(["groups", "--bootstrap-server", bootstrap]) == 0
    shown = capsys.readouterr()
    for group in WITH_A_ZERO_BYTE:
        for said in (as_json.err, shown.out):
            assert f"not found when described: {group.partition(chr(0))[0]!r}" in " ".join(said.split())
    assert_harmless(as_json.out + as_json.err + shown.out + shown.err)


@pytest.mark.parametrize(
    "group",
    [pytest.param(group, id=name) for name, group in GROUP_IDS.items() if group not in WITH_A_ZERO_BYTE],
)
def test_a_group_is_described_and_judged(
    bootstrap: str, group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--bootstrap-server", bootstrap)
    assert main(["groups", "describe", *where, "--", group]) == 0
    shown = capsys.readouterr()
    assert main(["groups", "describe", "--json", "-", *where, "--", group]) == 0
    as_json = capsys.readouterr()
    described = json.loads(as_json.out)
    assert [member["id"].startswith(group) for member in described["members"]] == [True]
    assert main(["lint", f"--group={group}", *where]) in (0, 1)
    judged = capsys.readouterr()
    for said in (shown, as_json, judged):
        assert_harmless(said.out + said.err)
