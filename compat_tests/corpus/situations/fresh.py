"""Groups in which no partition has an owner yet."""

from __future__ import annotations

import random
from collections.abc import Iterator

from compat_tests.corpus.life import Ask, Life, Situation, counts, numbered

JAVA, GO, RDKAFKA, PYTHON = "Java's suite", "franz-go's suite", "librdkafka's suite", "kafka-python's suite"
ALL_SUITES = (JAVA, GO, RDKAFKA, PYTHON)


def situations(ask: Ask) -> Iterator[Situation]:
    def fresh(
        name: str, situation: str, topics: str, *members: str, sources: tuple[str, ...] = ALL_SUITES
    ) -> Situation:
        life = Life.of(ask, topics, {f"consumer{n}": reads for n, reads in enumerate(members, start=1)})
        return life.now(name, situation, *sources)

    yield fresh("one-member-no-topics", "The only member subscribes to nothing.", "a:3", "")
    yield fresh("one-member-unknown-topic", "The only member reads a topic that does not exist.", "", "a")
    yield fresh("one-member-one-topic", "One member reads one topic.", "a:3", "a")
    yield fresh("one-member-other-topic", "There is another topic without subscribers.", "a:3 other:3", "a")
    yield fresh("one-member-two-topics", "One member reads two topics.", "a:1 b:2", "a b")
    yield fresh(
        "one-member-missing-topic", "One of the topics of the only member was deleted.", "a:1 c:100", "a b c"
    )
    yield fresh("two-members-one-partition", "One of two members stays idle.", "a:1", "a", "a")
    yield fresh("two-members-two-partitions", "Each of two members gets a partition.", "a:2", "a", "a")
    yield fresh(
        "two-members-two-topics", "Two members share two topics of odd size.", "a:3 b:3", "a b", "a b"
    )
    yield fresh(
        "three-members-one-reads-more",
        "One of three members reads a second topic.",
        "a:3 b:2",
        "a",
        "a b",
        "a",
    )
    yield fresh(
        "empty-topic", "One of two topics has no partitions.", "a:0 b:5", "a b", "a b", sources=(JAVA,)
    )
    yield fresh(
        "subscribed-to-nothing-beside-readers",
        "One member subscribes to nothing, the other reads.",
        "a:4",
        "",
        "a",
        sources=(JAVA,),
    )
    nothing_first = Life.of(ask, "a:4", {"m1": "", "m2": "a"})
    yield nothing_first.now(
        "first-of-two-subscribes-to-nothing",
        "One member subscribes to nothing, and comes first in Java's hash table.",
        "random search",
    )
    yield fresh("idle-majority", "Ten members, three partitions.", "a:3", *["a"] * 10, sources=(JAVA,))
    yield fresh(
        "symmetrical",
        "Two members read the same four topics, in another order.",
        "a:3 b:4 c:4 d:1",
        "d b a c",
        "a b c d",
        sources=(RDKAFKA,),
    )
    yield fresh(
        "three-topics-one-shared",
        "One member reads three topics, the other one of them.",
        "a:1 b:1 c:1",
        "a b c",
        "a",
        sources=(RDKAFKA,),
    )
    pair = " ".join(f"t{n}:{1 + 11 * (n % 3 == 0)}" for n in range(20))
    yield fresh(
        "one-reads-a-bit-less",
        "Two members read twenty topics, the second all but three.",
        pair,
        " ".join(counts(pair)),
        " ".join(list(counts(pair))[3:]),
        sources=(RDKAFKA, "librdkafka 2121"),
    )
    yield fresh(
        "roundrobin-leaves-one-idle",
        "Five small topics; round robin leaves one of four members idle.",
        "t1:2 t2:1 t3:2 t4:1 t5:2",
        "t1 t2 t3 t4 t5",
        "t1 t3 t5",
        "t1 t3 t5",
        "t1 t2 t3 t4 t5",
    )
    yield fresh(
        "kip54-four-topics",
        "Three members read four topics of two partitions.",
        "t0:2 t1:2 t2:2 t3:2",
        *["t0 t1 t2 t3"] * 3,
        sources=("KIP-54", GO),
    )
    yield fresh(
        "kip54-staircase",
        "Topics of 1, 2 and 3 partitions; each member reads one more than the one before.",
        "t0:1 t1:2 t2:3",
        "t0",
        "t0 t1",
        "t0 t1 t2",
        sources=("KIP-54", GO),
    )
    yield fresh(
        "kip54-shared-pair",
        "Two topics of two partitions; the third member reads only the second.",
        "t0:2 t1:2",
        "t0 t1",
        "t0 t1",
        "t1",
        sources=("KIP-54", GO),
    )
    yield fresh(
        "co-partitioned",
        "Three topics of the same size, read by all.",
        "a:6 b:6 c:6",
        *["a b c"] * 4,
        sources=(JAVA, RDKAFKA),
    )
    yield fresh(
        "islands",
        "Two parts of the group that share no topic.",
        "a:5 b:9",
        "a",
        "a",
        "b",
        "b",
        "b",
        sources=(JAVA,),
    )
    yield fresh(
        "bridge",
        "Two parts of the group that one member joins.",
        "a:9 b:3",
        "a",
        "a",
        "b",
        "b",
        "a b",
        sources=(GO,),
    )
    yield fresh(
        "ring",
        "Six members, six topics; each member shares a topic with each neighbour.",
        "t0:1 t1:5 t2:1 t3:4 t4:1 t5:3",
        *[f"t{n} t{(n + 1) % 6}" for n in range(6)],
        sources=(GO,),
    )
    yield fresh(
        "long-chain",
        "What the last member lacks must come through all the others.",
        " ".join(f"t{n}:{12 if n == 0 else 1}" for n in range(10)),
        "t0",
        *[f"t{n} t{n + 1}" for n in range(9)],
        sources=(GO,),
    )
    yield fresh(
        "one-reads-everything",
        "One member reads all ten topics, ten members one each.",
        " ".join(f"t{n}:{n + 1}" for n in range(10)),
        " ".join(f"t{n}" for n in range(10)),
        *[f"t{n}" for n in range(10)],
        sources=(GO,),
    )
    yield fresh(
        "hot-topic",
        "One topic has nearly all partitions, and half of the members read it.",
        "hot:60 a:2 b:2 c:2",
        *["hot"] * 3,
        *["hot a b c"] * 2,
        *["a b c"] * 5,
        sources=(JAVA,),
    )

    staircase = " ".join(f"t{n:02d}:{n}" for n in range(1, 20))
    yield fresh(
        "pyramid",
        "Nineteen topics of 1 to 19 partitions; member n reads the first n.",
        staircase,
        *[" ".join(f"t{j:02d}" for j in range(1, n + 1)) for n in range(1, 20)],
        sources=(JAVA, RDKAFKA, PYTHON),
    )
    yield fresh(
        "pyramid-upside-down",
        "Nineteen topics of 1 to 19 partitions; member n reads the last n.",
        staircase,
        *[" ".join(f"t{j:02d}" for j in range(20 - n, 20)) for n in range(1, 20)],
        sources=(GO,),
    )
    for members, partitions in (
        (3, 10),
        (7, 20),
        (9, 20),
        (10, 20),
        (13, 100),
        (40, 39),
        (40, 41),
        (40, 400),
    ):
        yield fresh(
            f"uniform-{members}x{partitions}",
            f"{members} members read one topic of {partitions} partitions.",
            f"a:{partitions}",
            *["a"] * members,
            sources=(JAVA, "KAFKA-9987"),
        )
    sizes = " ".join(f"t{n:02d}:{n}" for n in range(1, 15))
    yield fresh(
        "same-subscriptions",
        "Eight members read fourteen topics of 1 to 14 partitions.",
        sizes,
        *[" ".join(counts(sizes))] * 8,
        sources=(JAVA, RDKAFKA, PYTHON),
    )
    for seed in range(8):
        rng = random.Random(f"fresh/{seed}")
        topics = {name: n + 1 for n, name in enumerate(numbered("t", rng.randint(10, 20)))}
        reads = [
            " ".join(rng.sample(sorted(topics), rng.randint(1, len(topics))))
            for _ in range(rng.randint(20, 40))
        ]
        yield fresh(
            f"random-subscriptions-{seed}",
            "20 to 40 members, each with a random choice of 10 to 20 topics.",
            " ".join(f"{name}:{number}" for name, number in topics.items()),
            *reads,
            sources=(JAVA, PYTHON, "KAFKA-12675"),
        )
