"""Record the history of the groups in `groups.py` on our own three brokers.

    python -m spark_validation.recording.record --minutes 12 --out spark_validation/recorded

Brokers and members are child processes that end with this one in any case. The output folder is replaced
only when the recording has succeeded.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

from compat_tests.support.jvm import JvmError, compile_java
from compat_tests.support.kafka_cluster import KafkaCluster, KafkaError
from compat_tests.support.processes import Processes
from spark_validation.recording.groups import GROUPS, GROWTHS, TOPICS, Group, replicas
from spark_validation.recording.history import CatalogueLog, read_group_records, write_history
from spark_validation.recording.note import readme
from spark_validation.recording.play import Stage, play

_PATIENCE = {
    "broker.session.timeout.ms": 30_000,
    "controller.quorum.fetch.timeout.ms": 15_000,
    "controller.quorum.election.timeout.ms": 5_000,
    "controller.quorum.request.timeout.ms": 15_000,
}
"""Long timeouts, since some sixty processes share a few cores: a slow broker must not count as failed."""

_DEFAULT_OUT = Path(__file__).resolve().parent.parent / "recorded"


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        record(options.out, options.groups, options.minutes, options.seed)
    except (JvmError, KafkaError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def record(out: Path, groups: Sequence[Group], minutes: float, seed: int) -> None:
    """Record `groups` for some minutes."""
    compile_java()  # before the time of the recording begins
    print("starting three brokers ...", file=sys.stderr)
    with KafkaCluster(brokers=3, settings=_PATIENCE) as kafka, Processes() as processes:
        catalogue = CatalogueLog(kafka)
        for topic, (partitions, copies) in TOPICS.items():
            kafka.create_topic(topic, replicas=[replicas(p, copies) for p in range(partitions)])
        catalogue.note(list(TOPICS))
        logs = Path(tempfile.mkdtemp(prefix="members-"))
        processes.own_folder(logs)
        stage = Stage(kafka, processes, logs)
        started = datetime.now(timezone.utc)
        asyncio.run(play(stage, groups, GROWTHS, catalogue, minutes * 60, seed))
        print("reading the records ...", file=sys.stderr)
        records = read_group_records(kafka.bootstrap)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix="recording-") as temporary:
        fresh = Path(temporary) / "recorded"
        write_history(fresh, records, catalogue)
        lines = ",\n".join(json.dumps(dataclasses.asdict(happening)) for happening in stage.happenings)
        (fresh / "events.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")
        note = readme(groups, records, started, minutes, seed)
        (fresh / "README.md").write_text(note, encoding="utf-8")
        if out.exists():
            shutil.rmtree(out)
        fresh.rename(out)
    print(f"{records.num_rows} records of groups in {out}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Record the history of consumer groups on brokers of our own."
    )
    parser.add_argument(
        "--out", type=Path, default=_DEFAULT_OUT, help="folder to write, replaced if it exists"
    )
    parser.add_argument("--minutes", type=float, default=12.0, help="how long the groups live (default: 12)")
    parser.add_argument("--seed", type=int, default=1, help="of what happens when (default: 1)")
    parser.add_argument("--groups", type=_groups, default=GROUPS, metavar="NAME,…", help="only these")
    return parser


def _groups(text: str) -> tuple[Group, ...]:
    known = {group.name: group for group in GROUPS}
    return tuple(known[name] for name in text.split(","))


if __name__ == "__main__":
    sys.exit(main())
