"""`kafka-assignors lint` on files: its input, its output, its exit code."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kafka_assignors_ops.lint import RULES
from tests.test_cli import refusal, run_here
from tools.lint_docs import PAGE, page_with_rules

JAVA = "partition.assignment.strategy=org.apache.kafka.clients.consumer.RangeAssignor\n"
AIOKAFKA = 'client = "aiokafka"\npartition_assignment_strategy = ["range"]\n'

run = partial(run_here, "lint")


def rules(*arguments: object) -> set[str]:
    code, out, err = run(*arguments, "--json", "-")
    assert code in (0, 1), err
    return {finding["rule"] for finding in json.loads(out)["findings"]}


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


# ---- how it ends


def test_information_is_no_failure_and_an_error_is(tmp_path: Path) -> None:
    java = write(tmp_path, "a.properties", JAVA)
    code, out, _ = run(java)
    assert (code, out.splitlines()[-1]) == (0, "0 errors, 0 warnings, 2 good to know.")
    sticky = write(tmp_path, "b.properties", "client=java\npartition.assignment.strategy=sticky\n")
    code, out, _ = run(java, sticky)
    assert code == 1
    assert out.split()[:2] == ["Errors", "no-common-strategy"]


def test_warnings_fail_if_one_is_strict_and_do_not_if_they_are_ignored(tmp_path: Path) -> None:
    late = write(tmp_path, "a.properties", JAVA + "heartbeat.interval.ms=20000\n")
    assert run(late)[0] == 0
    assert run(late, "--strict")[0] == 1
    assert run(late, "--strict", "--ignore", "heartbeat-interval")[0] == 0
    assert "there is no rule 'heartbeats'" in refusal("lint", late, "--ignore", "heartbeats")


def test_json_holds_the_same(tmp_path: Path) -> None:
    late = write(tmp_path, "a.properties", JAVA + "heartbeat.interval.ms=20000\n")
    code, out, _ = run(late, "--json", "-", "--strict")
    report: dict[str, Any] = json.loads(out)
    assert (code, report["format"], report["verdict"], report["not_judged"]) == (1, 1, "fail", [])
    (found,) = (finding for finding in report["findings"] if finding["rule"] == "heartbeat-interval")
    assert (found["severity"], found["members"]) == ("warning", [str(late)])
    assert "45 s" in found["what"]
    assert "heartbeat.interval.ms" in found["to_do"]
    assert found["why"] == RULES["heartbeat-interval"].why


# ---- changes


def test_a_change_is_judged_against_today(tmp_path: Path) -> None:
    old = write(tmp_path, "old.toml", AIOKAFKA)
    new = write(tmp_path, "new.toml", AIOKAFKA.replace("range", "cooperative-sticky"))
    both = write(tmp_path, "both.toml", AIOKAFKA.replace('["range"]', '["cooperative-sticky", "range"]'))
    assert "no-common-strategy" not in rules(new)
    assert "no-common-strategy" in rules(new, "--before", old)
    assert "no-common-strategy" not in rules(both, "--before", old) | rules(new, "--before", both)
    assert "no-common-strategy" in rules(old, "--change-to", "cooperative-sticky")
    assert "no-common-strategy" not in rules(old, "--change-to", "cooperative-sticky,range")


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ([], "give files, or --bootstrap-server and --group"),
        (["--group", "g"], "give --bootstrap-server HOST:PORT"),
        (["--bootstrap-server", "b:9092"], "give files, or --bootstrap-server and --group"),
        (["FILE", "--bootstrap-server", "b:9092"], "--bootstrap-server: no effect without --group"),
        (["FILE", "--group", "g"], "give --bootstrap-server HOST:PORT, or bootstrap.servers in the file of"),
        (["FILE", "--before", "FILE", "--change-to", "range"], "--before needs files to compare with"),
        (["FILE", "--change-to", "stiky"], "did you mean 'sticky'?"),
        (["FILE", "--change-to", ","], "--change-to: expected names of strategies"),
        (["OURS", "--change-to", "kip848-uniform"], "--change-to: kip848-uniform stands for an assignor of"),
        (["missing.toml"], "missing.toml: No such file or directory"),
    ],
)
def test_options_that_make_no_sense_are_refused(arguments: list[str], part: str, tmp_path: Path) -> None:
    files = {"FILE": write(tmp_path, "a.properties", JAVA), "OURS": write(tmp_path, "a.toml", AIOKAFKA)}
    assert part in refusal("lint", *(files.get(argument, argument) for argument in arguments))


# ---- files


def test_properties_toml_and_json_say_the_same(tmp_path: Path) -> None:
    # Each file has a session timeout that is too short and an instance id that does not last.
    properties = (
        "# a comment\nclient = librdkafka\nbootstrap.servers = b:9092\nsession.timeout.ms: 5000\n"
        "group.instance.id = a-7d9f8b6c5-\\\n    x2x4z\n"
    )
    toml = 'client = "librdkafka"\nsession.timeout.ms = 5000\ngroup.instance.id = "a-7d9f8b6c5-x2x4z"\n'
    settings = {"client": "librdkafka", "session_timeout_ms": 5000, "group.instance.id": "a-7d9f8b6c5-x2x4z"}
    texts = {"a.properties": properties, "a.toml": toml, "a.json": json.dumps(settings)}
    files = [write(tmp_path, name, text) for name, text in texts.items()]
    expected = {"passing-instance-id", "heartbeat-interval", "vote"}
    assert [rules(file) for file in files] == [expected] * 3


@pytest.mark.parametrize(
    ("text", "client"),
    [
        ("org.apache.kafka.clients.consumer.StickyAssignor", "java"),
        ("kafka_assignors_aiokafka.StickyAssignor", "aiokafka"),
        ("kafka.coordinator.assignors.sticky.sticky_assignor.StickyPartitionAssignor", "kafka-python"),
    ],
)
def test_a_class_tells_the_client(text: str, client: str, tmp_path: Path) -> None:
    file = write(tmp_path, "a.properties", f"partition.assignment.strategy={text}\ngroup.protocol=consumer\n")
    _, out, _ = run(file, "--json", "-")
    (found,) = (one for one in json.loads(out)["findings"] if one["rule"] == "refused-under-kip848")
    assert found["what"].startswith(f"{client} ")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.properties", "a=b\nclient\n", "a.properties:2: expected name=value"),
        ("a.properties", "a=b\nclient=ruby\n", "a.properties: client: expected one of"),
        ("a.properties", 'client = "java"\n', "librdkafka; found '\"java\"'; no quotes in properties"),
        ("a.properties", "a=b\n", "a.properties: which client is it?"),
        ("a.properties", "client=java\nsession.timout.ms=1\n", "a.properties: session.timout.ms: there is"),
        ("a.properties", "client=java\nsession.timeout.ms=45s\n", "a.properties: session.timeout.ms: exp"),
        ("a.properties", "client=java\nrebalance.timeout.ms=9\n", "a.properties: rebalance.timeout.ms: java"),
        ("a.toml", 'client = "java"\nclient.rack = "a"\n', "belongs in quotes"),
        ("a.toml", "client = java\n", "a.toml:1: not TOML"),
        (
            "a.toml",
            AIOKAFKA.replace("range", "stiky"),
            "a.toml: partition_assignment_strategy: there is no strategy 'stiky': did you mean 'sticky'?",
        ),
        ("a.json", '{"client": "java",\n "members": 0}', "a.json: members: expected a positive whole"),
        ("a.json", '{"client": "java",\n', "a.json:1: not JSON at column 19"),
    ],
)
def test_an_invalid_settings_file_is_refused_with_the_setting(
    name: str, text: str, message: str, tmp_path: Path
) -> None:
    assert message in refusal("lint", write(tmp_path, name, text))


# ---- the documentation


def test_the_sample_file_is_clean(tmp_path: Path) -> None:
    (sample,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert rules(write(tmp_path, "sample.toml", sample)) == {"eager-consumer", "vote"}


def test_every_rule_is_documented() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == page_with_rules(page), "run: python -m tools.lint_docs"
