"""The responses of `kafka-assignors size --serve` to an autoscaler, over HTTP."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from compat_tests.support.hang_limit import HANG_S
from kafka_assignors.sizing import ScalingPolicy
from kafka_assignors_cli.size_result import METRICS, Recommender, app_of
from kafka_assignors_spark.watch.exporter import serving

GROUP = 'he said "no"\n'


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Scene:
    """A recommender, its clock, and the port that serves it."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.recommender = Recommender(GROUP, ScalingPolicy(stale_after_s=60), self.clock)
        self.port = 0

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=HANG_S) as answer:
                return int(answer.status), answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metrics(self) -> dict[str, float]:
        status, text = self.get("/metrics")
        assert status == 200
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        assert {sample.labels["group"] for sample in samples} == {GROUP}
        return {sample.name: sample.value for sample in samples}

    def needs(self, members: int) -> None:
        size = SimpleNamespace(members=members, least=members, too_heavy=())
        report: Any = SimpleNamespace(size=size, needed_full=members)
        self.recommender.succeeded(report)


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene()
    with serving("127.0.0.1", 0, app_of(scene.recommender)) as scene.port:
        yield scene


def test_before_the_first_measurement_there_is_no_number(scene: Scene) -> None:
    status, text = scene.get("/size")
    assert (status, json.loads(text)["members"], json.loads(text)["stale"]) == (503, None, False)
    assert scene.metrics() == {"kafka_assignors_size_failed_looks_total": 0}


def test_the_number_is_served_until_the_last_measurement_is_too_old(scene: Scene) -> None:
    scene.needs(7)
    scene.clock.now_s = 60
    scene.recommender.failed("no answer from b:1")
    status, text = scene.get("/size")
    assert (status, json.loads(text)["members"]) == (200, 7)
    found = scene.metrics()
    assert found.keys() == METRICS.keys()
    assert found["kafka_assignors_size_members"] == found["kafka_assignors_size_needed_members"] == 7
    assert found["kafka_assignors_size_age_seconds"] == 60
    scene.clock.now_s = 61
    status, text = scene.get("/size")
    assert (status, json.loads(text)["members"], json.loads(text)["stale"]) == (503, None, True)
    assert "kafka_assignors_size_members" not in scene.metrics()


def test_other_paths_say_what_there_is(scene: Scene) -> None:
    status, text = scene.get("/")
    assert status == 404
    assert "/size" in text
