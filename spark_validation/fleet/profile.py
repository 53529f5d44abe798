"""The groups and topics of a fleet: sizes, clients, strategies, subscriptions, and flaws.

All of them follow from the options and a number, so a task does not need to know the whole fleet.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from kafka_assignors.group import Topic

__all__ = [
    "Client",
    "FleetOptions",
    "GroupProfile",
    "TopicPlan",
    "generations_of_each",
    "profile_of",
    "topic_of",
    "topics_of",
]

DAY_MS = 24 * 60 * 60 * 1000
START = datetime(2026, 3, 2, tzinfo=timezone.utc)
RACKS = ("eu-1a", "eu-1b", "eu-1c")

_FEWEST_GENERATIONS = 8
_GREATEST_SHARE = 500.0
_TEAMS = (
    "billing",
    "catalog",
    "checkout",
    "fraud",
    "ledger",
    "orders",
    "search",
    "shipping",
    "stock",
    "users",
)
_PARTITION_COUNTS = (1, 3, 6, 12, 24, 48, 96)
_PARTITION_WEIGHTS = (5, 10, 25, 30, 20, 8, 2)


@dataclass(frozen=True, slots=True)
class FleetOptions:
    """The options of a fleet.

    `generations` is the approximate total of all groups; `days` is the length of the history. `giant` makes
    the first group a giant: its number of members, partitions (of its own topic) and generations (in
    addition).
    """

    groups: int = 5_000
    generations: int = 1_000_000
    days: float = 1.0
    seed: int = 1
    offsets_partitions: int = 50
    giant: tuple[int, int, int] | None = None

    @property
    def duration_ms(self) -> int:
        return int(self.days * DAY_MS)

    @property
    def topics(self) -> int:
        """The number of topics in the cluster; the giant's topic is the last one."""
        return self.shared_topics + (self.giant is not None)

    @property
    def shared_topics(self) -> int:
        return max(4, self.groups // 2)

    def random(self, what: str, number: int) -> random.Random:
        """The source of randomness for one object."""
        return random.Random(f"{self.seed}/{what}/{number}")


@dataclass(frozen=True, slots=True)
class Client:
    """A client library: its default client id, and whether it supports racks."""

    client_id: str
    racks: bool = False


JAVA = Client("consumer-{group}-{number}", racks=True)
OURS = Client("aiokafka-ours-{number}", racks=True)
AIOKAFKA = Client("aiokafka-0.14.0")
KAFKA_PYTHON = Client("kafka-python-3.0.12")
LIBRDKAFKA = Client("rdkafka")
NAMED = Client("{group}-worker")

_CLIENTS_OF: dict[str, tuple[tuple[Client, ...], tuple[int, ...]]] = {
    # Stock aiokafka and kafka-python support neither racks nor a cooperative protocol in common with others.
    "range": ((JAVA, OURS, AIOKAFKA, KAFKA_PYTHON, LIBRDKAFKA, NAMED), (40, 10, 20, 10, 10, 10)),
    "roundrobin": ((JAVA, AIOKAFKA, KAFKA_PYTHON), (50, 30, 20)),
    "sticky": ((JAVA, OURS), (60, 40)),
    "cooperative-sticky": ((JAVA, OURS, NAMED), (60, 30, 10)),
}
_STRATEGIES, _STRATEGY_WEIGHTS = tuple(_CLIENTS_OF), (35, 10, 15, 40)


@dataclass(frozen=True, slots=True)
class GroupProfile:
    """The properties of one group.

    `members` is its usual size; `swing` is the fraction of it that the time of day adds or removes. `topics`
    are the numbers of its topics, and `later_topics` those after a change of its subscription. A mixed group
    has several `clients`. With `starts_late`, the records of its first days are missing.
    """

    index: int
    group: str
    strategy: str
    clients: tuple[Client, ...]
    members: int
    swing: float
    topics: tuple[int, ...]
    later_topics: tuple[int, ...]
    generations: int
    value_version: int
    static: bool
    racks: bool
    flapping: bool
    starts_late: bool
    reborn: bool


def generations_of_each(options: FleetOptions) -> list[int]:
    """The number of generations of each group: few groups have most of them."""
    shares = [
        min(options.random("share", index).paretovariate(1.2), _GREATEST_SHARE)
        for index in range(options.groups)
    ]
    each = options.generations / sum(shares)
    counts = [max(_FEWEST_GENERATIONS, round(share * each)) for share in shares]
    if options.giant is not None:
        counts[0] = options.giant[2]
    return counts


def profile_of(options: FleetOptions, index: int, generations: int) -> GroupProfile:
    """The group with this number and this many generations."""
    rng = options.random("group", index)
    (strategy,) = rng.choices(_STRATEGIES, _STRATEGY_WEIGHTS)
    known, weights = _CLIENTS_OF[strategy]
    clients = tuple(rng.choices(known, weights))
    if rng.random() < 0.15 and clients[0] in (JAVA, OURS):
        clients = (JAVA, OURS)
    able = all(client in (JAVA, OURS) for client in clients)
    subscribed = _some_topics(rng, options.shared_topics)
    static = able and rng.random() < 0.15
    profile = GroupProfile(
        index=index,
        group=f"{rng.choice(_TEAMS)}-{rng.choice(_TEAMS)}-{index:05d}",
        strategy=strategy,
        clients=clients,
        members=min(150, max(1, round(rng.lognormvariate(1.5, 0.8)))),
        swing=rng.choice((0.0, 0.0, 0.3, 0.6)),
        topics=subscribed,
        later_topics=_some_topics(rng, options.shared_topics) if rng.random() < 0.1 else subscribed,
        generations=generations,
        value_version=3 if static or rng.random() < 0.9 else rng.choice((1, 2, 4)),
        static=static,
        racks=able and rng.random() < 0.2,
        flapping=rng.random() < 0.05,
        starts_late=rng.random() < 0.1,
        reborn=rng.random() < 0.05,
    )
    if options.giant is not None and index == 0:
        return _grown(profile, options.giant[0], options.topics - 1)
    return profile


def _grown(profile: GroupProfile, members: int, topic: int) -> GroupProfile:
    """The group as a giant, without special properties except its size."""
    return replace(
        profile,
        strategy="cooperative-sticky",
        clients=(JAVA,),
        members=members,
        topics=(topic,),
        later_topics=(topic,),
        value_version=3,
        static=False,
        racks=False,
        starts_late=False,
        reborn=False,
    )


def _some_topics(rng: random.Random, topics: int) -> tuple[int, ...]:
    (wanted,) = rng.choices((1, 2, 3, 5), (60, 25, 10, 5))
    # The first topics of a cluster are popular: most groups read them.
    return tuple(sorted({int(topics * rng.random() ** 2) for _ in range(wanted)}))


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A topic, and its later form if partitions are added at `grows_at_ms` of the history."""

    topic: Topic
    grows_at_ms: int | None
    grown: Topic

    def at(self, now_ms: int) -> Topic:
        return self.topic if self.grows_at_ms is None or now_ms < self.grows_at_ms else self.grown


def topic_of(options: FleetOptions, number: int) -> TopicPlan:
    """The topic with this number."""
    rng = options.random("topic", number)
    if options.giant is not None and number == options.shared_topics:
        topic = Topic("giant.events", options.giant[1])
        return TopicPlan(topic, None, topic)
    (count,) = rng.choices(_PARTITION_COUNTS, _PARTITION_WEIGHTS)
    grows = rng.random() < 0.1
    more = count + rng.choice((1, count, 2 * count))
    # If every partition were in every rack, racks would decide nothing.
    racks = [frozenset(rng.sample(RACKS, 2)) for _ in range(more)]
    name = f"{rng.choice(_TEAMS)}.events.{number:05d}"
    return TopicPlan(
        Topic(name, count, tuple(racks[:count])),
        rng.randrange(options.duration_ms) if grows else None,
        Topic(name, more, tuple(racks)),
    )


def topics_of(options: FleetOptions, numbers: Sequence[int]) -> list[TopicPlan]:
    """The topics with these numbers."""
    return [topic_of(options, number) for number in numbers]
