"""The Dockerfile and the manifests of examples/ fit the program that they run.

`kubernetes-validate` in the lint environment checks the manifests against the schemas of Kubernetes.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import yaml

from compat_tests.support.image import instructions
from examples.health import LIVE_S, STOP_S, Health

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
IMAGE = dict(instructions(EXAMPLES / "Dockerfile"))


def pod() -> dict[str, Any]:
    """The pod template of the Deployment."""
    documents = yaml.safe_load_all((EXAMPLES / "kubernetes/service.yaml").read_text("utf-8"))
    [deployment] = [each for each in documents if each["kind"] == "Deployment"]
    described: dict[str, Any] = deployment["spec"]["template"]["spec"]
    return described


POD = pod()
[CONTAINER] = POD["containers"]
PROBES = {name: CONTAINER[f"{name}Probe"]["httpGet"] for name in ("startup", "readiness", "liveness")}
STOP = CONTAINER["lifecycle"]["preStop"]["httpGet"]


def status(health: Health, path: str) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{health.port}{path}") as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_the_program_answers_each_request_of_the_manifest() -> None:
    asked: list[str] = []
    with Health(0, lambda: asked.append("stop")) as health:
        health.ready = True
        health.stopped.set()
        assert {status(health, get["path"]) for get in (*PROBES.values(), STOP)} == {200}
        assert asked == ["stop"]
        health.ready = False
        assert [status(health, get["path"]) for get in PROBES.values()] == [503, 503, 200]
        assert status(health, "/") == 404


def test_all_requests_go_to_the_port_on_which_the_program_answers() -> None:
    [port] = CONTAINER["ports"]
    variables = {each["name"]: each.get("value") for each in CONTAINER["env"]}
    assert {get["port"] for get in (*PROBES.values(), STOP)} == {port["name"]}
    assert str(port["containerPort"]) == variables["HEALTH_PORT"] == IMAGE["EXPOSE"]


def test_the_end_and_the_liveness_fit_into_the_times_of_the_manifest() -> None:
    assert POD["terminationGracePeriodSeconds"] > STOP_S
    # A batch that finishes in time does not fail the probe, since /live allows more time than a stop does.
    assert LIVE_S > STOP_S
    assert CONTAINER["livenessProbe"]["failureThreshold"] > 1


def test_the_program_gets_its_signal_and_no_rights_and_keeps_its_state_on_the_volume() -> None:
    assert json.loads(IMAGE["ENTRYPOINT"]) == ["/venv/bin/python", "-m", "examples.aiokafka.service"]
    assert int(IMAGE["USER"]) > 0
    assert IMAGE["ENV"] == f"STATE_DIR={CONTAINER['volumeMounts'][0]['mountPath']}"
