"""Members join, leave and change, while all members read the same topics."""

from __future__ import annotations

from collections.abc import Iterator

from compat_tests.corpus.life import Ask, Life, Situation, numbered
from compat_tests.peers.asking import Peer

JAVA, GO, RDKAFKA, PYTHON = "Java's suite", "franz-go's suite", "librdkafka's suite", "kafka-python's suite"

OWNERS = {
    "java": Peer("Java", "sticky"),
    "range": Peer("Java", "range"),
    "kafka-python": Peer("kafka-python", "sticky"),
    "aiokafka": Peer("aiokafka", "sticky"),
}
"""The assignors of the members' previous assignment."""


def situations(ask: Ask) -> Iterator[Situation]:
    yield from _small(ask)
    yield from _quotas(ask)
    yield from _events(ask)
    yield from _large(ask)


def _small(ask: Ask) -> Iterator[Situation]:
    all_suites = (JAVA, RDKAFKA, PYTHON)
    life = Life.of(ask, "a:3", {"consumer1": "a"}).settle()
    yield life.now("alone-and-settled", "The only member owns everything already.", *all_suites)
    life.join("consumer2", "a")
    yield life.now("second-joins", "A second member joins the only one.", *all_suites)
    life.settle().leave("consumer1")
    yield life.now("first-leaves", "The first of two members leaves.", *all_suites)

    life = Life.of(ask, "a:12 b:12", {"consumer1": "a b"}).settle().join("consumer2", "a b")
    yield life.now(
        "topics-spread-second-joins",
        "A second member joins one that owns all of two topics.",
        JAVA,
        "KAFKA-16277",
    )
    life.settle().join("consumer3", "a b")
    yield life.now(
        "topics-spread-third-joins", "A third member joins two that share two topics.", JAVA, "KAFKA-16277"
    )
    life.settle().leave("consumer1")
    yield life.now("topics-spread-first-leaves", "The first of three members leaves.", JAVA, "KAFKA-16277")

    life = Life.of(ask, "a:3 b:4", {"consumer1": "a b", "consumer2": "a b"}).settle()
    life.join("consumer3", "a b").join("consumer4", "a b")
    yield life.now("two-join-two", "Two members join two.", JAVA, GO)
    life.settle().leave("consumer1", "consumer2")
    yield life.now("two-leave-four", "The two oldest of four members leave.", JAVA)

    life = Life.of(ask, "a:3", {f"consumer{n}": "a" for n in range(1, 5)}).settle()
    life.leave("consumer1")
    yield life.now(
        "idle-member-gets-work", "One of four members leaves, who share three partitions.", *all_suites
    )

    life = Life.of(ask, "a:20", {f"consumer{n}": "a" for n in range(1, 10)}).settle().join("consumer10", "a")
    yield life.now("tenth-joins-nine", "A tenth member joins; twenty partitions.", *all_suites)
    topics = " ".join(f"t{n:02d}:{n}" for n in range(1, 15))
    names = " ".join(f"t{n:02d}" for n in range(1, 15))
    life = Life.of(ask, topics, {f"consumer{n}": names for n in range(1, 9)}).settle().leave("consumer5")
    yield life.now("one-of-eight-leaves", "One of eight members leaves; fourteen topics.", *all_suites)

    life = Life.of(ask, "a:12", {"consumer1": "a", "consumer2": "a", "consumer3": "a"})
    life.own("consumer1", "a:2,4,5,8,9,11").own("consumer2", "a:0,1,3,6,7,10")
    yield life.now("third-joins-12", "A third member joins two with six partitions each.", GO)
    life.topic("a", 13).own("consumer1", "a:2,4,5,6,8,9,11").own("consumer2", "a:0,1,3,7,10,12")
    yield life.now("third-joins-13", "A third member joins two with seven and six partitions.", GO)

    life = Life.of(ask, "a:7", {"consumer1": "a", "consumer2": "a", "consumer3": "a"}).settle()
    yield life.now("nothing-changed", "All members come back, and nothing has changed.", JAVA, GO)
    for extra in ("consumer1", "consumer2", "consumer3"):
        shares = iter(("a:0,1", "a:2,3", "a:4,5"))
        settled = Life.of(ask, "a:7", {"consumer1": "a", "consumer2": "a", "consumer3": "a"})
        for member_id in settled.members:
            settled.own(member_id, next(shares) + (",6" if member_id == extra else ""))
        yield settled.now(
            f"extra-partition-at-{extra}",
            "Seven partitions, three members: the member with three keeps them.",
            "KAFKA-18688",
        )


def _quotas(ask: Ask) -> Iterator[Situation]:
    """Members that own less or more than an equal share: the cases that KAFKA-12464 distinguishes."""
    three = {"consumer1": "a b", "consumer2": "a b", "consumer3": "a b"}
    two = {"consumer1": "a b", "consumer2": "a b"}
    life = Life.of(ask, "a:2 b:3", two).own("consumer1", "a:0 b:1").own("consumer2", "a:1 b:2")
    yield life.now(
        "one-of-two-gets-the-odd-one",
        "Both own the lower share, and one partition is free.",
        JAVA,
        "KAFKA-12464",
    )
    life = Life.of(ask, "a:2 b:2", three).own("consumer1", "a:0 b:0").own("consumer2", "a:1 b:1")
    yield life.now(
        "more-at-the-upper-share-than-may",
        "Two members own the upper share, only one of them can keep it.",
        JAVA,
        "KAFKA-12464",
        "KAFKA-15170",
    )
    life = Life.of(ask, "a:2 b:3", three).own("consumer1", "a:0").own("consumer2", "a:1")
    yield life.now(
        "all-under-the-lower-share",
        "Two members own a partition, and three are free.",
        JAVA,
        "KAFKA-12464",
    )
    life = Life.of(ask, "a:4", {"consumer1": "a", "consumer2": "a", "consumer3": "a"})
    life.own("consumer1", "a:0,1").own("consumer2", "a:2")
    yield life.now(
        "one-full-one-to-fill",
        "One member owns the upper share, one the lower, one nothing.",
        JAVA,
        RDKAFKA,
        "KAFKA-12464",
    )
    life = Life.of(ask, "a:9", {f"consumer{n}": "a" for n in range(1, 5)})
    life.own("consumer1", "a:0-4").own("consumer2", "a:5,6").own("consumer3", "a:7")
    yield life.now(
        "far-over-the-upper-share", "One member owns five of nine partitions, another nothing.", "KAFKA-12464"
    )
    life = Life.of(ask, "a:10", {f"consumer{n}": "a" for n in range(1, 5)})
    life.own("consumer1", "a:0-2").own("consumer2", "a:3-5").own("consumer3", "a:6-8")
    yield life.now(
        "three-over-one-empty", "Three members own the upper share; only two can keep it.", "KAFKA-12464"
    )
    life = Life.of(ask, "a:8 b:3", {f"consumer{n}": "a b" for n in range(1, 6)})
    life.own("consumer1", "a:0,1 b:0").own("consumer2", "a:2,3 b:1").own("consumer3", "a:4,5").own(
        "consumer4", "a:6"
    )
    yield life.now(
        "shares-of-all-kinds", "Over, at and under the share, one free, one member new.", "KAFKA-12464"
    )


def _events(ask: Ask) -> Iterator[Situation]:
    """The same events in groups of several sizes and histories."""
    for members, topics in ((4, "a:10"), (5, "a:7 b:9 c:2"), (12, "a:30 b:1 c:17"), (30, "a:64 b:64")):
        reads = " ".join(word.partition(":")[0] for word in topics.split())
        names = numbered("consumer", members)
        for by, peer in OWNERS.items():
            if by != "java" and members not in (5, 12):
                continue
            size = f"{members} members, assigned by {peer}"

            def life(
                peer: Peer = peer, names: list[str] = names, topics: str = topics, reads: str = reads
            ) -> Life:
                return Life.of(ask, topics, dict.fromkeys(names, reads)).settle(peer)

            sources = {
                "java": (JAVA,),
                "range": ("upgrade from range",),
                "kafka-python": (PYTHON,),
                "aiokafka": ("aiokafka's suite",),
            }[by]
            yield life().join("newcomer", reads).now(f"join-{members}-{by}", f"One joins: {size}.", *sources)
            yield life().leave(names[1]).now(f"leave-{members}-{by}", f"One leaves: {size}.", *sources)
            yield (
                life()
                .leave(*names[: members // 2])
                .now(f"half-leave-{members}-{by}", f"Half of them leave: {size}.", *sources)
            )
            doubled = life()
            for number in range(members):
                doubled.join(f"newcomer{number:02d}", reads)
            yield doubled.now(f"doubled-{members}-{by}", f"As many join: {size}.", *sources)
            yield (
                life()
                .restart(names[0], "restarted")
                .now(f"restart-{members}-{by}", f"One restarts under another id: {size}.", *sources)
            )


def _large(ask: Ask) -> Iterator[Situation]:
    for members, partitions in ((40, 400), (100, 500)):
        life = Life.of(
            ask,
            f"a:{partitions // 2} b:{partitions // 2}",
            dict.fromkeys(numbered("consumer", members), "a b"),
        ).settle()
        life.join("newcomer", "a b")
        yield life.now(
            f"join-{members}x{partitions}",
            f"One joins {members} members that share {partitions} partitions.",
            "KAFKA-9987",
            JAVA,
        )
        life.settle().leave("newcomer", *numbered("consumer", members)[: members // 4])
        yield life.now(
            f"quarter-leaves-{members}x{partitions}",
            f"A quarter of {members} members leaves; {partitions} partitions.",
            "KAFKA-9987",
            JAVA,
        )
