"""Releases of aiokafka that are older or newer than the checked ones, without a broker."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from kafka_assignors.installed_client import require_release
from kafka_assignors_aiokafka import CHECKED

LOG = logging.getLogger("test_versions")
IMPORT = """
import aiokafka, sys
aiokafka.__version__ = sys.argv[1]
import kafka_assignors_aiokafka._client
"""


def import_with(version: str) -> tuple[int, list[str]]:
    """Exit code and standard error of a process that imports the plugin with `version` installed."""
    run = subprocess.run([sys.executable, "-c", IMPORT, version], capture_output=True, text=True, check=False)
    return run.returncode, run.stderr.splitlines()


@pytest.mark.parametrize("version", ["0.10.0", "0.12.3", "0.14.0", "0.14.1.dev3+g1a2b3c"])
def test_the_releases_between_the_oldest_and_the_newest_checked_are_taken_in_silence(
    version: str, caplog: pytest.LogCaptureFixture
) -> None:
    require_release("aiokafka", version, *CHECKED, LOG)
    assert caplog.messages == []


@pytest.mark.parametrize("version", ["0.15.0rc1", "0.100", "1.0.0", "unknown"])
def test_an_untested_version_is_accepted_with_one_warning(
    version: str, caplog: pytest.LogCaptureFixture
) -> None:
    require_release("aiokafka", version, *CHECKED, LOG)
    assert caplog.messages == [
        f"aiokafka {version} is not among the releases checked with this plugin (0.10 to 0.14)"
    ]


@pytest.mark.parametrize("version", ["0.9.0", "0.8.1", "0.9.0rc1"])
def test_older_ones_are_refused(version: str) -> None:
    with pytest.raises(ImportError, match=rf"needs aiokafka 0\.10 or newer, and {version} is installed"):
        require_release("aiokafka", version, *CHECKED, LOG)


def test_the_import_of_the_plugin_fails_with_one_clear_line_where_aiokafka_is_too_old() -> None:
    code, lines = import_with("0.8.1")
    assert code == 1
    assert lines[-1] == (
        "ImportError: kafka_assignors_aiokafka needs aiokafka 0.10 or newer, and 0.8.1 is installed"
    )


def test_the_import_warns_once_where_aiokafka_is_newer_than_what_was_checked() -> None:
    code, lines = import_with(f"{CHECKED[1][0]}.{CHECKED[1][1] + 1}.0")
    assert code == 0
    assert len(lines) == 1
    assert "is not among the releases checked" in lines[0]
