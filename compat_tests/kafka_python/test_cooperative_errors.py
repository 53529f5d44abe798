"""Errors and metrics of a CooperativeKafkaConsumer, and the parts that it consists of."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka import errors as Errors
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from compat_tests.kafka_python.in_process import (
    PROGRAM,
    Listener,
    committed,
    consuming,
    share,
    until,
)
from compat_tests.kafka_python.stock import learn_of
from compat_tests.scenarios.in_process import polling_until
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.kafka_cluster import Kafka, KafkaCluster, free_ports
from kafka_assignors_kafka_python import (
    CooperativeKafkaConsumer,
    CooperativeStickyAssignor,
    RoundRobinAssignor,
)
from kafka_assignors_kafka_python.cooperative.user_thread import ErrorsOfUser


def test_a_subclass_that_takes_a_part_of_the_consumer_away_is_refused() -> None:
    class Subclass(CooperativeKafkaConsumer):
        _coordinator = None

    with KafkaCluster() as kafka, pytest.raises(RuntimeError, match=r"Subclass._coordinator is not the Coop"):
        Subclass("orders", group_id="g", bootstrap_servers=kafka.bootstrap)


def test_a_member_whose_strategies_the_group_does_not_list_is_told_how_to_change_over(kafka: Kafka) -> None:
    with (
        GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group,
        contextlib.closing(
            KafkaConsumer(
                bootstrap_servers=kafka.bootstrap,
                group_id=group.id,
                heartbeat_interval_ms=200,
                partition_assignment_strategy=[RoundRobinPartitionAssignor],
            )
        ) as stock,
    ):
        stock.subscribe(list(group.topics))
        learn_of(stock, group.topics)
        polling_until(lambda: len(stock.assignment()) == 4, stock)
        with consuming(group) as refused, pytest.raises(Errors.InconsistentGroupProtocolError) as error:
            polling_until(refused.assignment, stock, refused)
        message = str(error.value)
        assert "answered JoinGroup with INCONSISTENT_GROUP_PROTOCOL (error 23)" in message
        assert "do not list the strategies of this one (cooperative-sticky)" in message
        assert "[CooperativeStickyAssignor(), RoundRobinAssignor()]" in message

        listed = [CooperativeStickyAssignor(), RoundRobinAssignor()]
        with consuming(group, partition_assignment_strategy=listed) as consumer:
            polling_until(lambda: len(stock.assignment()) == 2 == len(consumer.assignment()), stock, consumer)
            stock.close()
            polling_until(lambda: len(consumer.assignment()) == 4, consumer)
            with consuming(group) as last:
                share(group, consumer, last)


def test_heartbeats_that_are_refused_again_and_again_are_one_error_until_it_is_raised(kafka: Kafka) -> None:
    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group, consuming(group) as consumer:
        share(group, consumer)
        coordinator, refused = consumer._coordinator, []
        send = coordinator.send

        async def refuse_heartbeats(request: Any, **options: Any) -> Any:
            response = await send(request, **options)
            if type(request).__name__ == "HeartbeatRequest":
                response.error_code = Errors.GroupAuthorizationFailedError.errno
                refused.append(response)
            return response

        coordinator.send = refuse_heartbeats
        until(lambda: len(refused) >= 5)
        raised = 0
        before = len(refused)
        while len(refused) == before:
            try:
                consumer.poll(timeout_ms=0)
            except Errors.GroupAuthorizationFailedError:
                raised += 1
        assert raised in (1, 2)  # A second one if the last heartbeat's error was raised too.

        until(lambda: len(refused) >= before + 5)
        coordinator.send = send
        last = coordinator.heartbeat.last_receive
        until(lambda: coordinator.heartbeat.last_receive > last)
        consumer.poll(timeout_ms=0)  # The error is over, so the poll does not raise it.


def test_revocation_does_not_reuse_a_commit_that_an_earlier_one_did_not_await(kafka: Kafka) -> None:
    automatic: dict[str, Any] = {"enable_auto_commit": True, "auto_commit_interval_ms": 3_600_000}
    listener = Listener()
    with (
        GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group,
        consuming(group, listener, **automatic) as first,
    ):
        group.produce(10)
        share(group, first)
        coordinator = first._coordinator
        with consuming(group) as second:
            second.poll(timeout_ms=0)
            until(lambda: coordinator.member.call is not None and coordinator.member.call.is_revocation)
            first.poll(timeout_ms=0)  # The commit is in flight or done.
            first.unsubscribe()
        first.subscribe(list(group.topics), listener=listener)
        share(group, first)
        group.produce(10)
        positions: dict[TopicPartition, int] = {}

        def has_read() -> bool:
            for tp, records in first.poll(timeout_ms=20).items():
                positions[tp] = records[-1].offset + 1
            return list(positions.values()) == [20] * 4

        until(has_read)
        listener.calls.clear()
        with consuming(group) as third:
            share(group, first, third)
            (moved,) = listener.told("revoked")
            assert {tp: third.committed(tp) for tp in moved} == dict.fromkeys(moved, 20)


_LATENCIES = {
    "heartbeat-response-time-max",
    "heartbeat-rate",
    "join-time-avg",
    "join-time-max",
    "join-rate",
    "sync-time-avg",
    "sync-time-max",
    "sync-rate",
    "commit-latency-avg",
    "commit-latency-max",
    "commit-rate",
    "last-heartbeat-seconds-ago",
    "assigned-partitions",
}


@pytest.mark.parametrize("kind", [CooperativeKafkaConsumer, KafkaConsumer], ids=["ours", "stock"])
def test_metrics_of_the_group_protocol_move_as_in_the_stock_consumer(kafka: Kafka, kind: Any) -> None:
    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        (topic,) = group.topics
        consumer = kind(
            bootstrap_servers=kafka.bootstrap,
            group_id=group.id,
            heartbeat_interval_ms=100,
            enable_auto_commit=False,
        )
        with contextlib.closing(consumer):
            consumer.subscribe([topic])
            consumer.partitions_for_topic(topic)
            until(lambda: (consumer.poll(timeout_ms=20), len(consumer.assignment()) == 4)[1])
            heartbeat = consumer._coordinator.heartbeat
            until(lambda: (consumer.poll(timeout_ms=20), heartbeat.last_receive > 0)[1])
            consumer.commit(committed({TopicPartition(topic, 0): 0}))
            metrics = consumer.metrics()["consumer-coordinator-metrics"]
            assert metrics.keys() >= _LATENCIES
            assert {name: metrics[name] for name in _LATENCIES if not 0 < metrics[name] < float("inf")} == {}
            assert heartbeat.last_poll > 0


PASSWORD = "right-password"


def test_a_group_that_the_coordinator_cannot_store_is_told_where_to_look() -> None:
    topics = [f"{number:03}".ljust(200, "x") for number in range(12)]
    with KafkaCluster(settings={"message.max.bytes": "1500"}) as kafka:
        for topic in topics:
            kafka.create_topic(topic, 1)
        consumer = CooperativeKafkaConsumer(*topics, bootstrap_servers=kafka.bootstrap, group_id="g")
        with (
            contextlib.closing(consumer),
            pytest.raises(Errors.UnknownError, match="answered SyncGroup with UNKNOWN_SERVER_ERROR") as told,
        ):
            polling_until(lambda: False, consumer)
        assert "max.message.bytes" in str(told.value)


@pytest.fixture(scope="module")
def secured() -> Iterator[tuple[KafkaCluster, str]]:
    """A broker where `first` may use one topic and `second` two, and the port for password logins."""
    plain, controller, password = free_ports(3)
    doors = f"PLAINTEXT://127.0.0.1:{plain},PASSWORD://localhost:{password}"
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    settings = {
        "listeners": f"{doors},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": doors,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,PASSWORD:SASL_PLAINTEXT",
        "listener.name.password.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.password.plain.sasl.jaas.config": (
            f'{login} user_first="{PASSWORD}" user_second="{PASSWORD}";'
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:second",
    }
    with KafkaCluster(settings=settings, ports=lambda _: [plain, controller]) as cluster:
        cluster.create_topic("orders", 2)
        cluster.create_topic("secrets", 2)
        allow(cluster, "first", "orders")
        yield cluster, f"localhost:{password}"


def allow(cluster: KafkaCluster, user: str, topic: str) -> None:
    from confluent_kafka.admin import (
        AclBinding,
        AclOperation,
        AclPermissionType,
        AdminClient,
        ResourcePatternType,
        ResourceType,
    )

    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    wanted = [
        (ResourceType.TOPIC, topic, AclOperation.READ),
        (ResourceType.TOPIC, topic, AclOperation.DESCRIBE),
        (ResourceType.GROUP, "g", AclOperation.READ),
    ]
    bindings = [
        AclBinding(
            kind, name, ResourcePatternType.LITERAL, f"User:{user}", "*", operation, AclPermissionType.ALLOW
        )
        for kind, name, operation in wanted
    ]
    for done in admin.create_acls(bindings).values():
        done.result(30)


@contextlib.contextmanager
def member(secured: tuple[KafkaCluster, str], user: str, *topics: str) -> Iterator[CooperativeKafkaConsumer]:
    consumer = CooperativeKafkaConsumer(
        bootstrap_servers=secured[1],
        group_id="g",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_plain_username=user,
        sasl_plain_password=PASSWORD,
        heartbeat_interval_ms=200,
        metadata_max_age_ms=200,
    )
    with contextlib.closing(consumer):
        consumer.subscribe(topics)
        yield consumer


def test_topics_of_others_that_a_leader_may_not_describe_do_not_concern_its_user(
    secured: tuple[KafkaCluster, str],
) -> None:
    with member(secured, "first", "orders") as leader:
        polling_until(lambda: len(leader.assignment()) == 2, leader)
        with member(secured, "second", "orders", "secrets") as other:
            polling_until(lambda: len(leader.assignment()) == 1 and other.assignment(), leader, other)
            cluster = leader._coordinator._cluster
            polling_until(lambda: cluster.unauthorized_topics, leader, other)
            for _ in range(3):  # Each refresh reports the unauthorized topic again.
                seen = cluster._last_successful_refresh_ms
                polling_until(lambda seen=seen: cluster._last_successful_refresh_ms > seen, leader, other)


def test_topics_of_ones_own_that_one_may_not_describe_are_an_error(
    secured: tuple[KafkaCluster, str],
) -> None:
    with (
        member(secured, "first", "orders", "secrets") as consumer,
        pytest.raises(Errors.TopicAuthorizationFailedError, match="secrets"),
    ):
        polling_until(lambda: False, consumer)


def test_an_error_of_the_same_source_takes_the_place_of_one_that_was_not_raised() -> None:
    errors = ErrorsOfUser(lambda: None, lambda function, *arguments: function(*arguments))
    raised = [errors.raise_in_poll(Errors.KafkaError(number)) for number in range(1000)]
    with pytest.raises(Errors.KafkaError, match="999"):
        errors.raise_next()
    errors.raise_next()
    assert all(one.is_done for one in raised)
