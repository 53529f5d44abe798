"""`python -m benchmarks.pause`: see the package."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import platform
import sys
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.pause.figures import Recording
from benchmarks.pause.group import GroupError, Settings
from benchmarks.pause.peers import PEERS
from benchmarks.pause.picture import joins
from benchmarks.pause.report import Results
from benchmarks.pause.schedule import EVENTS, measure
from benchmarks.pause.summary import Samples, summarise
from benchmarks.pause.tables import markdown, tables
from compat_tests.support.jvm import kafka_version
from compat_tests.support.kafka_cluster import Kafka, KafkaCluster

SIZES = {60: (60, 25), 600: (600, 100)}
"""By partitions: milliseconds between two records of a partition, and the longest wait of a fetch.

Both sizes make a thousand records a second, and no member is overloaded.
"""

_MEMORY = Path("/dev/shm")

app = typer.Typer(add_completion=False)


def settings_of(partitions: int, window_s: float, rest_s: float, restore_s: float, at_once: int) -> Settings:
    # A member that restores does not poll meanwhile, and some clients send no heartbeats then.
    session_timeout_ms = 20_000 if restore_s else 4000
    interval_ms, fetch_wait_ms = SIZES.get(partitions, (max(60, partitions), 50))
    return Settings(
        partitions=partitions,
        interval_ms=interval_ms,
        fetch_wait_ms=fetch_wait_ms,
        session_timeout_ms=session_timeout_ms,
        window_s=window_s,
        rest_s=rest_s,
        restore_s=restore_s,
        at_once=at_once,
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


def about_the_run(sizes: Sequence[Settings]) -> dict[str, Any]:
    """The versions, machine and settings that belong to the results."""
    clients = {name: metadata.version(name) for name in ("aiokafka", "kafka-python", "confluent-kafka")}
    return {
        "clients": [{"Python": platform.python_version(), **clients}],
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


def words(text: str, known: Collection[str], what: str) -> list[str]:
    """The words between commas, each of which must be known."""
    found = [word.strip() for word in text.split(",") if word.strip()]
    for word in found:
        if word not in known:
            raise typer.BadParameter(f"no {what} {word!r}; there are {', '.join(known)}")
    return found


@app.command()
def main(
    partitions: Annotated[str, typer.Option(help="Sizes of the topic, with commas.")] = "60,600",
    rounds: Annotated[int, typer.Option(min=1)] = 3,
    peers: Annotated[str, typer.Option(help="With commas.")] = ",".join(PEERS),
    events: Annotated[str, typer.Option(help="With commas.")] = ",".join(EVENTS),
    window_s: Annotated[float, typer.Option(help="In which gaps are looked for, after each event.")] = 3.0,
    rest_s: Annotated[float, typer.Option(help="For how long the CPU is measured without records.")] = 3.0,
    restore_s: Annotated[float, typer.Option(help="A member restores a partition for so long.")] = 0.0,
    at_once: Annotated[int, typer.Option(min=1, help="So many partitions at a time.")] = 4,
    picture: Annotated[Path | None, typer.Option(help="Draw the joins of the first round (SVG).")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Keep the results here.")] = None,
) -> None:
    """Measure how long partitions pause when a group rebalances."""
    wanted = words(peers, PEERS, "peer")
    happening = words(events, EVENTS, "event")
    sizes = [settings_of(int(size), window_s, rest_s, restore_s, at_once) for size in partitions.split(",")]
    stay_off_the_disk()
    labels = {name: PEERS[name].label for name in wanted}
    kept: list[Samples] = []
    drawn: dict[str, Recording] = {}
    with KafkaCluster(settings=broker_settings(sizes[0]), heap="512m") as kafka:
        warm_up(kafka, wanted[0], sizes[0])
        for number in range(rounds):
            for settings in sizes:
                for name in wanted:
                    recording = one_group(kafka, name, settings, happening, number)
                    if recording is not None:
                        kept.append(Samples.of(recording))
                        drawn.setdefault(labels[name].replace("*", ""), recording)
                    if json_file is not None:
                        Results(about_the_run(sizes), labels, summarise(kept)).write(json_file)
    if picture is not None:
        picture.write_text(joins(drawn), encoding="utf-8")
    print(markdown(tables(summarise(kept), labels)), end="")


def warm_up(kafka: Kafka, name: str, settings: Settings) -> None:
    """Let one group rebalance without measurement, so that the broker's JIT has compiled the code."""
    with contextlib.suppress(GroupError):
        measure(kafka, name, PEERS[name], settings, ("join", "leave"), seed=0)


def one_group(
    kafka: Kafka, name: str, settings: Settings, events: Sequence[str], seed: int
) -> Recording | None:
    """Measure a group once, and print a line; a group that fails is printed and left out."""
    began, load = time.monotonic(), os.getloadavg()[0]
    what = f"{settings.partitions:4} {name}"
    try:
        recording = measure(kafka, name, PEERS[name], settings, events, seed=seed)
    except GroupError as error:
        print(f"{what}: failed: {error}", file=sys.stderr)
        return None
    samples = Samples.of(recording)
    print(
        f"{what}: {time.monotonic() - began:.0f} s, load {load:.1f}, lost {samples.lost}, "
        f"{'' if recording.occurrences and recording.occurrences[-1].settled else 'NOT SETTLED, '}"
        + ", ".join(f"{one.event} {max(one.gaps_ms, default=0):.0f}" for one in samples.events),
        file=sys.stderr,
    )
    return recording


if __name__ == "__main__":
    app()
