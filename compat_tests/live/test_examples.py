"""The examples as users run them: as processes, with a real broker, stopped by SIGTERM."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.image import Image, build
from compat_tests.support.kafka_cluster import Kafka, KafkaCluster, free_ports
from compat_tests.support.running_examples import PARTITIONS, Example, Shop

_ROOT = Path(__file__).resolve().parents[2]

CLIENTS = ("aiokafka", "kafka_python")

CONSUMERS = {
    f"examples.{client}.{file.stem}": file.read_text()
    for client in CLIENTS
    for file in sorted(_ROOT.joinpath("examples", client).glob("*.py"))
    if "__main__" in file.read_text() and file.stem != "stateful"
}
"""The source of each example that consumes alone, by its module; `stateful` writes, and needs a broker."""


@pytest.fixture
def shop(kafka: Kafka) -> Iterator[Shop]:
    with Shop(kafka) as opened:
        yield opened


def plain_members_share_the_partitions_and_leave_with_everything_committed(shop: Shop, client: str) -> None:
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
    assert shop.committed() == dict.fromkeys(range(PARTITIONS), 150)


def members_that_measure_their_rebalances_log_what_each_cost(shop: Shop, client: str) -> None:
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
    # Four rebalances: alone; another joins; after the revocation; the other leaves.
    assert re.search(
        r": rebalance ended: .*; so far member_id_given 1, assigned [4-9], revoked 2$", log, re.MULTILINE
    )
    assert ": rebalance begun: the group is rebalancing" in log
    assert ": led: cooperative-sticky moves 2 partitions; " in log


def a_member_with_two_hot_partitions_asks_and_the_other_gets_one(shop: Shop, client: str) -> None:
    members = [shop.start(f"examples.{client}.load", "--check-every", "2") for _ in range(2)]
    shop.share(*members)
    hot = members[0].assigned()
    assert len(hot) == 2

    def each_has_one() -> bool:
        shop.heat(hot)
        return all(len(hot & member.assigned()) == 1 for member in members)

    shop.wait_for("each member to have one of the hot partitions", each_has_one)
    shop.share(*members)
    shop.produce(20)
    shop.process_all()
    shop.stop(*members)
    assert shop.duplicates() == 0
    assert not [line for member in members for line in member.lines() if "load is not known" in line]


def groups_migrate_from_the_stock_consumer_to_the_cooperative_one_and_back(shop: Shop, client: str) -> None:
    module = f"examples.{client}.cooperative"
    members = [shop.start(module, "--step", "0") for _ in range(2)]
    shop.share(*members)
    strategies = [shop.strategy()]
    for step in "1210":
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
    assert shop.committed() == dict.fromkeys(range(PARTITIONS), shop.produced)
    # The group is cooperative from the last restart to step 1 until the first restart back to step 0.
    stock = {"aiokafka": "roundrobin", "kafka_python": "range"}[client]
    assert strategies == [*[stock] * 2, *["cooperative-sticky"] * 5, *[stock] * 2]


def a_member_restores_a_table_before_it_gets_the_partition_and_drains_at_its_end(
    shop: Shop, client: str
) -> None:
    def restored(example: Example, how: str) -> set[str]:
        ends = f": {how}"
        return {line.split(": ")[-2] for line in example.lines() if line.endswith(ends)}

    shop.produce(5)
    first = shop.start(f"examples.{client}.stateful")
    shop.wait_for("a table of each partition", lambda: len(restored(first, "restored")) == PARTITIONS)
    second = shop.start(f"examples.{client}.stateful")
    shop.wait_for("two tables of the second member", lambda: len(restored(second, "was warm")) == 2)
    shop.stop(first)
    shop.wait_for("all tables of the second member", lambda: len(restored(second, "was warm")) == PARTITIONS)
    assert restored(second, "restored") == set()
    shop.stop(second)


def a_canary_has_its_share_and_a_pod_that_drains_hands_over_before_it_goes(shop: Shop, client: str) -> None:
    module = f"examples.{client}.rollout"
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


@pytest.mark.parametrize(
    "play",
    [
        plain_members_share_the_partitions_and_leave_with_everything_committed,
        members_that_measure_their_rebalances_log_what_each_cost,
        a_member_with_two_hot_partitions_asks_and_the_other_gets_one,
        groups_migrate_from_the_stock_consumer_to_the_cooperative_one_and_back,
        a_member_restores_a_table_before_it_gets_the_partition_and_drains_at_its_end,
        a_canary_has_its_share_and_a_pod_that_drains_hands_over_before_it_goes,
    ],
)
def test_with_both_clients(kafka: Kafka, play: Callable[[Shop, str], None]) -> None:
    def in_a_shop(client: str) -> None:
        with Shop(kafka) as shop:
            play(shop, client)

    # At the same time, since most of the time is spent on waiting for heartbeats.
    with ThreadPoolExecutor() as pool:
        for played in [pool.submit(in_a_shop, client) for client in CLIENTS]:
            played.result()


def test_members_of_both_clients_share_a_group_under_one_strategy_of_the_users(shop: Shop) -> None:
    large = shop.start("examples.kafka_python.custom_strategy", CAPACITY="3")
    small = shop.start("examples.aiokafka.custom_strategy", CAPACITY="1")
    shop.share(large, small)
    assert (len(large.assigned()), len(small.assigned())) == (3, 1)


def test_the_first_tutorial_shows_what_the_log_says(shop: Shop) -> None:
    first = shop.start("examples.aiokafka.cooperative", LOG_LEVEL="INFO")
    shop.share(first)
    shop.produce(5)
    shop.wait_for("a commit", lambda: any(": committed " in line for line in first.lines()))
    shop.share(first, shop.start("examples.aiokafka.cooperative"))
    shop.wait_for("the second round", lambda: any(": joined generation 3 " in line for line in first.lines()))
    page = (_ROOT / "docs/index.md").read_text()
    shown = [line.removeprefix("… ") for line in page.splitlines() if line.startswith("… INFO ")]
    assert len(shown) > 5
    log = "\n".join(first.lines())
    missing = [line for line in shown if not re.search(pattern_of(line, shop.topic), log, re.MULTILINE)]
    assert not missing


def pattern_of(line: str, topic: str) -> str:
    """A pattern for a log line in a page: other names and numbers match the same line."""
    pattern = re.sub(r"\d+(\\-\d+)?", r"[0-9, -]+", re.escape(line))
    pattern = pattern.replace("'billing'", "'[^']+'").replace("orders", re.escape(topic)).replace("…", ".*")
    return re.sub(r"aiokafka\\-\[.*", r"aiokafka-.*", pattern) + "$"


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


FEW = tuple(f"examples.{client}.{name}" for client in CLIENTS for name in ("plain", "rollout"))


def test_each_example_ends_at_sigterm_while_its_broker_is_stopped_or_silent(tmp_path: Path) -> None:
    # The examples of both brokers end at the same time, since they mostly wait for answers. All of a client
    # send the same requests, so few are enough beside a broker that does not answer.
    with KafkaCluster() as stopped, KafkaCluster() as silent, ExitStack() as stack:
        asked = [*((module, stopped) for module in CONSUMERS), *((module, silent) for module in FEW)]
        shops = [stack.enter_context(Shop(cluster)) for _, cluster in asked]
        for (module, _), shop, port in zip(asked, shops, free_ports(len(shops)), strict=True):
            shop.start(
                module,
                *(("--step", "2") if "--step" in CONSUMERS[module] else ()),
                RELEASE="1.7",
                POD_NAME="billing-0",
                STATE_DIR=str(tmp_path),
                HEALTH_PORT=str(port),
            )
        for shop in shops:
            shop.share(*shop.everyone)
        for shop in shops:
            shop.produce(20)
            shop.process_all()  # The examples of aiokafka commit that at an interval, or at the end.
        stopped.stop(1)
        os.kill(silent.pids[1], signal.SIGSTOP)
        shops[0].stop(*(member for shop in shops for member in shop.everyone))


# ---- the service, as its image runs it


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    folder = tmp_path_factory.mktemp("image")
    return build(_ROOT / "examples/Dockerfile", _ROOT, folder, folder / "state")


class Pod:
    """A member that runs the image, and the port for its probes."""

    def __init__(self, shop: Shop, image: Image, work_s: float) -> None:
        (self.port,) = free_ports(1)
        environment = {**image.environment, "HEALTH_PORT": str(self.port), "WORK_S": str(work_s)}
        self.example: Example = shop.start_command(image.command, image.folder, **environment)

    def get(self, path: str) -> int | None:
        """The status of a GET request to `path`; None if nothing listens yet."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=HANG_S) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return None


def test_a_service_that_is_stopped_at_work_ends_well_and_loses_and_repeats_nothing(
    shop: Shop, image: Image
) -> None:
    first = Pod(shop, image, work_s=0.005)
    shop.wait_for("the first member", lambda: first.get("/ready") == 200)
    assert [first.get(path) for path in ("/startup", "/live", "/other")] == [200, 200, 404]
    second = Pod(shop, image, work_s=0)
    shop.share(first.example, second.example)
    shop.produce(200)
    shop.wait_for("work in hand", lambda: any(first.example.processed()))
    # Stop as a preStop hook does, before the signal.
    assert first.get("/stop") == 200
    assert first.example.process.wait(HANG_S) == 0
    shop.share(second.example)
    shop.produce(50)
    shop.process_all()
    shop.stop(second.example)
    assert shop.duplicates() == 0
    assert shop.committed() == dict.fromkeys(range(PARTITIONS), 250)
    assert stored(image, shop) == dict.fromkeys(range(PARTITIONS), (250, 250))


def stored(image: Image, shop: Shop) -> dict[int, tuple[int, int]]:
    """The stored next offset and number of counted records of each partition."""
    folder = Path(image.environment["STATE_DIR"]) if image.environment else image.folder / "state"
    files = {
        partition: json.loads((folder / f"{shop.topic}-{partition}.json").read_text("utf-8"))
        for partition in range(PARTITIONS)
    }
    return {
        partition: (state["next_offset"], Counter(state["by_key"]).total())
        for partition, state in files.items()
    }
