"""Members and replicas in racks (KIP-881), fresh and after changes on either side."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

from compat_tests.corpus.life import Ask, Life, Situation, numbered, replicated
from compat_tests.peers.asking import Peer
from kafka_assignors.group import Topic

JAVA, GO, RDKAFKA = "Java's suite", "franz-go's suite", "librdkafka's suite"


def situations(ask: Ask) -> Iterator[Situation]:
    yield from _small(ask)
    yield from _changed(ask)
    yield from _odd(ask)
    yield from _back_and_forth(ask)
    yield from _sequences(ask)


def _topics(sizes: dict[str, int], racks: str, replicas: int) -> dict[str, Topic]:
    """Topics whose first replicas start in one rack after the other."""
    return {
        name: Topic(name, size, replicated(size, racks, replicas, first))
        for first, (name, size) in enumerate(sizes.items())
    }


def _group(ask: Ask, topics: dict[str, Topic], reads: Sequence[str], where: Sequence[str | None]) -> Life:
    life = Life.of(ask, topics)
    for number, (names, rack) in enumerate(zip(reads, where, strict=True)):
        life.join(f"consumer{number}", names, rack=rack)
    return life


SHAPES = {
    "uniform": ({"t1": 6, "t2": 7, "t3": 2}, ["t1 t2 t3"] * 3),
    "mixed": ({"t1": 6, "t2": 7, "t3": 2}, ["t1 t2 t3", "t1 t3", "t1 t2"]),
    "equal-sizes": ({"t1": 5, "t2": 5, "t3": 5}, ["t1 t2 t3"] * 3),
    "equal-sizes-mixed": ({"t1": 5, "t2": 5, "t3": 5}, ["t1 t2 t3", "t1 t3", "t1 t2"]),
}
WHERE: dict[str, tuple[str | None, ...]] = {
    "everywhere": ("a", "b", "c"),
    "one-rack": ("a", "a", "a"),
    "other-racks": ("d", "e", "f"),
    "partly-other-racks": (None, "e", "f"),
    "no-consumer-racks": (None, None, None),
}


def _small(ask: Ask) -> Iterator[Situation]:
    """Three members, three topics: the cases of Java's and librdkafka's suites."""
    for shape, (sizes, reads) in SHAPES.items():
        for replicas in (1, 2, 3):
            for where, racks in WHERE.items():
                if replicas == 3 and where not in ("everywhere", "other-racks"):
                    continue
                if where not in ("everywhere", "one-rack") and shape.startswith("equal"):
                    continue
                yield _group(ask, _topics(sizes, "abc", replicas), reads, racks).now(
                    f"{shape}-{where}-{replicas}",
                    f"Three members ({where.replace('-', ' ')}), {replicas} replicas over three racks.",
                    JAVA,
                    RDKAFKA,
                )
    yield _group(ask, _topics({"t1": 6, "t2": 7, "t3": 2}, "abcd", 1), ["t1 t2 t3"] * 3, "abc").now(
        "a-rack-without-members", "Three members in three of four racks.", JAVA, RDKAFKA
    )
    life = Life.of(ask, "t1:6 t2:7").join("m1", "t1 t2", rack="a").join("m2", "t1 t2", rack="b")
    yield life.now("no-broker-racks", "Members have racks, brokers do not.", JAVA, GO)


def _changed(ask: Ask) -> Iterator[Situation]:
    """Movement and racks conflict."""
    for replicas in (1, 2):
        for members in (4, 8, 20):
            topics = _topics({"orders": 8 * members}, "abcd", replicas)
            where = [("abcd")[n % 4] for n in range(members)]
            life = _group(ask, topics, ["orders"] * members, where).settle()
            yield life.now(
                f"settled-{replicas}-of-4-racks-{members}",
                f"{members} members as Java assigned them; {replicas} replicas over four racks.",
                JAVA,
            )
            life.join("newcomer", "orders", rack="a")
            yield life.now(
                f"join-{replicas}-of-4-racks-{members}",
                f"One joins {members} members; {replicas} replicas over four racks.",
                JAVA,
                "KAFKA-15170",
            )
            life.leave("consumer1", "newcomer")
            yield life.now(
                f"leave-{replicas}-of-4-racks-{members}",
                f"One of {members} members leaves; {replicas} replicas over four racks.",
                JAVA,
            )
    for members in (3, 6, 12):
        topics = _topics({"a": 4 * members, "b": 2 * members}, "abc", 1)
        life = _group(ask, topics, ["a b"] * members, [None] * members).settle(Peer("Java", "range"))
        life.members = {m.id: replace(m, rack="abc"[n % 3]) for n, m in enumerate(life.members.values())}
        yield life.now(
            f"racks-come-later-{members}",
            f"{members} members without racks are restarted with racks; range assigned them.",
            "upgrade to racks",
        )
        life.topics = {
            name: replace(t, replica_racks=replicated(t.partitions, "abc", 1, 1))
            for name, t in life.topics.items()
        }
        yield life.now(
            f"replicas-moved-{members}",
            f"All replicas of {members} members' topics move to the next rack.",
            "moved replicas",
        )
    life = _group(ask, _topics({"a": 12}, "abc", 1), ["a"] * 3, "abc").settle()
    life.members["consumer0"] = replace(life.members["consumer0"], rack="b")
    yield life.now(
        "a-member-changes-racks",
        "A member comes back in another rack, and has its old partitions.",
        "moved members",
    )
    life = _group(ask, _topics({"a": 12}, "abc", 2), ["a"] * 3, "abc").settle()
    life.topic("a", 18, replicated(18, "abc", 2))
    yield life.now(
        "grown-in-racks", "A topic with two replicas over three racks grows.", GO, "added partitions"
    )
    # Stale claims in racks: a partition must be withheld although no phase of the assignor kept it.
    life = _group(ask, _topics({"a": 6, "b": 3}, "abc", 1), ["a b"] * 3, "abc")
    life.own("consumer0", "a:0,3").own("consumer1", "a:1,4 b:0").own("consumer2", "a:2,5 b:0,1")
    yield life.now(
        "double-claim-in-racks",
        "Two members in racks claim one partition in the same generation.",
        "KAFKA-15170",
        "KAFKA-13406",
    )
    life = _group(ask, _topics({"a": 8}, "abcd", 1), ["a"] * 4, "abcd")
    life.own("consumer0", "a:1,2").own("consumer1", "a:0,3").own("consumer2", "a:4,5")
    yield life.now(
        "all-in-the-wrong-rack",
        "Every member owns partitions in other racks, and one member is new.",
        "KAFKA-15170",
    )


def _odd(ask: Ask) -> Iterator[Situation]:
    """Few racks, unequal subscriptions, partly known replicas."""
    known = replicated(12, "abc", 2)
    half = tuple(racks if partition % 2 else frozenset() for partition, racks in enumerate(known))
    yield _group(ask, {"a": Topic("a", 12, half)}, ["a"] * 4, ["a", "b", "c", None]).now(
        "half-the-replicas-unknown", "The racks of half of the partitions are unknown.", GO
    )
    yield _group(ask, {"a": Topic("a", 12, known), "b": Topic("b", 12)}, ["a b"] * 4, "abca").now(
        "one-topic-unknown", "The racks of one of two topics are unknown.", GO
    )
    yield _group(ask, _topics({"a": 12}, "ab", 1), ["a"] * 6, ["a"] * 5 + ["b"]).now(
        "balance-before-racks",
        "Five members in one rack, one in the other, which has half of the partitions.",
        GO,
    )
    homes = {f"home-{rack}": Topic(f"home-{rack}", 9, replicated(9, rack, 1)) for rack in "abc"}
    yield _group(ask, homes, [" ".join(homes)] * 6, "aabbcc").now(
        "home-topics", "Each rack has a topic of its own, which all members read.", GO
    )
    yield _group(ask, homes, ["home-a home-b", "home-b home-c", "home-c home-a"], "abc").now(
        "home-topics-overlapping", "Each member reads the topic of its rack and of another.", GO
    )
    names = numbered("t", 8)
    pyramid = _topics(dict.fromkeys(names, 4), "abc", 1)
    yield _group(
        ask, pyramid, [" ".join(names[: n + 1]) for n in range(8)], ["abc"[n % 3] for n in range(8)]
    ).now("pyramid-in-racks", "Eight members, each of which reads one topic more, in three racks.", GO)
    sparse = {name: Topic(name, 4, replicated(4, "abcdefgh", 1, first)) for first, name in enumerate(names)}
    yield _group(ask, sparse, [" ".join(names)] * 5, "aabcz").now(
        "many-racks-few-members",
        "Eight racks with brokers, five members in four racks, one of them without brokers.",
        GO,
    )
    yield _group(ask, sparse, [" ".join(names[n:]) for n in range(5)], "habca").now(
        "many-racks-few-members-mixed", "The same, each member reads one topic less.", GO
    )
    yield _group(ask, _topics({"a": 30}, "abc", 2), ["a"] * 7, ["a", "a", "a", "a", "b", "b", None]).now(
        "crowded-rack", "Four of seven members in one of three racks; no member in the third.", GO
    )
    yield _group(
        ask, _topics({"a": 3, "b": 1}, "abc", 1), ["a b"] * 10, ["abc"[n % 3] for n in range(10)]
    ).now("idle-majority-in-racks", "Ten members in three racks share four partitions.", GO)
    yield _group(
        ask, _topics({"a": 6, "b": 6, "c": 4}, "abc", 2), ["a b", "a b", "b c", "a b c"], "abca"
    ).now(
        "co-partitioned-in-racks",
        "Two topics of the same size and racks, read by some together.",
        JAVA,
        RDKAFKA,
    )
    statics = Life.of(ask, _topics({"a": 9}, "abc", 1))
    for n in range(3):
        statics.join(f"member{2 - n}", "a", rack="abc"[n], instance_id=f"pod-{n}")
    yield statics.now("static-members-in-racks", "Three static members, one in each rack.", JAVA)
    statics.settle().restart("member0", "restarted0").restart("member1", "restarted1")
    yield statics.now("static-members-in-racks-restart", "Two of three static members restart.", JAVA)


def _back_and_forth(ask: Ask) -> Iterator[Situation]:
    """Fresh groups in which Java's cooperative assignor moves partitions forever."""
    where = "Four members in or out of racks, two topics, half-known replicas: found by looking for no rest."
    for name, x, y, racks in (
        ("no-rest-12", "ac c ac ac ac ac - bc", "ac - a ac", (None, "c", "a", "b")),
        ("no-rest-15", "ab c b", "c - ab a b - - ab a b ab a", ("a", "a", "c", "b")),
        ("no-rest-25", "ab ab ab a a a - - - b b b", "ab a ab ab - a a a - a ab a -", (None, None, "a", "b")),
    ):
        topics = {
            topic: Topic(topic, len(text.split()), tuple(frozenset(word.strip("-")) for word in text.split()))
            for topic, text in (("x", x), ("y", y))
        }
        life = _group(ask, topics, ["x", "x y", "x y", "y"], racks)
        yield life.now(name, where, "random search")


def _sequences(ask: Ask) -> Iterator[Situation]:
    """Random groups in racks, after an assignment by Java and a change."""
    for seed in range(14):
        rng = random.Random(f"racks/{seed}")
        racks = "abcd"[: rng.randint(2, 4)]
        names = numbered("t", rng.randint(2, 8))
        topics = {
            name: Topic(name, size, replicated(size, racks, rng.randint(1, len(racks) - 1), rng.randrange(4)))
            for name, size in ((name, rng.randint(3, 20)) for name in names)
        }
        members = rng.randint(4, 20)
        uniform = seed % 2 == 0
        reads = [
            " ".join(names if uniform else rng.sample(names, rng.randint(1, len(names))))
            for _ in range(members)
        ]
        where = [rng.choice(racks) if rng.random() < 0.9 else None for _ in range(members)]
        life = _group(ask, topics, reads, where).settle()
        kind = "uniform" if uniform else "mixed"
        yield life.now(
            f"random-settled-{kind}-{seed}",
            f"A random group in {len(racks)} racks, as Java assigned it.",
            JAVA,
        )
        life.leave("consumer0").join("newcomer", reads[0], rack=rng.choice(racks))
        yield life.now(
            f"random-replaced-{kind}-{seed}",
            f"A member of a random group in {len(racks)} racks is replaced.",
            JAVA,
            "KAFKA-15170",
        )
