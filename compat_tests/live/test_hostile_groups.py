"""Hostile groups on a real broker: each is listed, described and linted, and shown as plain text.

Their ids are hostile, or the bytes of a member, which may end the process of an admin client.
"""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
from collections.abc import Iterator

import pytest
from confluent_kafka import ShareConsumer

from compat_tests.hostile.groups import GROUP_IDS, hostile_groups
from compat_tests.hostile.raw_member import RawMember, commit_offset
from compat_tests.support.commands import run_command
from compat_tests.support.hang_limit import wait_for
from compat_tests.support.kafka_cluster import KafkaCluster
from kafka_assignors.wire import ConsumerAssignment, Subscription, encode_assignment, encode_subscription
from kafka_assignors_cli import main
from tests.hostile_names import assert_harmless


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with KafkaCluster() as cluster:
        cluster.create_topic("orders", 3)
        for group in ("", "other"):
            commit_offset(cluster.bootstrap, group, "orders", 1)
        with hostile_groups(cluster.bootstrap, "orders"):
            yield cluster.bootstrap


WITH_A_ZERO_BYTE = {group for group in GROUP_IDS.values() if "\0" in group}
"""librdkafka cuts these ids off at the zero byte, and a command line cannot contain one."""


def test_every_group_is_in_the_list_or_named_beside_it(
    bootstrap: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["groups", "--json", "-", "--bootstrap-server", bootstrap]) == 0
    as_json = capsys.readouterr()
    listed = {(row := json.loads(line))["group"]: row for line in as_json.out.splitlines()}
    assert listed.keys() - {"sharing"} == {*GROUP_IDS.values(), "", "other"} - WITH_A_ZERO_BYTE
    assert listed[""]["state"] == "Empty"
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


GOOD = encode_assignment(ConsumerAssignment(1, {"orders": [0, 1, 2]}, b"data"))
FOUND = [bytes.fromhex(data) for data in ("00", "0000", "000000000001", "000074657374")]
MUTATIONS = 36


def mutated(seed: int) -> bytes:
    """`GOOD` cut, extended, or with some other bytes."""
    chance = random.Random(seed)
    data = bytearray(GOOD[: chance.randint(1, len(GOOD))] if chance.random() < 0.4 else GOOD)
    for _ in range(chance.randint(0, 3)):
        data[chance.randrange(len(data))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
    return bytes(data + chance.randbytes(chance.choice((0, 0, 1, 9))))


BYTES = {f"bytes-{number}": data for number, data in enumerate([*FOUND, *map(mutated, range(MUTATIONS))])}
"""The assignment of the only member, by group."""


@pytest.fixture(scope="module")
def undecodable(bootstrap: str) -> Iterator[str]:
    metadata = encode_subscription(Subscription(1, ("orders",)))
    members = [
        *(
            RawMember(bootstrap, group, metadata=metadata, client_id=group, assignment=data)
            for group, data in {**BYTES, "good": GOOD}.items()
        ),
        RawMember(bootstrap, "joined", metadata=b"\xff", client_id="joined"),
    ]
    with contextlib.ExitStack() as stack:
        for member in members:
            stack.enter_context(member)
        for member in members:
            member.wait_until_assigned()
        yield bootstrap


def run(bootstrap: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, which it may end."""
    return run_command(*arguments, "--bootstrap-server", bootstrap)


def test_a_member_whose_assignment_does_not_decode_hides_no_group(undecodable: str) -> None:
    listed = run(undecodable, "groups", "--json", "-")
    assert listed.returncode == 0, listed.stderr
    groups = {(row := json.loads(line))["group"]: row for line in listed.stdout.splitlines()}
    theirs = [*BYTES, "good", "joined"]
    assert groups.keys() >= set(theirs)
    assert groups["good"]["partitions"] == 3
    described = run(undecodable, "groups", "describe", *theirs)
    assert described.returncode == 0, described.stderr
    said = " ".join(described.stdout.split())
    for number, data in enumerate(FOUND):
        assert f"do not decode, the first being 'bytes-{number}-" in said
        assert f"the assignment that its leader sent (0x{data.hex()}): " in said
    assert "the subscription it joined with (0xff): " in said
    assert_harmless(described.stdout)


@pytest.mark.parametrize("group", ["bytes-0", "bytes-1", "bytes-2", "bytes-3", "joined"])
def test_a_group_with_such_a_member_is_judged(undecodable: str, group: str) -> None:
    judged = run(undecodable, "lint", "--group", group)
    assert judged.returncode in (0, 1), judged.stderr


def test_one_group_that_is_not_described_hides_no_other(bootstrap: str) -> None:
    sharing = ShareConsumer({"bootstrap.servers": bootstrap, "group.id": "sharing"})
    sharing.subscribe(["orders"])
    try:

        def said() -> subprocess.CompletedProcess[str] | None:
            sharing.poll(0.5)
            done = run(bootstrap, "groups", "describe", "other", "sharing", "missing")
            return done if "share or a streams group" in done.stderr else None

        described = wait_for("the group that shares", said)
    finally:
        sharing.close()
    assert described.returncode == 2
    assert described.stdout.startswith("other: classic, Empty")
    assert "group 'sharing' is listed, and not described as a consumer group" in described.stderr
    assert "there is no group 'missing'" in described.stderr
