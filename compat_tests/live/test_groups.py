"""`kafka-assignors groups` with real members of four clients on a real broker."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors.group_json import parse_group
from kafka_assignors_cli import main
from kafka_assignors_confluent.connection import ClusterError, ConfigurationError, UnreachableError
from kafka_assignors_ops.cluster import Cluster
from kafka_assignors_ops.live_group import LiveGroup, as_group

COMMAND = [sys.executable, "-m", "kafka_assignors_cli", "groups"]
RECORDS = 5
EVIL = "[bold]evil\x1b[31m"


@dataclass(frozen=True, slots=True)
class Scene:
    """Groups that do not change while the tests read them."""

    kafka: Kafka
    mixed: GroupOfMembers
    """A classic group of aiokafka, kafka-python and librdkafka members under `range`; one of them is idle."""
    broker_assigned: GroupOfMembers
    """A KIP-848 group."""


@pytest.fixture(scope="module")
def scene(kafka: Kafka) -> Iterator[Scene]:
    with (
        GroupOfMembers(kafka, "compat_tests.aiokafka.member", {"orders": 3}) as mixed,
        GroupOfMembers(kafka, "compat_tests.support.kip848_member", {"payments": 4}) as broker_assigned,
    ):
        mixed.start("pod-0", ["range"], rack="a", instance_id="pod-0")
        mixed.start("worker", ["range"], program="compat_tests.kafka_python.member")
        mixed.start(EVIL, ["range"], program="compat_tests.support.librdkafka_member")
        mixed.start("spare", ["range"], program="compat_tests.support.librdkafka_member")
        for name in ("one", "two"):
            broker_assigned.start(name, [])
        mixed.produce(RECORDS)
        mixed.wait_for("a settled group", lambda: loads(kafka, mixed.id) == [0, 1, 1, 1])
        broker_assigned.wait_for("a settled group", lambda: loads(kafka, broker_assigned.id) == [2, 2])
        yield Scene(kafka, mixed, broker_assigned)


@pytest.fixture
def empty_group(kafka: Kafka) -> str:
    return make_empty_group(kafka)


def loads(kafka: Kafka, group: str) -> list[int]:
    return sorted(read(kafka, group).loads or ())


def read(kafka: Kafka, group: str) -> LiveGroup:
    with Cluster(kafka.bootstrap) as cluster:
        (found,) = cluster.read_groups([group])
    return found


def make_empty_group(kafka: Kafka, prefix: str = "empty") -> str:
    """A group with commits but no members, and a lag of `RECORDS` records."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    name = f"{prefix}-{uuid.uuid4().hex[:8]}"
    kafka.create_topic(name, 2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "enable.idempotence": True})
    for _ in range(RECORDS + 1):
        producer.produce(name, b"a record", partition=0)
    assert producer.flush(HANG_S) == 0
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": name})
    consumer.commit(offsets=[TopicPartition(name, 0, 1)], asynchronous=False)
    consumer.close()
    return name


def groups(kafka: Kafka, *arguments: str) -> int:
    return main(["groups", *arguments, "--bootstrap-server", kafka.bootstrap])


def described(kafka: Kafka, capsys: pytest.CaptureFixture[str], *ids: str) -> list[dict[str, Any]]:
    assert groups(kafka, "describe", *ids, "--json", "-") == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def _read(terminal: int) -> bytes:
    assert select.select([terminal], [], [], HANG_S)[0], "nothing more was written to the terminal"
    return os.read(terminal, 65536)


# ---- the adapter


def test_a_classic_group_shows_what_its_members_said_and_have(scene: Scene) -> None:
    live = read(scene.kafka, scene.mixed.id)
    assert (live.group_type, live.state, live.protocol, live.protocol_type) == (
        "classic",
        "Stable",
        "range",
        "consumer",
    )
    assert live.coordinator is not None
    assert live.problems == ()
    members = {member.client_id: member for member in live.members}
    topic = scene.mixed.topic("orders")
    assert len(members) == 4
    static = next(member for member in live.members if member.instance_id == "pod-0")
    assert static.rack == "a"
    assert all(member.topics == {topic} for member in live.members)
    assert all(member.host == "127.0.0.1" for member in live.members)
    owners = sorted(p for m in live.members if m.assigned for p in m.assigned.get(topic, ()))
    assert owners == [0, 1, 2]
    assert live.topics is not None
    assert live.topics[topic].partitions == 3


def test_a_group_of_kip_848_shows_targets_and_hides_subscriptions(scene: Scene) -> None:
    live = read(scene.kafka, scene.broker_assigned.id)
    assert (live.group_type, live.protocol) == ("consumer", "uniform")
    assert [member.subscription for member in live.members] == [None, None]
    assert [member.target for member in live.members] == [member.assigned for member in live.members]
    group = as_group(live)
    assert {topic for member in group.members.values() for topic in member.topics} == set(
        scene.broker_assigned.topics
    )


def test_lag_is_what_lies_between_the_commit_and_the_end(kafka: Kafka, empty_group: str) -> None:
    live = read(kafka, empty_group)
    assert (live.state, live.members) == ("Empty", ())
    assert live.committed == {empty_group: {0: 1}}
    assert live.lag == RECORDS


def test_a_group_that_does_not_exist_is_dead(kafka: Kafka) -> None:
    assert read(kafka, "nowhere-to-be-found").state == "Dead"


def test_a_missing_broker_is_an_error_within_the_timeout() -> None:
    with (
        Cluster("127.0.0.1:1", timeout_s=0.5) as cluster,
        pytest.raises(UnreachableError, match=r"127\.0\.0\.1:1"),
    ):
        cluster.list_groups()
    with Cluster("127.0.0.1:1", timeout_s=0.5) as cluster, pytest.raises(UnreachableError):
        cluster.read_groups(["orders"])


def test_a_wrong_property_is_named_and_its_secret_is_not() -> None:
    with pytest.raises(ConfigurationError, match=r"sasl\.pasword") as error:
        Cluster("127.0.0.1:1", {"sasl.pasword": "hidden"})
    assert "hidden" not in str(error.value)
    assert isinstance(error.value, ClusterError)


# ---- the list


def test_the_list_shows_every_group_with_its_figures(
    scene: Scene, empty_group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert groups(scene.kafka, "--json", "-") == 0
    listed = {line["group"]: line for line in map(json.loads, capsys.readouterr().out.splitlines())}
    mixed = listed[scene.mixed.id]
    assert (mixed["type"], mixed["state"], mixed["protocol"]) == ("classic", "Stable", "range")
    assert (mixed["members"], mixed["idle"], mixed["partitions"]) == (4, 1, 3)
    assert mixed["max_over_mean"] == pytest.approx(4 / 3)
    assert listed[scene.broker_assigned.id]["type"] == "consumer"
    assert (listed[empty_group]["state"], listed[empty_group]["lag"]) == ("Empty", RECORDS)


def test_the_list_can_be_narrowed(scene: Scene, empty_group: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert groups(scene.kafka, "--matching", "empty-*") == 0
    out = capsys.readouterr().out
    assert empty_group in out
    assert scene.mixed.id not in out
    assert groups(scene.kafka, "--matching", "no such thing") == 0
    assert capsys.readouterr().out == "no groups\n"


def test_a_watch_ends_after_its_count(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--matching", scene.mixed.id, "--watch", "--interval", "0.1", "--count", "3", "--json", "-"]
    assert groups(scene.kafka, *arguments) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_a_watch_on_a_terminal_ends_with_an_interrupt_and_0(scene: Scene) -> None:
    terminal, inside = pty.openpty()
    watch = subprocess.Popen(
        [
            *[*COMMAND, "--watch", "--interval", "0.2", "--matching", scene.mixed.id],
            *["--bootstrap-server", scene.kafka.bootstrap],
        ],
        stdin=inside,
        stdout=inside,
        stderr=inside,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "150"},
    )
    os.close(inside)
    try:
        seen = b""
        while seen.count(b"Ctrl-C ends it") < 2:
            seen += _read(terminal)
        watch.send_signal(signal.SIGINT)
        assert watch.wait(HANG_S) == 0
    finally:
        watch.kill()
        os.close(terminal)
    assert scene.mixed.id.encode() in seen
    assert b"Traceback" not in seen


# ---- one group


def test_describe_marks_idle_members_and_tells_what_each_strategy_would_move(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    assert groups(scene.kafka, "describe", scene.mixed.id) == 0
    out = capsys.readouterr().out
    assert "4 members (1 idle)" in out
    assert "pod-0" in out
    for strategy in ("range", "roundrobin", "sticky", "cooperative-sticky"):
        assert f"\n {strategy} " in out


def test_names_of_members_do_not_steer_the_terminal(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    assert groups(scene.kafka, "describe", scene.mixed.id) == 0
    out = capsys.readouterr().out
    assert "[bold]evil\N{REPLACEMENT CHARACTER}[31m" in out
    assert "\x1b" not in out


def test_a_group_in_json_is_what_assign_reads(
    scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forms = described(scene.kafka, capsys, scene.mixed.id, scene.broker_assigned.id)
    assert [form["about"]["group"] for form in forms] == [scene.mixed.id, scene.broker_assigned.id]
    group = parse_group(forms[0])
    assert sorted(sum(map(len, member.owned.values())) for member in group.members.values()) == [0, 1, 1, 1]

    (tmp_path / "groups.jsonl").write_text("".join(json.dumps(form) + "\n" for form in forms))
    assert main(["assign", str(tmp_path / "groups.jsonl"), "--strategy", "sticky"]) == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for form, answer in zip(forms, answers, strict=True):
        assert answer["quality"] == form["about"]["strategies"]["sticky"]
    assert answers[0]["quality"]["moved"] == forms[0]["about"]["least_moved"] == 0


def test_a_strategy_of_ones_own_is_tried_and_one_that_fails_is_told(
    scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text(
        "from kafka_assignors.strategies import RoundRobin\n"
        "class Broken(RoundRobin):\n"
        "    name = 'broken'\n"
        "    def assign(self, group):\n"
        "        raise KeyError('what it wants')\n"
    )
    broken = f"{tmp_path / 'mine.py'}:Broken"
    assert groups(scene.kafka, "describe", scene.mixed.id, "-s", f"roundrobin,{broken}", "--json", "-") == 0
    (form,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert list(form["about"]["strategies"]) == ["roundrobin", broken]
    assert "KeyError" in form["about"]["strategies"][broken]["problem"]


def test_an_unknown_group_is_one_line_with_a_near_one(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    assert groups(scene.kafka, "describe", scene.mixed.id + "x") == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert f"did you mean '{scene.mixed.id}'?" in captured.err


# ---- deleting


def test_an_empty_group_is_deleted_and_its_offsets_go(
    kafka: Kafka, empty_group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert groups(kafka, "delete", empty_group, "--yes") == 0
    assert capsys.readouterr().out == f"deleted {empty_group}\n"
    assert read(kafka, empty_group).state == "Dead"


def test_a_group_with_members_is_refused_and_nothing_is_deleted(
    scene: Scene, empty_group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert groups(scene.kafka, "delete", empty_group, scene.mixed.id, "--yes") == 2
    assert f"'{scene.mixed.id}' has 4 members" in capsys.readouterr().err
    assert read(scene.kafka, empty_group).state == "Empty"


def test_all_empty_groups_of_a_pattern_are_deleted_and_no_others(
    scene: Scene, empty_group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    old = [make_empty_group(scene.kafka, "old") for _ in range(2)]
    assert groups(scene.kafka, "delete", "--all-empty", "--matching", "old-*", "--yes") == 0
    out = capsys.readouterr().out
    assert all(f"deleted {group}\n" in out for group in old)
    assert read(scene.kafka, empty_group).state == "Empty"
    assert loads(scene.kafka, scene.mixed.id) == [0, 1, 1, 1]


def test_without_a_terminal_it_does_not_delete_unasked(kafka: Kafka, empty_group: str) -> None:
    done = subprocess.run(
        [*COMMAND, "delete", empty_group, "--bootstrap-server", kafka.bootstrap],
        input="y\n",
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert done.returncode == 2
    assert "1 group would be deleted" in done.stderr
    assert "--yes" in done.stderr
    assert read(kafka, empty_group).state == "Empty"


@pytest.mark.parametrize(("answer", "state"), [(b"n\n", "Empty"), (b"y\n", "Dead")])
def test_at_a_terminal_it_lists_what_goes_and_asks(
    kafka: Kafka, empty_group: str, answer: bytes, state: str
) -> None:
    terminal, inside = pty.openpty()
    deletion = subprocess.Popen(
        [*COMMAND, "delete", empty_group, "--bootstrap-server", kafka.bootstrap],
        stdin=inside,
        stdout=subprocess.DEVNULL,
        stderr=inside,
    )
    os.close(inside)
    try:
        seen = b""
        while b"[y/N]" not in seen:
            seen += _read(terminal)
        os.write(terminal, answer)
        assert deletion.wait(HANG_S) == 0
    finally:
        deletion.kill()
        os.close(terminal)
    assert f"{empty_group}  (committed offsets of 1 partition)".encode() in seen
    assert read(kafka, empty_group).state == state
