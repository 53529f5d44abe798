"""The metrics for Prometheus: its own parser reads every name and every value."""

from __future__ import annotations

import gzip
import http.client
import socket
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from prometheus_client import generate_latest, make_wsgi_app
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from compat_tests.support.hang_limit import HANG_S
from kafka_assignors.arguments import UserError
from kafka_assignors_ops.watch import metric_table
from kafka_assignors_ops.watch.exporter import WsgiApp, registry, serving
from spark_validation.tests.test_watch_fleet import feed, followed, joined

NAMES = (
    "plain", "", 'he said "no"', "two\nlines", "back\\slash", "\\n", "ends with \\", '"', "{a=\"b\"} 1",
    "tab\t", "\r\n", "\0", "\u2028", "\x1b[31m", "Ñandú 群 🐼", "# HELP x", "x" * 249,
)  # fmt: skip


def scrape_of(*names: str, caught_up: bool = True) -> Callable[[], metric_table.Scrape]:
    fleet = followed()
    feed(fleet, joined(*names))
    status = metric_table.WatchStatus(up=True, caught_up=caught_up, lag=7, errors=2)
    return lambda: metric_table.Scrape(fleet.snapshot(0), status)


def app_of(*names: str) -> WsgiApp:
    app: WsgiApp = make_wsgi_app(registry(scrape_of(*names)))
    return app


def as_text(scrape: Callable[[], metric_table.Scrape]) -> str:
    return generate_latest(registry(scrape)).decode()


METRICS: list[metric_table.WatchedMetric[Any]] = [*metric_table.GROUP_METRICS, *metric_table.WATCH_METRICS]

FORMATS = pytest.mark.parametrize(
    ("write", "parse"),
    [
        (as_text, parse_text),
        (lambda scrape: generate_openmetrics(registry(scrape)).decode(), parse_openmetrics),
    ],
    ids=["text", "openmetrics"],
)


@FORMATS
def test_the_parser_reads_every_name_of_a_group_back(
    write: Callable[..., str], parse: Callable[..., object]
) -> None:
    families = list(parse(write(scrape_of(*NAMES))))  # type: ignore[call-overload]
    generations = {
        sample.labels["group"]: sample.value
        for family in families
        for sample in family.samples
        if sample.name == "kafka_assignors_group_generation"
    }
    assert generations == dict.fromkeys(NAMES, 2)


@FORMATS
def test_every_metric_of_the_table_is_there_with_its_type_help_and_labels(
    write: Callable[..., str], parse: Callable[..., object]
) -> None:
    families = {family.name: family for family in parse(write(scrape_of("g")))}  # type: ignore[attr-defined]
    for metric in METRICS:
        family = families[metric.name.removesuffix("_total")]
        assert (family.type, family.documentation) == (metric.kind, metric.help)
        labels = {"group", *metric.labels} if metric in metric_table.GROUP_METRICS else set(metric.labels)
        assert family.samples
        assert all(set(sample.labels) == labels for sample in family.samples)


def test_counters_of_a_group_begin_at_0_with_all_their_labels() -> None:
    fleet = followed()
    feed(fleet, joined("g"), history=True)
    (group,) = fleet.snapshot(0).groups
    for metric in metric_table.GROUP_METRICS:
        if metric.kind == "counter":
            assert {value for _, value in metric.samples(group)} == {0}


def test_groups_are_shown_once_all_is_read_so_that_no_counter_goes_back() -> None:
    text = as_text(scrape_of("g", caught_up=False))
    assert 'group="g"' not in text
    assert "kafka_assignors_watch_caught_up 0.0" in text


@pytest.fixture
def port() -> Iterator[int]:
    with serving("127.0.0.1", 0, app_of(*NAMES)) as port:
        yield port


def test_it_is_served_in_the_format_that_is_asked_for_compressed_or_not(port: int) -> None:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={"Accept-Encoding": "gzip"})
    with urllib.request.urlopen(request, timeout=HANG_S) as response:
        assert response.headers["Content-Type"].startswith("text/plain; version=")
        text = gzip.decompress(response.read()).decode()
    assert len(list(parse_text(text))) > len(metric_table.GROUP_METRICS)
    accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers=accept)
    with urllib.request.urlopen(request, timeout=HANG_S) as response:
        assert response.headers["Content-Type"].startswith("application/openmetrics-text")
        assert response.read().decode().endswith("# EOF\n")


def test_a_request_that_cannot_be_answered_says_nothing_on_stderr(
    port: int, capfd: pytest.CaptureFixture[str]
) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=HANG_S)
    accept = "application/openmetrics-text; version=a.b.c; escaping=allow-utf-8"
    connection.request("GET", "/metrics", headers={"Accept": accept})
    assert connection.getresponse().status in (200, 500)
    connection.close()
    assert capfd.readouterr().err == ""


def test_clients_that_say_nothing_take_a_few_places_and_give_them_back(port: int) -> None:
    silent = [socket.create_connection(("127.0.0.1", port), timeout=HANG_S) for _ in range(40)]
    try:
        # The first eight wait for a request; the server closes the others.
        closed = sum(each.recv(1) == b"" for each in silent[8:])
        assert closed == 32
    finally:
        for each in silent:
            each.close()
    for _ in range(1000):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=HANG_S) as response:
                assert response.status == 200
                return
        except (OSError, http.client.HTTPException):
            continue
    raise AssertionError("no place came free")


def test_a_port_that_is_taken_is_told(port: int) -> None:
    with (
        pytest.raises(UserError, match=rf"cannot serve metrics on 127.0.0.1:{port}: Address already in use"),
        serving("127.0.0.1", port, app_of()),
    ):
        pass
