"""The installed release of a client, and the errors for a missing client or missing attributes."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from types import SimpleNamespace

import pytest

from kafka_assignors.installed_client import installed_release, require_attributes


def test_the_module_says_which_release_is_installed() -> None:
    assert installed_release("no-such-client", "pytest") == version("pytest")


def test_where_there_is_none_the_error_says_how_to_install_it() -> None:
    with pytest.raises(ImportError, match=r'pip install "kafka-assignors\[no-such-client\]"'):
        installed_release("no-such-client", "no_such_client")


def test_metrics_without_opentelemetry_say_how_to_install_it() -> None:
    program = "import sys; sys.modules['opentelemetry.metrics'] = None; import kafka_assignors_opentelemetry"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert 'pip install "kafka-assignors[otel]"' in ended.stderr.splitlines()[-1]


def test_a_release_that_lacks_an_attribute_is_refused_with_its_owner_and_name() -> None:
    client = SimpleNamespace(_cluster=SimpleNamespace(_partitions={}), _closing=None)
    require_attributes("OurConsumer", "pytest", (client, ["_closing", "_cluster._partitions"]))
    for missing in ("_lock", "_cluster._topics"):
        says = rf"pytest {version('pytest')}, whose SimpleNamespace has no {missing}:.*pip install"
        with pytest.raises(RuntimeError, match=says):
            require_attributes("OurConsumer", "pytest", (object(), []), (client, ["_closing", missing]))
