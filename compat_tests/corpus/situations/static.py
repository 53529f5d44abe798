"""Members with instance ids (KIP-345), which restart under other member ids."""

from __future__ import annotations

from collections.abc import Iterator

from compat_tests.corpus.life import Ask, Life, Situation

JAVA, GO, RDKAFKA, PYTHON = "Java's suite", "franz-go's suite", "librdkafka's suite", "kafka-python's suite"


def situations(ask: Ask) -> Iterator[Situation]:
    def pods(count: int, topics: str, *, dynamic: int = 0) -> Life:
        life = Life.of(ask, topics)
        reads = " ".join(life.topics)
        for n in range(count):
            life.join(f"member-{(n * 7) % count:02d}", reads, instance_id=f"pod-{n:02d}")
        for n in range(dynamic):
            life.join(f"dynamic-{n:02d}", reads)
        return life

    for count, dynamic in ((2, 0), (2, 1), (3, 0), (5, 3), (12, 0)):
        kind = f"{count}-static-{dynamic}-dynamic"
        who = f"{count} static and {dynamic} dynamic members"
        suites = (JAVA, PYTHON)
        yield pods(count, "a:3 b:3", dynamic=dynamic).now(
            f"fresh-{kind}", f"A fresh group of {who}.", *suites
        )
        life = pods(count, "a:13 b:8", dynamic=dynamic).settle()
        yield life.now(f"settled-{kind}", f"{who.capitalize()}, settled.", *suites)
        life.restart("member-01", "restarted-01")
        yield life.now(
            f"restart-one-{kind}", "One static member restarts, and remembers nothing.", *suites, "KIP-345"
        )
        for n in (n for n in range(count) if n != 1):
            life.restart(f"member-{n:02d}", f"restarted-{n:02d}")
        yield life.now(
            f"restart-all-{kind}", "All static members restart, and remember nothing.", *suites, "KIP-345"
        )
    life = pods(4, "a:10").settle()
    owned = life.members["member-03"]
    life.restart("member-03", "restarted-03")
    life.members["member-03"] = owned
    yield life.now(
        "old-and-new-incarnation",
        "A restarted static member, and its old incarnation's claims under the old id.",
        "KIP-345",
    )
    life = pods(4, "a:10").settle().leave("member-02").join("newcomer", "a", instance_id="pod-02")
    yield life.now(
        "replaced-by-another-pod", "Another process takes the instance id of one that has gone.", "KIP-345"
    )
    life = pods(3, "a:9 b:2").settle().topic("a", 12).restart("member-00", "restarted-00")
    yield life.now(
        "restart-and-added-partitions",
        "A static member restarts while a topic grows.",
        "KIP-345",
        "added partitions",
    )
