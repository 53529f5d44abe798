"""Members that read different topics and already own partitions."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

from compat_tests.corpus.life import Ask, Life, Situation, numbered
from compat_tests.peers.asking import Peer

JAVA, GO, RDKAFKA, PYTHON = "Java's suite", "franz-go's suite", "librdkafka's suite", "kafka-python's suite"


def situations(ask: Ask) -> Iterator[Situation]:
    yield from _steals(ask)
    yield from _small(ask)
    yield from _pyramids(ask)
    yield from _random(ask)
    yield from _many(ask)


def _steals(ask: Ask) -> Iterator[Situation]:
    """Topics of one partition each; the right member must give up the right topics."""

    def held(
        name: str, situation: str, reads: Mapping[str, str], owns: Mapping[str, str], *sources: str
    ) -> Situation:
        topics = " ".join(f"{topic}:1" for topic in sorted(set(" ".join(reads.values()).split())))
        life = Life.of(ask, topics, reads)
        for member_id, owned in owns.items():
            life.own(member_id, " ".join(f"{topic}:0" for topic in owned.split()))
        return life.now(name, situation, *(sources or (GO,)))

    nine = "1 2 3 4 5 6 7 8 9"
    yield held(
        "take-from-the-richest",
        "A may read all, B and C a part; C owns five, B three.",
        {"A": nine, "B": "2 3 4", "C": "5 6 7 8 9"},
        {"A": "1", "B": "2 3 4", "C": "5 6 7 8 9"},
    )
    yield held(
        "give-to-the-choosy",
        "A may read all and owns one, B owns one of its three, C the rest.",
        {"A": nine, "B": "2 3 4", "C": "3 4 5 6 7 8 9"},
        {"A": "1", "B": "2", "C": "3 4 5 6 7 8 9"},
    )
    yield held(
        "pass-on-through-two",
        "E owns nothing, D owns five that E may have; A reads both halves.",
        {"A": "1 2 3 4 5 a b c d e", "B": "1 2 3 4 5", "C": "3 4 5", "D": "a b c d e", "E": "a b c d e"},
        {"A": "1 2", "B": "3 4", "C": "5", "D": "a b c d e"},
    )
    yield held(
        "pass-on-along-five",
        "The last of five overlapping members owns eight; all must end with three.",
        {
            "A": "1 2 3",
            "B": "1 2 3 4 5 6",
            "C": "4 5 6 7 8 9",
            "D": "6 7 8 9 a b c d e f",
            "E": "6 7 8 9 a b c d e f",
        },
        {"A": "1 2", "B": "3", "C": "4 5", "D": "6 7", "E": "8 9 a b c d e f"},
    )
    yield held(
        "two-pairs",
        "Two pairs of members that share nothing; one of each pair owns all.",
        {"A": "1 2 3", "B": "1 2 3", "C": "5 6 7 8 9", "D": "5 6 7 8 9"},
        {"A": "1 2 3", "C": "5 6 7 8 9"},
    )
    yield held(
        "overlapping-trio-and-pair",
        "Three members that overlap, one of them idle, beside a pair.",
        {"A": "1 2 3 4", "B": "2 3 4 5", "C": "1 3 4 5", "D": "6 7 8 9 a b", "E": "6 7 8 9 a b"},
        {"A": "1 2 3 4", "B": "5", "D": "6 7 8 9 a b"},
    )
    yield held(
        "ring-in-balance-beside-a-pair",
        "Five members in a ring are balanced, beside a pair that is not.",
        {
            "A": "9 1 2",
            "B": "2 3 4",
            "C": "4 5 6",
            "D": "6 7 8",
            "E": "8 9 1",
            "F": "a b c d e",
            "G": "a b c d e",
        },
        {"A": "1 2", "B": "3 4", "C": "5 6", "D": "7 8", "E": "9", "F": "a b c d e"},
    )
    yield held(
        "uneven-pyramid",
        "Six members read a single topic each, which D owns; A owns nothing of what B has.",
        {
            "A": "1 2 3 4",
            "B": "1 2 3 4 5 6 7 8 9 a b c d",
            "C": "5 6 7 8 9 a b c d",
            "D": "5 6 7 8 9 a b c d e f g h i j",
            **{letter.upper(): letter for letter in "efghij"},
        },
        {"B": "1 2 3 4", "C": "5 6 7 8 9 a b c d", "D": "e f g h i j"},
    )
    yield held("reads-it-no-longer", "The owner of a topic reads another one now.", {"A": "2"}, {"A": "1"})
    yield held(
        "move-what-others-may-have",
        "C owns three of the five topics it may read, A and B two of theirs.",
        {"A": "1 2", "B": "1 2 3 4", "C": "2 3 4 5 6"},
        {"A": "1", "B": "2 3", "C": "4 5 6"},
        JAVA,
        RDKAFKA,
        PYTHON,
    )
    yield held(
        "chain-of-eight",
        "Each of eight members may read its own topic and the next; the first owns nothing.",
        {f"m{n}": f"{n} {n + 1}" for n in range(8)},
        {f"m{n}": f"{n + 1}" for n in range(1, 8)},
    )
    yield held(
        "chain-of-eight-loaded",
        "The last of a chain of eight members owns four topics that only its neighbour may share.",
        {**{f"m{n}": f"{n} {n + 1}" for n in range(7)}, "m7": "7 8 9 a b", "m8": "b"},
        {**{f"m{n}": f"{n}" for n in range(7)}, "m7": "7 8 9 a b"},
    )
    yield held(
        "star",
        "One member may read everything and owns it; six may read one topic each.",
        {"hub": "1 2 3 4 5 6", **{f"m{n}": f"{n}" for n in range(1, 7)}},
        {"hub": "1 2 3 4 5 6"},
    )
    yield held(
        "exchange",
        "Two members each own what only the other may read once a third has come.",
        {"A": "1 2 3", "B": "2 3 4", "C": "1"},
        {"A": "1 2", "B": "3 4"},
    )


def _small(ask: Ask) -> Iterator[Situation]:
    life = (
        Life.of(ask, "a:2 b:2", {"consumer1": "b", "consumer2": "a b"})
        .own("consumer1", "a:0")
        .own("consumer2", "a:1")
    )
    yield life.now(
        "changed-topic-owner-beside-another", "A member gave its topic up, the other reads both.", GO
    )
    life = (
        Life.of(ask, "t0:2 t1:2", {"consumer1": "t0 t1", "consumer2": "t0 t1"})
        .settle()
        .join("consumer3", "t1")
    )
    yield life.now("choosy-one-joins", "A member that reads only one of two topics joins.", GO, "KIP-54")
    life = (
        Life.of(ask, "t0:1 t1:2 t2:3", {"consumer0": "t0", "consumer1": "t0 t1", "consumer2": "t0 t1 t2"})
        .settle()
        .leave("consumer0")
    )
    yield life.now(
        "staircase-first-leaves", "The member with the shortest subscription of three leaves.", GO, "KIP-54"
    )
    life = Life.of(ask, "t0:4", {"consumer1": "t0", "consumer2": "t0"}).settle()
    life.topic("t1", 6).subscribe("consumer2", "t0 t1")
    yield life.now(
        "one-of-two-subscribes-more", "One of two members reads a second topic now.", PYTHON, RDKAFKA
    )
    life = Life.of(
        ask, "t1:1 t2:1 t3:1 t4:1", {"consumer0": "", "consumer1": "t1", "consumer2": "t2 t3 t4"}
    ).settle()
    life.subscribe("consumer0", "t1")
    yield life.now(
        "idle-one-subscribes",
        "A member that read nothing reads what another one owns.",
        JAVA,
        RDKAFKA,
        PYTHON,
    )
    life = Life.of(ask, "a:6 b:6", {"m1": "a", "m2": "a b", "m3": "b"}).settle()
    yield life.now("bridge-settled", "Three members with a bridge, settled: nothing may move.", GO)
    life.leave("m2")
    yield life.now("bridge-leaves", "The member that reads both topics leaves.", GO)
    life.join("m4", "a b").join("m5", "a b")
    yield life.now("two-bridges-join", "Two members that read both topics come instead.", GO)
    for owner in ("m1", "m2"):
        life = Life.of(ask, "a:10 b:1", {"m1": "a", "m2": "a b"})
        life.own(owner, "a:0-9" if owner == "m1" else "a:0-9 b:0")
        yield life.now(f"all-at-{owner}", "One of two members owns all of the shared topic.", GO)
    life = Life.of(
        ask, "big:40 small:2", {**dict.fromkeys(numbered("wide", 9), "big small"), "narrow": "small"}
    ).settle()
    life.join("narrow2", "small")
    yield life.now(
        "second-narrow-joins", "A second member that reads only a small topic joins ten.", "KAFKA-12675", JAVA
    )
    life.join("wide9", "big small")
    yield life.now(
        "wide-and-narrow-join", "One that reads all and one that reads little join ten.", "KAFKA-12675", JAVA
    )
    half = {**dict.fromkeys(numbered("left", 8), "a b"), **dict.fromkeys(numbered("right", 24), "c d")}
    life = Life.of(ask, "a:20 b:20 c:20 d:20", half).settle()
    yield life.now(
        "two-camps-settled", "Two camps of members that share nothing, settled.", JAVA, "KAFKA-12675"
    )
    life.leave("left1", "right02", "right03")
    yield life.now(
        "two-camps-some-leave", "One of the small camp and two of the large one leave.", JAVA, "KAFKA-12675"
    )


def _pyramids(ask: Ask) -> Iterator[Situation]:
    topics = " ".join(f"t{n:02d}:{n}" for n in range(1, 20))
    reads = {f"consumer{n:02d}": " ".join(f"t{j:02d}" for j in range(1, n + 1)) for n in range(1, 20)}
    all_suites = (JAVA, RDKAFKA, PYTHON)
    for peer in (Peer("Java", "sticky"), Peer("Java", "range"), Peer("kafka-python", "sticky")):
        by = f"{peer.client}-{peer.assignor}".lower()
        life = Life.of(ask, topics, reads).settle(peer)
        yield life.now(
            f"pyramid-settled-{by}", f"A pyramid of nineteen members, as {peer} assigned it.", *all_suites
        )
        life.leave("consumer10")
        yield life.now(f"pyramid-middle-leaves-{by}", "The tenth of nineteen members leaves.", *all_suites)
    life = Life.of(ask, topics, reads).settle().leave("consumer19")
    yield life.now("pyramid-top-leaves", "The member that reads everything leaves.", *all_suites)
    life = (
        Life.of(ask, topics, reads).settle().join("consumer20", " ".join(f"t{j:02d}" for j in range(1, 20)))
    )
    yield life.now("pyramid-another-top-joins", "Another member that reads everything joins.", *all_suites)


def _random(ask: Ask) -> Iterator[Situation]:
    owners = (
        Peer("Java", "sticky"),
        Peer("kafka-python", "sticky"),
        Peer("Java", "range"),
        Peer("aiokafka", "sticky"),
    )
    for seed in range(16):
        rng = random.Random(f"mixed/{seed}")
        topics = {name: n + 1 for n, name in enumerate(numbered("t", rng.randint(10, 20)))}
        names = numbered("consumer", rng.randint(20, 40))

        def some(rng: random.Random = rng, topics: Mapping[str, int] = topics) -> str:
            return " ".join(rng.sample(sorted(topics), rng.randint(1, len(topics))))

        peer = owners[seed % len(owners)]
        life = Life.of(
            ask, " ".join(f"{n}:{p}" for n, p in topics.items()), {name: some() for name in names}
        ).settle(peer)
        if seed % 2:
            for name in names:
                life.subscribe(name, some())
            yield life.now(
                f"random-all-changed-{seed}",
                f"Every member reads a new random choice; before, {peer} assigned.",
                JAVA,
                PYTHON,
                "KAFKA-12675",
            )
        else:
            for name in rng.sample(names, 3):
                life.subscribe(name, some())
            life.leave(rng.choice(names)).join("newcomer", some())
            yield life.now(
                f"random-some-changed-{seed}",
                f"A few read something else, one left, one joined; before, {peer} assigned.",
                JAVA,
                PYTHON,
                "KAFKA-12675",
            )


def _many(ask: Ask) -> Iterator[Situation]:
    for seed in range(3):
        rng = random.Random(f"many/{seed}")
        topics = {name: rng.randint(1, 10) for name in numbered("t", 40)}
        names = numbered("consumer", 100)
        reads = {name: " ".join(rng.sample(sorted(topics), rng.randint(0, 15))) for name in names}
        life = Life.of(ask, " ".join(f"{n}:{p}" for n, p in topics.items()), reads).settle()
        life.leave(*rng.sample(names, 25))
        yield life.now(
            f"quarter-of-a-hundred-leaves-{seed}",
            "25 of 100 members leave; each reads up to 15 of 40 topics.",
            JAVA,
            RDKAFKA,
            PYTHON,
        )
    # A group that got stuck under aiokafka: 12 processes of 7 consumers, and a topic for each of the 7.
    seven = "t0:12 t1:24 t2:6 t3:12 t4:30 t5:18 t6:12"
    reads = {f"process{p:02d}-{n}": f"t{n}" for p in range(12) for n in range(7)}
    life = Life.of(ask, seven, reads).settle()
    for member_id in life.members:
        owned = life.members[member_id].owned
        life.own(member_id, " ".join(f"{t}:{p}" for t, ps in owned.items() for p in ps), age=-1)
    yield life.now(
        "84-members-no-generations",
        "84 members, a topic for each seven; no member knows its generation.",
        "aiokafka 1176",
    )
    life.leave(*[f"process00-{n}" for n in range(7)])
    yield life.now(
        "84-members-no-generations-one-process-gone", "The same after one process has left.", "aiokafka 1176"
    )
    for n in range(7):
        life.join(f"process12-{n}", f"t{n} t{(n + 1) % 7}")
    yield life.now(
        "84-members-no-generations-new-release",
        "A process of a release that reads two topics each comes.",
        "aiokafka 1176",
    )
