"""`kafka-assignors size`: from files, from a simulated cluster, and in the formats of autoscalers."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from kafka_assignors.certificate.size import SizeBound, SizeCertificate, check_size
from kafka_assignors.group import Topic
from kafka_assignors.live_group import LiveGroup, LiveMember
from kafka_assignors.sizing import ScalingPolicy
from kafka_assignors_cli import main, size
from kafka_assignors_cli.options import ClusterAddress
from kafka_assignors_cli.size_result import METRICS, Recommender, Report

EXAMPLES = Path(__file__).resolve().parent.parent / "examples" / "autoscaling"
WEIGHTS = {"format": 1, "topics": {"orders": [1200, 900, 800, 800, 700, None, 300, 100], "clicks": [2500, 0]}}
GROUP = {
    "topics": {"orders": {"partitions": 4, "weights": [600, 500, 400, 300]}},
    "members": [
        {"id": "m1", "topics": ["orders"], "owned": {"orders": [0, 1]}, "generation": 7},
        {"id": "m2", "topics": ["orders"], "owned": {"orders": [2, 3]}, "generation": 7},
    ],
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rates.json").write_text(json.dumps(WEIGHTS))
    Path("group.json").write_text(json.dumps(GROUP))


def sized(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    assert main(["size", *arguments, "--json", "-"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def shown(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main(["size", *arguments]) == code
    return " ".join(capsys.readouterr().out.split())


class TestFiles:
    def test_the_answer_has_a_certificate_that_can_be_checked(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        found = sized(capsys, "--weights", "rates.json", "--capacity", "3200")
        assert (found["members"], found["least_members"], found["exact"]) == (4, 4, True)
        assert (found["limit"], found["unknown_costs"]) == (2560, 1)
        proof = found["certificate"]
        check_size(
            proof["costs"],
            SizeCertificate(proof["limit"], proof["members"], proof["least"], SizeBound(**proof["bound"])),
        )

    def test_the_way_from_the_present_members(self, capsys: pytest.CaptureFixture[str]) -> None:
        found = sized(capsys, "group.json", "--capacity", "1000", "--headroom", "0")
        assert (found["members"], found["now"]) == (2, {"members": 2, "greatest": 1100})
        assert found["change"]["moved"] == found["change"]["least_moved"] == 2
        assert found["step_down"]["overload"] == 800
        assert set(found["step_down"]["paused_partition_seconds"]) == {"cooperative", "eager"}
        text = shown(capsys, "group.json", "--capacity", "1000", "--headroom", "0")
        assert "2 members for 4 partitions of 1,800 in all" in text
        assert "2 1,100 110% – as it is" in text
        assert "one member less" in text

    def test_weights_replace_those_of_the_group(self, capsys: pytest.CaptureFixture[str]) -> None:
        Path("new.json").write_text('{"topics": {"orders": [1, 1, 1, 1]}}')
        found = sized(capsys, "group.json", "--weights", "new.json", "--capacity", "10")
        assert (found["members"], found["total"], len(found["change"]["removed"])) == (1, 4, 1)

    def test_a_partition_that_is_too_heavy_is_named_and_the_check_fails(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        arguments = ("--weights", "rates.json", "--capacity", "2000")
        found = sized(capsys, *arguments, code=1)
        assert found["too_heavy"] == [{"topic": "clicks", "partition": 0, "cost": 2500}]
        text = shown(capsys, *arguments, code=1)
        assert "clicks-0 (2,500). No number of members helps: only more partitions, or a larger" in text
        text = shown(capsys, "--weights", "rates.json", "--capacity", "2600", code=1)
        assert "only more partitions, less headroom, or a larger consumer" in text

    def test_what_is_no_cost_is_said_and_counts_as_unknown(self, capsys: pytest.CaptureFixture[str]) -> None:
        Path("odd.json").write_text('{"topics": {"orders": [-1, NaN, 1.5, "x", 10, 20]}}')
        found = sized(capsys, "--weights", "odd.json", "--capacity", "100")
        assert found["unknown_costs"] == 4
        assert "4 weights of topic 'orders' are no whole numbers" in found["notes"][0]

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            ((), "--capacity"),
            (("--capacity", "5"), "give costs: --weights FILE"),
            (("--capacity", "5"), "or --group and --history"),
            (("--weights", "rates.json", "--capacity", "0"), "has to carry more than 0"),
            (("--weights", "rates.json", "--capacity", "-1"), "has to carry more than 0"),
            (("--weights", "rates.json", "--capacity", "nan"), "expected a number above 0"),
            (("--weights", "rates.json", "--capacity", "1/0"), "expected a number above 0"),
            (("--weights", "rates.json", "--capacity", "0.5"), "has to carry at least 1"),
            (("--weights", "rates.json", "--capacity", "measured"), "needs a running group"),
            (("--weights", "rates.json", "--capacity", "5", "--serve", ":0"), "needs a running group"),
            (("--weights", "rates.json", "--capacity", "5", "--headroom", "1"), "--headroom"),
            (("--weights", "none.json", "--capacity", "5"), "none.json: No such file"),
            (("--weights", "unknown.json", "--capacity", "5"), "no cost of the 2 partitions is known"),
            (("two.json", "--capacity", "5"), "expected one group, found 2"),
            (("--group", "g", "--capacity", "5"), "give --bootstrap-server"),
            (
                ("group.json", "--group", "g", "--capacity", "5"),
                "FILE: no effect on the costs of a running group",
            ),
            (("group.json", "--capacity", "5", "--topic", "ordres"), "no topic 'ordres'"),
            (("--group", "g", "--capacity", "5", "--serve", "9309"), "--serve 9309: expected [HOST]:PORT"),
        ],
    )
    def test_bad_input_ends_in_one_line(
        self, arguments: Sequence[str], said: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        Path("unknown.json").write_text('{"topics": {"orders": [null, null]}}')
        Path("two.json").write_text(f"{json.dumps(GROUP)}\n{json.dumps(GROUP)}\n")
        assert main(["size", *arguments]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert said in captured.err
        assert captured.err.count("\n") == 1

    def test_help_teaches(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["size", "--help"]) == 0
        words = " ".join(capsys.readouterr().out.split())
        for said in ("only a lower bound", "valueLocation", "Exit codes", "--drain", "load test"):
            assert said in words


class Clock:
    """A clock that advances when the program sleeps."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


class GrowingCluster:
    """A group of two members whose partitions grow by 100, 50, 20 and 10 records a second."""

    RATES = (100, 50, 20, 10)

    def __init__(self, clock: Clock, members: int = 2) -> None:
        self.clock = clock
        owned = [[0, 1], [2, 3]][:members]
        self.live = LiveGroup(
            "g",
            "consumer",
            "Stable" if members else "Empty",
            members=tuple(
                LiveMember(f"m{number}", "c", "h", assigned={"orders": each})
                for number, each in enumerate(owned)
            ),
            topics={"orders": Topic("orders", 4)} if members else {},
        )

    def offsets(self, share: float) -> dict[str, dict[int, int]]:
        return {
            "orders": {number: int(rate * share * self.clock.now_s) for number, rate in enumerate(self.RATES)}
        }

    def read_groups(self, ids: Sequence[str], **_: Any) -> Sequence[LiveGroup]:
        return [replace(self.live, id=ids[0], committed=self.offsets(0.9))]

    def read_ends(self, partitions: Mapping[str, Iterable[int]], *_: Any) -> dict[str, dict[int, int]]:
        return {
            name: {number: end for number, end in self.offsets(1)[name].items() if number in numbers}
            for name, numbers in partitions.items()
        }

    def list_groups(self) -> Any:
        return SimpleNamespace(groups=[SimpleNamespace(id="g")])


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(size, "time", clock)
    return clock


def play(monkeypatch: pytest.MonkeyPatch, cluster: GrowingCluster) -> tuple[str, ...]:
    """The arguments that measure the group `g` of this cluster."""
    monkeypatch.setattr(ClusterAddress, "connected", lambda _: contextlib.nullcontext(cluster))
    return ("--group", "g", "--bootstrap-server", "b:1", "--over", "10")


class TestCluster:
    def test_rates_are_measured_between_two_looks(
        self, clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        options = play(monkeypatch, GrowingCluster(clock))
        found = sized(capsys, *options, "--capacity", "100", "--headroom", "0")
        assert (found["members"], found["total"]) == (2, 180.0)
        assert found["now"] == {"members": 2, "greatest": 150.0}
        assert "means over at least 10 s" in found["notes"][0]
        drained = sized(capsys, *options, "--capacity", "300", "--headroom", "0", "--drain", "10")
        assert drained["total"] == pytest.approx(180 + 0.1 * 180 * clock.now_s / 10, rel=0.01)

    def test_a_measured_capacity_is_called_a_lower_bound(
        self, clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        options = play(monkeypatch, GrowingCluster(clock))
        text = shown(capsys, *options, "--capacity", "measured")
        assert "the most that a member consumed between the looks (135.0 a second): a lower bound" in text

    def test_a_group_without_members_is_sized_by_what_it_has_committed(
        self, clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        options = play(monkeypatch, GrowingCluster(clock, members=0))
        found = sized(capsys, *options, "--capacity", "100", "--headroom", "0")
        assert (found["members"], found["now"]["members"]) == (2, 0)
        assert any("has no members" in each for each in found["notes"])

    def test_a_missing_package_is_said_to_be_needed_by_this_command(
        self, clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        options = play(monkeypatch, GrowingCluster(clock))
        monkeypatch.setitem(sys.modules, "prometheus_client", None)
        assert main(["size", *options, "--capacity", "100", "--serve", ":0"]) == 2
        needed = 'size --serve needs prometheus_client: pip install "kafka-assignors[cli,watch]"'
        assert needed in capsys.readouterr().err


def report_of(needed: int, needed_full: int) -> Report:
    size = SimpleNamespace(members=needed, least=needed, too_heavy=())
    found: Any = SimpleNamespace(size=size, needed_full=needed_full)
    return found  # type: ignore[no-any-return]


class TestServed:
    def test_a_failure_changes_nothing_until_the_last_size_is_too_old(self) -> None:
        clock = Clock()
        recommender = Recommender("g", ScalingPolicy(stale_after_s=300), clock.monotonic)
        assert recommender.status()["members"] is None
        assert recommender.succeeded(report_of(5, 4)) == 5
        assert recommender.succeeded(report_of(5, 4)) is None
        clock.sleep(300)
        recommender.failed("no answer from b:1")
        status = recommender.status()
        assert (status["members"], status["stale"], status["age_s"]) == (5, False, 300)
        assert (status["failed_looks"], status["problem"]) == (1, "no answer from b:1")
        clock.sleep(1)
        assert (recommender.status()["members"], recommender.status()["stale"]) == (None, True)
        recommender.succeeded(report_of(5, 4))
        assert (recommender.status()["members"], recommender.status()["problem"]) == (5, None)


class TestPage:
    PAGE = EXAMPLES.parents[1].joinpath("docs", "size.md").read_text(encoding="utf-8")

    def test_the_example_prints_what_the_page_shows(self, capsys: pytest.CaptureFixture[str]) -> None:
        Path("rates.json").write_text(block(self.PAGE, "json"))
        command, _, output = block(self.PAGE, "console").partition("\n")
        program, *arguments = command.removeprefix("$ ").split()
        assert program == "kafka-assignors"
        assert main(arguments) == 0
        shown = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
        assert shown == output.splitlines()

    def test_the_code_runs(self) -> None:
        exec(compile(block(self.PAGE, "python"), "size.md", "exec"), {})

    def test_every_metric_and_every_key_of_the_answer_is_there(self) -> None:
        for name in METRICS:
            assert f"`{name}`" in self.PAGE
        for key in ("too_heavy", "change", "step_down", "certificate", "members_at_full_capacity", "now"):
            assert f"| `{key}`" in self.PAGE


def block(page: str, language: str) -> str:
    """The first code block in this language."""
    return page.partition(f"```{language}\n")[2].partition("```")[0]


def documents(name: str) -> list[dict[str, Any]]:
    return [*yaml.safe_load_all((EXAMPLES / name).read_text(encoding="utf-8"))]


class TestExamples:
    def test_keda_reads_the_key_and_the_address_that_are_served(self) -> None:
        (scaled,) = documents("keda-scaledobject.yaml")
        (trigger,) = scaled["spec"]["triggers"]
        assert (trigger["type"], trigger["metricType"]) == ("metrics-api", "AverageValue")
        metadata = trigger["metadata"]
        assert metadata["valueLocation"] in Recommender("g", ScalingPolicy()).status()
        assert metadata["targetValue"] == "1"
        deployment, service = documents("size.yaml")
        assert metadata["url"] == f"http://{service['metadata']['name']}:{port_of(service)}/size"
        assert deployment["spec"]["replicas"] == 1

    def test_the_arguments_of_the_deployment_are_options_of_the_command(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        deployment, service = documents("size.yaml")
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        assert container["command"] == ["kafka-assignors", "size"]
        (serve,) = [each for each in container["args"] if each.startswith("--serve=")]
        assert serve.endswith(f":{port_of(service)}")
        # The last option is refused, so the command contacts no cluster; all others are known and valid.
        assert main([*container["command"][1:], *container["args"], "--nodes=-1"]) == 2
        assert "--nodes" in capsys.readouterr().err

    def test_the_autoscaler_and_the_adapter_name_the_metric(self) -> None:
        (adapter,) = documents("prometheus-adapter-rules.yaml")
        (rule,) = adapter["externalRules"]
        assert rule["name"]["matches"].strip("^$") in METRICS
        (hpa,) = documents("hpa.yaml")
        (metric,) = hpa["spec"]["metrics"]
        external = metric["external"]
        assert external["metric"]["name"] == rule["name"]["as"]
        assert external["target"] == {"type": "AverageValue", "averageValue": "1"}

    def test_both_autoscalers_have_the_range_of_the_recommendation(self) -> None:
        deployment, _ = documents("size.yaml")
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        (scaled,), (hpa,) = documents("keda-scaledobject.yaml"), documents("hpa.yaml")
        least, most = scaled["spec"]["minReplicaCount"], scaled["spec"]["maxReplicaCount"]
        assert (hpa["spec"]["minReplicas"], hpa["spec"]["maxReplicas"]) == (least, most)
        assert {f"--min={least}", f"--max={most}"} < {*container["args"]}


def port_of(service: dict[str, Any]) -> int:
    (port,) = service["spec"]["ports"]
    return int(port["port"])
