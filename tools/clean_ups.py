"""Runs a command whose test brokers look for groups to remove twice a second, and not every ten minutes.

    python -m tools.clean_ups .tools/bin/tox run -e py313-live

A broker removes a group without members and offsets at its next clean-up
(`offsets.retention.check.interval.ms`). A test that fails under this tool relies on such a group to stay. A
cluster in KAFKA_BOOTSTRAP_SERVERS keeps its own interval, so the command does not see that variable.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from compat_tests.support.kafka_cluster import BROKER_SETTINGS


def main() -> int:
    """Run the command, and return its exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--every-ms", type=int, default=500, help="milliseconds between clean-ups (500)")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if not options.command:
        parser.error("give the command to run")
    environment = {
        **os.environ,
        BROKER_SETTINGS: f"offsets.retention.check.interval.ms={options.every_ms}",
    }
    environment.pop("KAFKA_BOOTSTRAP_SERVERS", None)
    return subprocess.run(options.command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
