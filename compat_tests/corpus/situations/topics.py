"""Topics are created and deleted, get more partitions, or are no longer read."""

from __future__ import annotations

from collections.abc import Iterator

from compat_tests.corpus.life import Ask, Life, Situation, numbered
from compat_tests.peers.asking import Peer

JAVA, GO, RDKAFKA, PYTHON = "Java's suite", "franz-go's suite", "librdkafka's suite", "kafka-python's suite"


def situations(ask: Ask) -> Iterator[Situation]:
    all_suites = (JAVA, RDKAFKA, PYTHON)
    life = Life.of(ask, "a:3", {"consumer1": "a", "consumer2": "a"}).settle()
    life.topic("b", 3).subscribe("consumer1", "a b").subscribe("consumer2", "a b")
    yield life.now("topic-added", "Two members read a second topic now.", *all_suites)
    life.settle().delete("a").subscribe("consumer1", "b").subscribe("consumer2", "b")
    yield life.now(
        "topic-deleted", "The first of two topics is deleted, and no member reads it any more.", *all_suites
    )

    life = Life.of(ask, "a:1 b:1 c:100", {"consumer1": "a b c"}).settle().delete("b")
    yield life.now(
        "topic-deleted-still-subscribed", "A topic is deleted, and still subscribed to.", *all_suites
    )
    life = Life.of(ask, "a:3", {"consumer1": "a"}).settle().delete("a")
    yield life.now("only-topic-deleted", "The only topic of the only member is deleted.", *all_suites)
    life = Life.of(ask, "a:3", {"consumer1": "a", "consumer2": "a"}).settle().delete("a")
    yield life.now("only-topic-of-two-deleted", "The only topic of two members is deleted.", *all_suites)
    life = (
        Life.of(ask, "a:6 b:6", {"consumer1": "a b", "consumer2": "a b", "consumer3": "a b"})
        .settle()
        .delete("b")
    )
    yield life.now(
        "one-of-two-deleted", "One of two topics is deleted; three members own some of both.", JAVA
    )
    life = (
        Life.of(ask, "a:6 b:6", {"consumer1": "a b", "consumer2": "a b", "consumer3": "a b"})
        .settle()
        .topic("b", 2)
    )
    yield life.now(
        "made-again-smaller",
        "A topic is deleted and made again with fewer partitions; claims go beyond.",
        "deleted and made again",
    )

    for members, before, after in (
        (3, 6, 8),
        (4, 4, 12),
        (5, 12, 13),
        (7, 3, 50),
        (12, 24, 25),
        (30, 60, 64),
    ):
        for peer in (Peer("Java", "sticky"), Peer("Java", "range")):
            life = Life.of(
                ask, f"a:{before} b:{before}", dict.fromkeys(numbered("consumer", members), "a b")
            ).settle(peer)
            life.topic("a", after)
            yield life.now(
                f"partitions-added-{members}-{before}-{after}-{peer.assignor}",
                f"A topic grows from {before} to {after} partitions; {members} members, assigned by {peer}.",
                JAVA if peer.assignor == "sticky" else "upgrade from range",
                "added partitions",
            )

    life = (
        Life.of(ask, "a:8 b:8", {**dict.fromkeys(numbered("both", 4), "a b"), "only-b": "b"})
        .settle()
        .topic("a", 24)
    )
    yield life.now("shared-topic-grows", "The topic that all but one member read grows.", "added partitions")
    life = (
        Life.of(ask, "a:8 b:8", {**dict.fromkeys(numbered("both", 4), "a b"), "only-b": "b"})
        .settle()
        .topic("b", 24)
    )
    yield life.now("choosy-members-topic-grows", "The only topic of one member grows.", "added partitions")
    names = numbered("consumer", 6)
    life = Life.of(
        ask,
        " ".join(f"events-{n}:4" for n in range(5)),
        dict.fromkeys(names, " ".join(f"events-{n}" for n in range(5))),
    ).settle()
    life.topic("events-5", 9)
    for name in names[:2]:
        life.subscribe(name, " ".join(f"events-{n}" for n in range(6)))
    yield life.now(
        "pattern-seen-by-some",
        "A new topic fits a pattern; only two of six members have seen it.",
        "pattern subscriptions",
        "KAFKA-12675",
    )
    life.settle()
    for name in names[2:]:
        life.subscribe(name, " ".join(f"events-{n}" for n in range(6)))
    yield life.now(
        "pattern-seen-by-all", "The other four have seen the new topic too.", "pattern subscriptions"
    )
    life = Life.of(ask, "a:12 b:12 c:12", dict.fromkeys(names, "a b c")).settle()
    for name in names[:3]:
        life.subscribe(name, "a b")
    yield life.now("half-unsubscribe", "Half of the members no longer read one of three topics.", JAVA)
    life.settle()
    for name in names[3:]:
        life.subscribe(name, "a b")
    yield life.now("last-readers-unsubscribe", "No member reads the third topic any more.", JAVA)
    life = Life.of(ask, "a:12 b:12", {"m1": "a", "m2": "a", "m3": "b", "m4": "b"}).settle()
    life.subscribe("m1", "b").subscribe("m3", "a")
    yield life.now("two-swap-subscriptions", "Two members swap what they read.", JAVA)
    life = Life.of(ask, "old:12", dict.fromkeys(numbered("m", 4), "old")).settle().topic("new", 12)
    for name in numbered("m", 4)[:2]:
        life.subscribe(name, "new")
    yield life.now(
        "rolling-change-half-way",
        "Half of the members read the new topic instead of the old one.",
        "rolling restart",
    )
    life.settle()
    for name in numbered("m", 4)[2:]:
        life.subscribe(name, "new")
    yield life.now(
        "rolling-change-done", "The other half follows; no member reads the old topic.", "rolling restart"
    )
    life = Life.of(ask, "a:20", dict.fromkeys(names, "a")).settle().topic("b", 20)
    life.leave(names[0]).join("newcomer", "a b")
    for name in names[1:]:
        life.subscribe(name, "a b")
    yield life.now(
        "all-at-once", "A topic is new, all members read it, one left and one joined.", "rolling restart"
    )
