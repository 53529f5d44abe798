"""Members that claim partitions which others claim too, or which no member can own."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import permutations

from compat_tests.corpus.life import Ask, Life, Situation, numbered

JAVA, GO, RDKAFKA, PYTHON = "Java's suite", "franz-go's suite", "librdkafka's suite", "kafka-python's suite"
SUITES = (JAVA, RDKAFKA)


def situations(ask: Ask) -> Iterator[Situation]:
    yield from _double(ask)
    yield from _three_generations(ask)
    yield from _slept(ask)
    yield from _impossible(ask)
    yield from _random(ask)


def _double(ask: Ask) -> Iterator[Situation]:
    def two(topics: str = "a:3 b:3") -> Life:
        return Life.of(ask, topics, {"consumer1": "a b", "consumer2": "a b"})

    def three(topics: str = "a:3") -> Life:
        reads = " ".join(word.partition(":")[0] for word in topics.split())
        return Life.of(ask, topics, {f"consumer{n}": reads for n in (1, 2, 3)})

    life = two().own("consumer1", "a:0,2 b:1").own("consumer2", "a:0,2 b:1", age=1)
    yield life.now(
        "stale-twin",
        "A member claims what another owns now, from the generation before.",
        *SUITES,
        "KAFKA-12984",
        "KAFKA-14639",
    )
    life = two().own("consumer1", "a:0,2 b:1").own("consumer2", "a:0,2 b:1", age=-1)
    yield life.now(
        "twin-without-generation",
        "A member claims what another owns, and knows no generation.",
        *SUITES,
        "KAFKA-12984",
    )
    life = two().own("consumer1", "a:0,1 b:1").own("consumer2", "a:0 b:1,2", age=2)
    yield life.now(
        "stale-overlap", "Two claims overlap, one of them two generations old.", JAVA, GO, "KAFKA-14639"
    )
    life = three().own("consumer1", "a:0,1").own("consumer2", "a:0,2")
    yield life.now(
        "same-generation-one-partition",
        "Two members claim the same partition in the same generation; a third is new.",
        JAVA,
        "KAFKA-12984",
        "KAFKA-13406",
    )
    life = two("a:4").own("consumer1", "a:0,1,2").own("consumer2", "a:1,2,3")
    yield life.now(
        "same-generation-two-partitions",
        "Two members claim two partitions in common in the same generation.",
        JAVA,
        "KAFKA-13406",
    )
    life = (
        three("a:9").own("consumer1", "a:0,1,2").own("consumer2", "a:0,3,4,5").own("consumer3", "a:0,6,7,8")
    )
    yield life.now("same-generation-all-three", "All three members claim one partition.", JAVA, "KAFKA-12984")
    life = (
        three("a:3 b:3").own("consumer1", "a:0,1 b:0").own("consumer2", "a:0,2 b:1").own("consumer3", "b:2")
    )
    yield life.now(
        "same-generation-equal-shares",
        "Two of three claim one partition; six partitions.",
        JAVA,
        "KAFKA-12984",
    )
    life = (
        three("a:3 b:4").own("consumer1", "a:0,1 b:0").own("consumer2", "a:0,2 b:1").own("consumer3", "b:2,3")
    )
    yield life.now(
        "same-generation-unequal-shares",
        "Two of three claim one partition; seven partitions.",
        JAVA,
        "KAFKA-12984",
    )
    life = three("a:3 b:3 c:3")
    life.own("consumer1", "a:0 b:0 c:0").own("consumer2", "a:1 b:1 c:1", age=1).own(
        "consumer3", "b:1 c:0,2", age=2
    )
    yield life.now(
        "newest-generation-wins",
        "Three members of three generations; the newer claim counts on each partition.",
        *SUITES,
        GO,
        "KAFKA-14639",
    )
    names = numbered("consumer", 4)
    life = Life.of(ask, "a:3 b:3 c:3 d:3", dict.fromkeys(names, "a b c d"))
    life.own("consumer1", "a:0 b:0 d:0", age=1).own("consumer2", "b:2 c:2 d:1", age=2).own(
        "consumer3", "a:1,2 c:1", age=3
    )
    yield life.now(
        "lone-old-claims",
        "Three members of different old generations whose claims do not collide.",
        *SUITES,
        GO,
        "KAFKA-14639",
    )
    life = three("a:6").own("consumer1", "a:0-2", age=1).own("consumer2", "a:3-5", age=1)
    yield life.now(
        "all-one-generation-late", "Every member is one generation late, and one is new.", "KAFKA-14639"
    )
    life = three("a:6").own("consumer1", "a:0,1").own("consumer2", "a:2,3").own("consumer3", "a:4,5", age=1)
    yield life.now(
        "one-missed-a-generation",
        "One of three members missed a generation; no member took its partitions.",
        "KAFKA-14639",
    )
    life = (
        three("a:6").own("consumer1", "a:0,1,4").own("consumer2", "a:2,3,5").own("consumer3", "a:4,5", age=1)
    )
    yield life.now(
        "one-missed-a-generation-and-lost",
        "One of three missed a generation in which the others got its partitions.",
        "KAFKA-14639",
    )
    life = Life.of(ask, "a:12", {f"consumer{n}": "a" for n in range(4)})
    for n in range(4):
        life.own(f"consumer{n}", "a:0-11")
    yield life.now("all-claim-everything", "Four members claim all twelve partitions.", "aiokafka 1175")
    for processes, consumers in ((2, 2), (3, 4), (6, 2)):
        life = Life.of(
            ask,
            "a:24",
            dict.fromkeys((f"process{p}-{n}" for p in range(processes) for n in range(consumers)), "a"),
        ).settle()
        # This assignor keeps its state on the class: all consumers of a process send the last one's.
        for p in range(processes):
            last = life.members[f"process{p}-{consumers - 1}"].owned["a"]
            for n in range(consumers):
                life.own(f"process{p}-{n}", "a:" + ",".join(map(str, last)), age=-1)
        yield life.now(
            f"one-memory-{processes}x{consumers}",
            f"{processes} processes of {consumers} consumers, each of which sends what the last one owns.",
            "aiokafka 1175",
            "aiokafka 1176",
        )
        life.leave(*[f"process0-{n}" for n in range(consumers)])
        yield life.now(
            f"one-memory-{processes}x{consumers}-process-gone",
            "The same when a process has gone.",
            "aiokafka 1175",
            "aiokafka 1176",
        )


def _three_generations(ask: Ask) -> Iterator[Situation]:
    for ages in permutations((0, 1, 2)):
        life = Life.of(
            ask, "a:6 b:1", {"consumer1": "a", "consumer2": "a", "consumer3": "a", "consumer4": "b"}
        )
        life.own("consumer1", "a:0,2", age=ages[0]).own("consumer2", "a:1-3", age=ages[1])
        life.own("consumer3", "a:2,4,5", age=ages[2]).own("consumer4", "b:0", age=1)
        order = "".join(map(str, ages))
        yield life.now(
            f"three-generations-{order}",
            "Three members of three generations claim one partition; subscriptions differ.",
            JAVA,
            "KAFKA-15106",
        )
    for ages in permutations((0, 1, 2)):
        life = Life.of(ask, "a:6 b:4", {"consumer1": "a b", "consumer2": "a", "consumer3": "a"})
        life.own("consumer1", "a:0,2", age=ages[0]).own("consumer2", "a:1-3", age=ages[1]).own(
            "consumer3", "a:2,4,5", age=ages[2]
        )
        order = "".join(map(str, ages))
        yield life.now(
            f"three-generations-one-reads-more-{order}",
            "The same, one member reads a second topic that had no owner.",
            "KAFKA-15106",
            "KAFKA-13406",
        )


def _slept(ask: Ask) -> Iterator[Situation]:
    """Members that miss generations; every suite has such cases as "multiple generations"."""
    suites = (JAVA, GO, PYTHON)
    for mixed in (False, True):
        kind = "mixed" if mixed else "uniform"
        extra = (
            {"consumer1": "a b", "consumer2": "a b", "consumer3": "a"}
            if mixed
            else dict.fromkeys(("consumer1", "consumer2", "consumer3"), "a b")
        )
        life = Life.of(ask, "a:6 b:2", extra).settle()
        sleeper = life.members["consumer3"]
        life.leave("consumer3").settle()
        life.members["consumer3"] = sleeper
        yield life.now(
            f"sleeper-returns-{kind}",
            "One of three members missed a generation, and brings its old claims.",
            *suites,
        )
        life.leave("consumer1")
        yield life.now(
            f"sleeper-returns-other-leaves-{kind}", "A sleeper returns while another member leaves.", *suites
        )
        life = Life.of(ask, "a:6 b:2", extra).settle()
        sleepers = [life.members["consumer2"], life.members["consumer3"]]
        life.leave("consumer2", "consumer3").settle()
        life.members.update({sleeper.id: sleeper for sleeper in sleepers})
        yield life.now(
            f"two-sleepers-return-{kind}", "Two of three members missed the same generation.", *suites
        )
        first = life.members["consumer2"]
        life.leave("consumer2").settle()
        life.members["consumer2"] = first
        life.leave("consumer1")
        yield life.now(
            f"sleeper-of-two-generations-{kind}",
            "One missed two generations, one is back already, one leaves.",
            *suites,
        )
    life = Life.of(ask, "a:6", dict.fromkeys(("consumer1", "consumer2", "consumer3"), "a"))
    life.own("consumer1", "a:0,1,4", age=1).own("consumer2", "a:0,2,3", age=0).own(
        "consumer3", "a:3-5", age=0
    )
    yield life.now(
        "conflicting-generations",
        "Claims of two generations that contradict each other, and of one that does.",
        *suites,
    )
    life = (
        Life.of(ask, "a:2", {"consumer1": "a", "consumer2": "a"})
        .own("consumer1", "a:0,1")
        .own("consumer2", "a:0,1")
    )
    yield life.now("conflicting-assignments", "Both members claim both partitions.", *suites, RDKAFKA)


def _impossible(ask: Ask) -> Iterator[Situation]:
    life = Life.of(ask, "a:2", {"consumer1": "a"}).own("consumer1", "a:10")
    yield life.now(
        "claims-only-what-is-beyond-the-end",
        "The only member claims a partition that its topic no longer has.",
        "deleted and made again",
        "random search",
    )
    life = Life.of(ask, "a:6", dict.fromkeys(("consumer1", "consumer2"), "a"))
    life.own("consumer1", "a:0,1,2,2").own("consumer2", "a:3-5")
    yield life.now(
        "names-a-partition-twice", "A member names a partition twice; all is balanced.", "random search"
    )
    life = Life.of(ask, "a:4", {f"consumer{n}": "a" for n in (1, 2, 3)})
    life.own("consumer1", "a:0,2,2").own("consumer3", "a:-1", age=2)
    yield life.now(
        "names-one-twice-and-a-negative-one",
        "A member names a partition twice, another claims partition -1, a third is new.",
        "random search",
    )
    life = Life.of(ask, "a:2", {"consumer1": "a"}).own("consumer1", "a:0,1 other:0,1")
    yield life.now(
        "claims-an-unknown-topic", "The only member claims partitions of a topic that does not exist.", JAVA
    )
    life = (
        Life.of(ask, "a:4", {"consumer1": "a", "consumer2": "a"})
        .own("consumer1", "a:0,1,7,100")
        .own("consumer2", "a:2,3")
    )
    yield life.now(
        "claims-beyond-the-end", "A member claims partitions that do not exist.", "deleted and made again"
    )
    life = (
        Life.of(ask, "a:4", {"consumer1": "a", "consumer2": "a"})
        .own("consumer1", "a:0,1,-1")
        .own("consumer2", "a:2,3")
    )
    yield life.now("claims-a-negative-partition", "A member claims partition -1.", GO)
    life = (
        Life.of(ask, "a:4 b:2", {"consumer1": "a", "consumer2": "a b"})
        .own("consumer1", "a:0,1 b:0,1")
        .own("consumer2", "a:2,3")
    )
    yield life.now("claims-what-it-does-not-read", "A member claims a topic that it no longer reads.", GO)
    life = (
        Life.of(ask, "a:6", {f"consumer{n}": "a" for n in (1, 2, 3)})
        .own("consumer1", "a:0,1")
        .own("consumer2", "a:2,3")
    )
    life.own("consumer3", "a:0-5", age=life.generation - (2**31 - 1))
    yield life.now(
        "claims-the-last-generation",
        "A member claims everything, in generation 2147483647.",
        "hostile member",
    )
    life = (
        Life.of(ask, "a:6", {f"consumer{n}": "a" for n in (1, 2, 3)})
        .own("consumer1", "a:0,1")
        .own("consumer2", "a:2,3")
    )
    life.own("consumer3", "a:0-5", age=-1)
    yield life.now(
        "claims-everything-without-generation",
        "A member claims everything and knows no generation.",
        "hostile member",
        "KAFKA-12984",
    )


def _random(ask: Ask) -> Iterator[Situation]:
    """Random zombies: members that claim partitions of the last three generations."""
    for seed in range(10):
        rng = random.Random(f"claims/{seed}")
        names = numbered("consumer", rng.randint(5, 15))
        topics = "a:12 b:7 c:20"
        mixed = seed % 2 == 1

        def reads(rng: random.Random = rng, mixed: bool = mixed) -> str:
            return " ".join(rng.sample(["a", "b", "c"], rng.randint(1, 3))) if mixed else "a b c"

        life = Life.of(ask, topics, {name: reads() for name in names})
        asleep = []
        for _ in range(3):
            life.settle()
            gone = rng.sample(sorted(life.members), rng.randint(1, 2))
            asleep += [life.members[name] for name in gone]
            life.leave(*gone)
        life.members.update({member.id: member for member in asleep})
        kind = "mixed" if mixed else "uniform"
        yield life.now(
            f"zombies-{kind}-{seed}",
            "Members that fell asleep in each of three generations all come back.",
            JAVA,
            PYTHON,
            "KAFKA-14639",
            *(("KAFKA-15106",) if mixed else ()),
        )
