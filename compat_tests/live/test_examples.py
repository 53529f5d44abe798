"""The examples, run as their readers run them: as processes, against a real broker, stopped by SIGTERM."""

from __future__ import annotations

import collections
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

import pytest

from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from compat_tests.support.processes import Processes

_ROOT = Path(__file__).resolve().parents[2]
_PROCESSED = re.compile(r": (\S+)-(\d+): processed offsets (\d+) to (\d+)$")
_ASSIGNED = re.compile(r" examples\.\w+: assigned: (.*)$")
_PARTITIONS = 4

CLIENTS = ("aiokafka", "kafka_python")


class Example:
    """One process that runs an example, seen through what it logs."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self.log = log

    def lines(self) -> list[str]:
        return self.log.read_text(errors="replace").splitlines()

    def processed(self) -> Iterator[tuple[int, int]]:
        """Each record that was processed, as (partition, offset); again if it was again."""
        for line in self.lines():
            if found := _PROCESSED.search(line):
                for offset in range(int(found[3]), int(found[4]) + 1):
                    yield int(found[2]), offset

    def assignments(self) -> list[set[int]]:
        """What the consumer was assigned, one set of partitions for each rebalance."""
        found = [match[1] for line in self.lines() if (match := _ASSIGNED.search(line))]
        return [
            {int(partition.rsplit("-", 1)[1]) for partition in line.split(", ") if partition}
            for line in found
        ]

    def assigned(self) -> set[int]:
        """What it was assigned last."""
        assignments = self.assignments()
        return assignments[-1] if assignments else set()


class Shop:
    """A topic with four partitions, a group, and the examples that are its members."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._group = GroupOfMembers(kafka, "examples", {"orders": _PARTITIONS})
        self._processes = Processes()
        self.everyone: list[Example] = []
        self.produced = 0

    def __enter__(self) -> Shop:
        self._group.__enter__()
        self._processes.__enter__()
        self._folder = Path(tempfile.mkdtemp(prefix="examples-"))
        self._processes.own_folder(self._folder)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for example in self.everyone:  # pytest shows it if the test fails
            print(f"---- {example.log.name}", *example.lines()[-60:], sep="\n")
        self._processes.__exit__(kind, error, trace)
        self._group.__exit__(kind, error, trace)

    def start(self, module: str, *arguments: str, **environment: str) -> Example:
        log = self._folder / f"{len(self.everyone)}.log"
        names = ["--topic", self._group.topic("orders"), "--group", self._group.id]
        command = [sys.executable, "-m", module, *names, *arguments]
        settings = {"KAFKA_BOOTSTRAP_SERVERS": self._kafka.bootstrap, **environment}
        process = self._processes.start(["env", *map("=".join, settings.items()), *command], log, cwd=_ROOT)
        example = Example(process, log)
        self.everyone.append(example)
        return example

    def stop(self, *examples: Example) -> None:
        """As Kubernetes does; the example has to end by itself, and without an error."""
        for example in examples:
            example.process.send_signal(signal.SIGTERM)
        for example in examples:
            assert example.process.wait(HANG_S) == 0
            assert example.lines()[-1].endswith(": stopped")

    def produce(self, per_partition: int) -> None:
        self._group.produce(per_partition)
        self.produced += per_partition

    def share(self, *examples: Example) -> None:
        """Wait until these members have all partitions among them, each one once and each member at least
        one."""

        def shared() -> bool:
            shares = [example.assigned() for example in examples]
            return all(shares) and sorted(p for share in shares for p in share) == list(range(_PARTITIONS))

        self._group.wait_for("the partitions to be shared", shared)

    def processed(self) -> collections.Counter[tuple[int, int]]:
        return collections.Counter(record for example in self.everyone for record in example.processed())

    def process_all(self) -> None:
        """Wait until every record that was produced has been processed."""
        everything = {(p, offset) for p in range(_PARTITIONS) for offset in range(self.produced)}
        self._group.wait_for("all records", lambda: everything <= self.processed().keys())

    def duplicates(self) -> int:
        return sum(times - 1 for times in self.processed().values())

    def strategy(self) -> str:
        """The name on which the members have agreed."""
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": self._kafka.bootstrap})
        described = admin.describe_consumer_groups([self._group.id], request_timeout=HANG_S)
        return str(described[self._group.id].result().partition_assignor)

    def committed(self) -> dict[int, int]:
        """The group's offset of each partition."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": self._kafka.bootstrap, "group.id": self._group.id})
        try:
            topic = self._group.topic("orders")
            asked = [TopicPartition(topic, partition) for partition in range(_PARTITIONS)]
            return {found.partition: found.offset for found in consumer.committed(asked, timeout=HANG_S)}
        finally:
            consumer.close()


@pytest.fixture
def shop(kafka: Kafka) -> Iterator[Shop]:
    with Shop(kafka) as opened:
        yield opened


@pytest.mark.parametrize("client", CLIENTS)
class TestExamples:
    def test_plain_members_share_the_partitions_and_leave_with_everything_committed(
        self, shop: Shop, client: str
    ) -> None:
        module = f"examples.{client}.plain"
        first = shop.start(module)
        shop.share(first)
        shop.produce(50)
        second = shop.start(module)
        shop.share(first, second)
        shop.produce(50)
        shop.process_all()
        shop.stop(first)
        shop.share(second)
        shop.produce(50)
        shop.process_all()
        shop.stop(second)
        assert shop.duplicates() == 0
        assert shop.committed() == dict.fromkeys(range(_PARTITIONS), 150)

    def test_a_pod_that_is_replaced_under_its_name_causes_no_rebalance(self, shop: Shop, client: str) -> None:
        module = f"examples.{client}.static_membership"
        pods = {name: shop.start(module, POD_NAME=name) for name in ("billing-0", "billing-1")}
        shop.share(*pods.values())
        shop.produce(20)
        shop.process_all()
        rebalances = len(pods["billing-0"].assignments())

        shop.stop(pods["billing-1"])
        replaced = shop.start(module, POD_NAME="billing-1")
        shop.share(pods["billing-0"], replaced)
        shop.produce(20)
        shop.process_all()
        assert replaced.assigned() == pods["billing-1"].assigned()
        assert len(pods["billing-0"].assignments()) == rebalances
        assert shop.duplicates() == 0

    def test_a_member_with_three_times_the_capacity_gets_three_times_the_partitions(
        self, shop: Shop, client: str
    ) -> None:
        module = f"examples.{client}.custom_strategy"
        large = shop.start(module, CAPACITY="3")
        small = shop.start(module, CAPACITY="1")
        shop.share(large, small)
        assert (len(large.assigned()), len(small.assigned())) == (3, 1)
        shop.stop(large, small)

    def test_members_that_measure_their_rebalances_log_what_each_cost(self, shop: Shop, client: str) -> None:
        module = f"examples.{client}.metrics"
        first = shop.start(module)
        shop.share(first)
        second = shop.start(module)
        shop.share(first, second)
        shop.produce(20)
        shop.process_all()
        shop.stop(second)
        shop.share(first)
        shop.stop(first)
        log = "\n".join(first.lines())
        # Alone, joined, after it has revoked, and left.
        assert re.search(
            r": rebalance ended: .*; so far failed [1-9], rebalances [4-9], revoked 2$", log, re.MULTILINE
        )
        assert ": rebalance begun: the group is rebalancing" in log
        assert ": led: cooperative-sticky moves 2 partitions, the least is 2; " in log

    def test_a_member_that_skips_the_step_with_both_assignors_is_refused_and_the_group_goes_on(
        self, shop: Shop, client: str
    ) -> None:
        module = f"examples.{client}.rolling_upgrade"
        old = shop.start(module, "--step", "0")
        shop.share(old)
        rebalances = len(old.assignments())
        hasty = shop.start(module, "--step", "2")
        assert hasty.process.wait(HANG_S) != 0
        assert any("InconsistentGroupProtocolError" in line for line in hasty.lines())
        shop.produce(5)
        shop.process_all()
        assert len(old.assignments()) == rebalances
        shop.stop(old)


def test_groups_move_from_a_stock_assignor_to_ours_member_by_member(kafka: Kafka) -> None:
    # Both clients at once, since nearly all of the time is spent waiting for heartbeats.
    with ThreadPoolExecutor() as pool:
        moves = [pool.submit(roll, kafka, client, "rolling_upgrade", "12") for client in CLIENTS]
        strategies = [one.result() for one in moves]
    # As long as one member had the stock assignor alone, the group ran that.
    assert strategies == [
        ["roundrobin", "roundrobin", "sticky", "sticky", "sticky"],
        ["range", "range", "sticky", "sticky", "sticky"],
    ]


def test_groups_migrate_from_the_stock_consumer_to_the_cooperative_one_and_back(kafka: Kafka) -> None:
    with ThreadPoolExecutor() as pool:
        moves = [pool.submit(roll, kafka, client, "cooperative", "1210") for client in CLIENTS]
        strategies = [one.result() for one in moves]
    # From the last restart to step 1 until the first one back to step 0.
    cooperative = ["cooperative-sticky"] * 5
    assert strategies == [
        ["roundrobin", "roundrobin", *cooperative, "roundrobin", "roundrobin"],
        ["range", "range", *cooperative, "range", "range"],
    ]


def roll(kafka: Kafka, client: str, example: str, steps: str) -> list[str]:
    """Roll the steps of a migration out to a group of two at step 0, member by member.

    Returns:
        The strategy that the group runs at the begin and after each restart.
    """
    module = f"examples.{client}.{example}"
    with Shop(kafka) as shop:
        members = [shop.start(module, "--step", "0") for _ in range(2)]
        shop.share(*members)
        strategies = [shop.strategy()]
        for step in steps:
            for place, old in enumerate(members):
                shop.produce(25)
                shop.stop(old)
                members[place] = shop.start(module, "--step", step)
                shop.share(*members)
                strategies.append(shop.strategy())
        shop.produce(25)
        shop.process_all()
        shop.stop(*members)
        assert shop.duplicates() == 0
        assert shop.committed() == dict.fromkeys(range(_PARTITIONS), shop.produced)
    return strategies


def test_members_of_both_clients_share_a_group_under_one_strategy_of_the_users(shop: Shop) -> None:
    large = shop.start("examples.kafka_python.custom_strategy", CAPACITY="3")
    small = shop.start("examples.aiokafka.custom_strategy", CAPACITY="1")
    shop.share(large, small)
    assert (len(large.assigned()), len(small.assigned())) == (3, 1)


def test_the_command_line_shows_what_the_users_strategy_does() -> None:
    command = [sys.executable, "-m", "kafka_assignors_cli", "assign", "examples/group.json"]
    answer = subprocess.run(
        [*command, "--strategy", "examples/by_capacity.py:ByCapacity"],
        cwd=_ROOT,
        env={**os.environ, "NO_COLOR": "1"},
        check=True,
        capture_output=True,
    ).stdout
    shares = json.loads(answer)["assignment"]
    assert {member: len(topics["orders"]) for member, topics in shares.items()} == {"small": 3, "large": 9}


def test_a_canary_has_its_share_and_a_pod_that_drains_hands_over_before_it_goes(kafka: Kafka) -> None:
    # Both clients at once: this too is nearly all heartbeats.
    with ThreadPoolExecutor() as pool:
        for rolled_out in [pool.submit(roll_out, kafka, client) for client in CLIENTS]:
            rolled_out.result()


def roll_out(kafka: Kafka, client: str) -> None:
    """A canary beside one pod of the old release, which drains and goes."""
    module = f"examples.{client}.rollout"
    with Shop(kafka) as shop:
        old = shop.start(module, RELEASE="1.7")
        shop.share(old)
        canary = shop.start(module, RELEASE="1.8", SHARE="0.25")
        shop.share(old, canary)
        assert (len(old.assigned()), len(canary.assigned())) == (3, 1)
        shop.produce(50)
        shop.process_all()
        shop.stop(old)
        assert any(line.endswith("drained, 0 partitions left") for line in old.lines())
        shop.share(canary)
        shop.produce(50)
        shop.process_all()
        shop.stop(canary)
        assert shop.duplicates() == 0
