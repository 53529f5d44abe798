"""`python -m benchmarks.pause`: see the package."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks.pause.group import GroupError, Settings
from benchmarks.pause.peers import PEERS, Peer
from benchmarks.pause.plot import draw
from benchmarks.pause.result_files import Results
from benchmarks.pause.schedule import EVENTS, measure
from benchmarks.pause.summary import Samples, Timeline, summarise, timeline
from benchmarks.pause.tables import show, tables
from compat_tests.support.jvm import kafka_version
from compat_tests.support.kafka_cluster import Kafka, KafkaCluster

SIZES = {60: (60, 25), 600: (600, 100)}
"""By partitions: milliseconds between two records of a partition, and the longest wait of a fetch.

Both sizes make a thousand records a second, and no member is overloaded.
"""

_MEMORY = Path("/dev/shm")

_VERSIONS = """
import importlib.metadata as m, json, platform
found = {"Python": platform.python_version()}
for name in ("aiokafka", "kafka-python", "confluent-kafka"):
    try: found[name] = m.version(name)
    except m.PackageNotFoundError: pass
print(json.dumps(found))
"""

app = typer.Typer(add_completion=False)


def settings_of(partitions: int, window_s: float, rest_s: float) -> Settings:
    interval_ms, fetch_wait_ms = SIZES.get(partitions, (max(60, partitions), 50))
    return Settings(
        partitions=partitions,
        interval_ms=interval_ms,
        fetch_wait_ms=fetch_wait_ms,
        window_s=window_s,
        rest_s=rest_s,
    )


def broker_settings(settings: Settings) -> Mapping[str, object]:
    """Under KIP-848, session and heartbeat are settings of the broker, not of the client.

    The short delay lets the broker delete a group's topic before the next group is measured. By default the
    broker does so a minute later, and stalls for half a second.
    """
    return {
        "log.segment.delete.delay.ms": 500,
        "group.consumer.heartbeat.interval.ms": settings.heartbeat_interval_ms,
        "group.consumer.session.timeout.ms": settings.session_timeout_ms,
    }


def chosen(names: Sequence[str], pythons: Mapping[str, str]) -> dict[str, tuple[Peer, str]]:
    """Peers by name, with the Python of their members: `aiokafka-ours@old` uses the Python named `old`."""
    found = {}
    for name in names:
        kind, _, python = name.partition("@")
        if kind not in PEERS:
            raise typer.BadParameter(f"no peer {kind!r}; there are {', '.join(PEERS)}")
        if python and python not in pythons:
            raise typer.BadParameter(f"{name}: say which Python that is with --python {python}=PATH")
        found[name] = (PEERS[kind], pythons.get(python, sys.executable))
    return found


def labels_of(peers: Mapping[str, tuple[Peer, str]]) -> dict[str, str]:
    return {
        name: peer.label + (f" ({versions(python)[peer.package]})" if "@" in name else "")
        for name, (peer, python) in peers.items()
    }


def versions(python: str) -> dict[str, str]:
    """The versions of the clients that an interpreter has installed."""
    found: dict[str, str] = json.loads(subprocess.check_output([python, "-c", _VERSIONS], text=True))
    return found


def about_the_run(sizes: Sequence[Settings], peers: Mapping[str, tuple[Peer, str]]) -> dict[str, Any]:
    """The versions, machine and settings that belong to the results."""
    return {
        "clients": [versions(python) for python in sorted({python for _, python in peers.values()})],
        "kafka": kafka_version(),
        "processors": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "settings": [dataclasses.asdict(settings) for settings in sizes],
    }


def stay_off_the_disk() -> None:
    """Let the broker and the members write into memory, if the system has such a folder.

    A journaling file system (ext4 commits five seconds after the topic is created, and every five seconds
    after that) blocks all appends for up to about 0.3 s. That is no pause of a rebalance.
    """
    if os.access(_MEMORY, os.W_OK):
        tempfile.tempdir = str(_MEMORY)


def words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


@app.command()
def main(
    partitions: Annotated[str, typer.Option(help="Sizes of the topic, with commas.")] = "60,600",
    rounds: Annotated[int, typer.Option(min=1)] = 3,
    peers: Annotated[str, typer.Option(help="With commas; NAME@PYTHON for another interpreter.")] = ",".join(
        PEERS
    ),
    events: Annotated[str, typer.Option(help="With commas.")] = ",".join(EVENTS),
    python: Annotated[list[str] | None, typer.Option(help="NAME=PATH of another interpreter.")] = None,
    window_s: Annotated[float, typer.Option(help="In which gaps are looked for, after each event.")] = 3.0,
    rest_s: Annotated[float, typer.Option(help="For how long the CPU is measured without records.")] = 3.0,
    minutes: Annotated[float, typer.Option(help="No further round begins after that time.")] = 600.0,
    json_file: Annotated[Path | None, typer.Option("--json", help="Keep the results here.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the rolling restart into this SVG file.")] = None,
) -> None:
    """Measure how long partitions pause when a group rebalances."""
    for event in words(events):
        if event not in EVENTS:
            raise typer.BadParameter(f"no event {event!r}; there are {', '.join(EVENTS)}")
    interpreters = dict(one.split("=", 1) for one in python or ())
    wanted = chosen(words(peers), interpreters)
    sizes = [settings_of(int(size), window_s, rest_s) for size in words(partitions)]
    console = Console(stderr=True)
    stay_off_the_disk()
    labels = labels_of(wanted)
    about = about_the_run(sizes, wanted)
    kept: list[Samples] = []
    lines: dict[tuple[str, int], Timeline] = {}
    began = time.monotonic()
    with KafkaCluster(settings=broker_settings(sizes[0]), heap="512m") as kafka:
        warm_up(kafka, wanted, sizes[0])
        for number in range(rounds):
            if time.monotonic() - began > minutes * 60:
                console.print(f"no time left for round {number + 1}")
                break
            for settings in sizes:
                for name, (peer, interpreter) in wanted.items():
                    samples, line = one_group(
                        kafka, name, peer, settings, words(events), interpreter, number, console
                    )
                    if samples is not None:
                        kept.append(samples)
                    if line is not None:
                        lines.setdefault((name, settings.partitions), line)
                    if json_file is not None:
                        Results(about, labels, summarise(kept), list(lines.values())).write(json_file)
    show(tables(summarise(kept), labels), Console())
    if plot is not None:
        draw([line for (_, size), line in lines.items() if size == sizes[0].partitions], labels, plot)


def warm_up(kafka: Kafka, peers: Mapping[str, tuple[Peer, str]], settings: Settings) -> None:
    """Let one group rebalance without measurement, so that the broker's JIT has compiled the code."""
    name, (peer, interpreter) = next(iter(peers.items()))
    with contextlib.suppress(GroupError):
        measure(kafka, name, peer, settings, ("join", "leave"), python=interpreter, seed=0)


def one_group(
    kafka: Kafka,
    name: str,
    peer: Peer,
    settings: Settings,
    events: Sequence[str],
    python: str,
    seed: int,
    console: Console,
) -> tuple[Samples | None, Timeline | None]:
    """Measure a group once, and print a line; a group that fails is printed and left out."""
    began, load = time.monotonic(), os.getloadavg()[0]
    what = f"{settings.partitions:4} {name}"
    try:
        recording = measure(kafka, name, peer, settings, events, python=python, seed=seed)
    except GroupError as error:
        console.print(f"{what}: failed: {error}", markup=False)
        return None, None
    samples = Samples.of(recording)
    console.print(
        f"{what}: {time.monotonic() - began:.0f} s, load {load:.1f}, lost {samples.lost}, "
        f"{'' if recording.occurrences and recording.occurrences[-1].settled else 'NOT SETTLED, '}"
        + ", ".join(f"{one.event} {max(one.gaps_ms, default=0):.0f}" for one in samples.events),
        markup=False,
    )
    pause_ms = settings.interval_ms + 8 * settings.fetch_wait_ms
    return samples, timeline(recording, pause_ms=pause_ms)


if __name__ == "__main__":
    app()
