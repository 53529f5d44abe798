"""The service of examples/ as its image runs it, on a real broker: when stopped at work, it hands over."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.image import Image, build
from compat_tests.support.kafka_cluster import Kafka, free_ports
from compat_tests.support.running_examples import PARTITIONS, Example, Shop

_ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    folder = tmp_path_factory.mktemp("image")
    return build(_ROOT / "examples/Dockerfile", _ROOT, folder, folder / "state")


@pytest.fixture
def shop(kafka: Kafka) -> Iterator[Shop]:
    with Shop(kafka) as opened:
        yield opened


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
