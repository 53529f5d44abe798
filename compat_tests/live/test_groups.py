"""`kafka-assignors groups` with real members of four clients on a real broker."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors.group_json import parse_group
from kafka_assignors_cli import main
from kafka_assignors_confluent.connection import (
    ClusterError,
    ConfigurationError,
    Connection,
    UnreachableError,
)
from kafka_assignors_confluent.topic_metadata import open_reader
from kafka_assignors_ops.cluster import list_groups, read_groups
from kafka_assignors_ops.live_group import LiveGroup, as_group
from tests.test_cli import refusal

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


def loads(kafka: Kafka, group: str) -> list[int]:
    return sorted(read(kafka, group).loads or ())


def read(kafka: Kafka, group: str) -> LiveGroup:
    (found,) = read_groups(Connection(kafka.bootstrap, {}, HANG_S), [group])
    return found


@pytest.fixture
def empty_group(kafka: Kafka) -> str:
    """A group with commits and without members."""
    name = f"empty-{uuid.uuid4().hex[:8]}"
    kafka.create_topic(name, 2)
    kafka.commit(name, {(name, 0): 0})
    return name


def groups(kafka: Kafka, *arguments: str) -> int:
    return main(["groups", *arguments, "--bootstrap-server", kafka.bootstrap])


# ---- the values


def test_a_classic_group_shows_what_its_members_said_and_have(scene: Scene) -> None:
    live = read(scene.kafka, scene.mixed.id)
    shown = (live.group_type, live.state, live.protocol, live.protocol_type)
    assert shown == ("classic", "Stable", "range", "consumer")
    assert live.problems == ()
    topic = scene.mixed.topic("orders")
    assert len({member.client_id for member in live.members}) == 4
    static = next(member for member in live.members if member.instance_id == "pod-0")
    assert static.rack == "a"
    assert all(member.topics == {topic} for member in live.members)
    assert all(member.host == "127.0.0.1" for member in live.members)
    owners = sorted(p for m in live.members if m.assigned for p in m.assigned.get(topic, ()))
    assert owners == [0, 1, 2]
    assert live.topics is not None
    assert live.topics[topic].partitions == 3


def test_a_group_of_kip_848_hides_subscriptions(scene: Scene) -> None:
    live = read(scene.kafka, scene.broker_assigned.id)
    assert (live.group_type, live.protocol) == ("consumer", "uniform")
    assert [member.subscription for member in live.members] == [None, None]
    group = as_group(live)
    assert {topic for member in group.members.values() for topic in member.topics} == set(
        scene.broker_assigned.topics
    )


def test_a_missing_broker_is_an_error_within_the_timeout() -> None:
    with pytest.raises(UnreachableError, match=r"127\.0\.0\.1:1"):
        list_groups(Connection("127.0.0.1:1", {}, 0.5))
    with pytest.raises(UnreachableError):
        read_groups(Connection("127.0.0.1:1", {}, 0.5), ["orders"])


def test_a_wrong_property_is_named_and_its_secret_is_not() -> None:
    with pytest.raises(ConfigurationError, match=r"sasl\.pasword") as error:
        Connection("127.0.0.1:1", {"sasl.pasword": "hidden"}, 0.5)
    assert "hidden" not in str(error.value)
    assert isinstance(error.value, ClusterError)


def test_a_property_that_only_a_consumer_or_only_python_refuses_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"client properties: .*stats_cb"):
        Connection("127.0.0.1:1", {"stats_cb": "x"}, 0.5)
    of_a_member = {"group.protocol": "consumer", "session.timeout.ms": "45000"}
    connection = Connection("127.0.0.1:1", of_a_member, 0.5)
    with pytest.raises(ConfigurationError, match=r"client properties: .*session\.timeout\.ms"):
        open_reader(connection, {}, lambda error: None)


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
    assert (listed[empty_group]["state"], listed[empty_group]["members"]) == ("Empty", 0)


def test_the_list_can_be_narrowed(scene: Scene, empty_group: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert groups(scene.kafka, "--matching", "empty-*") == 0
    out = capsys.readouterr().out
    assert empty_group in out
    assert scene.mixed.id not in out
    assert groups(scene.kafka, "--matching", "no such thing") == 0
    assert capsys.readouterr().out == "no groups\n"


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


def test_a_group_in_json_is_what_assign_reads(
    scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert groups(scene.kafka, "describe", scene.mixed.id, scene.broker_assigned.id, "--json", "-") == 0
    forms = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [form["about"]["group"] for form in forms] == [scene.mixed.id, scene.broker_assigned.id]
    group = parse_group(forms[0])
    assert sorted(sum(map(len, member.owned.values())) for member in group.members.values()) == [0, 1, 1, 1]

    (tmp_path / "groups.jsonl").write_text("".join(json.dumps(form) + "\n" for form in forms))
    assert main(["assign", str(tmp_path / "groups.jsonl"), "--strategy", "sticky"]) == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for form, answer in zip(forms, answers, strict=True):
        assert answer["quality"] == form["about"]["strategies"]["sticky"]
    assert answers[0]["quality"]["moved"] == forms[0]["about"]["least_moved"] == 0


def test_an_unknown_group_is_one_line_with_a_near_one(scene: Scene) -> None:
    asked = ("groups", "describe", scene.mixed.id + "x", "--bootstrap-server", scene.kafka.bootstrap)
    assert f"did you mean '{scene.mixed.id}'?" in refusal(*asked)
