"""Release shares, rounded per topic and in total."""

from __future__ import annotations

from itertools import product
from math import ceil, floor

from hypothesis import given
from hypothesis import strategies as st

from kafka_assignors.announcements import WHOLE_SHARE
from kafka_assignors_strategies.rules.release_shares import TopicShares, round_shares, scaled


@st.composite
def shared_topics(
    draw: st.DrawFn, topics: int = 12, releases: int = 5, partitions: int = 30
) -> list[TopicShares]:
    """Topics with arbitrary subscriptions, shares and owners."""
    drawn = []
    for _ in range(draw(st.integers(1, topics))):
        weights = draw(
            st.dictionaries(st.integers(0, releases - 1), st.integers(0, WHOLE_SHARE), min_size=1).filter(
                lambda weights: any(weights.values())
            )
        )
        count = draw(st.integers(1, partitions))
        left = count
        owned = {}
        for number in weights:
            owned[number] = draw(st.integers(0, left))
            left -= owned[number]
        drawn.append(TopicShares(count, scaled(weights), owned))
    return drawn


def moved(topics: list[TopicShares], given: list[dict[int, int]]) -> int:
    """The number of partitions that move from one release to another."""
    return sum(
        max(0, owned - quotas[number])
        for topic, quotas in zip(topics, given, strict=True)
        for number, owned in topic.owned.items()
    )


@given(shared_topics())
def test_topics_and_releases_are_rounded_up_or_down(topics: list[TopicShares]) -> None:
    given = round_shares(topics)
    for topic, quotas in zip(topics, given, strict=True):
        assert sum(quotas.values()) == topic.partitions
        for number, share in topic.shares.items():
            exact = topic.partitions * share / WHOLE_SHARE
            assert floor(exact) <= quotas[number] <= ceil(exact)
    for number in {number for topic in topics for number in topic.shares}:
        exact = sum(topic.partitions * topic.shares.get(number, 0) for topic in topics) / WHOLE_SHARE
        assert floor(exact) <= sum(quotas.get(number, 0) for quotas in given) <= ceil(exact)


@given(shared_topics(topics=4, releases=3, partitions=6))
def test_no_other_rounding_with_these_totals_moves_less(topics: list[TopicShares]) -> None:
    given = round_shares(topics)
    totals = {n: sum(quotas.get(n, 0) for quotas in given) for topic in topics for n in topic.shares}
    choices = []
    for topic in topics:
        exact = {number: topic.partitions * share / WHOLE_SHARE for number, share in topic.shares.items()}
        ups = product(*({floor(e), ceil(e)} for e in exact.values()))
        choices.append([dict(zip(exact, up, strict=True)) for up in ups if sum(up) == topic.partitions])
    assert moved(topics, given) == min(
        moved(topics, list(other))
        for other in product(*choices)
        if all(sum(quotas.get(n, 0) for quotas in other) == total for n, total in totals.items())
    )


@given(shared_topics())
def test_a_rounding_comes_back_unchanged(topics: list[TopicShares]) -> None:
    given = round_shares(topics)
    again = [TopicShares(t.partitions, t.shares, q) for t, q in zip(topics, given, strict=True)]
    assert round_shares(again) == given


def test_scaled_shares_keep_their_proportions() -> None:
    assert scaled({0: 8000, 1: 8000}) == {0: 5000, 1: 5000}
    assert scaled({0: 1, 1: 1, 2: 1}) == {0: 3334, 1: 3333, 2: 3333}
    assert sum(scaled(dict.fromkeys(range(11), 7)).values()) == WHOLE_SHARE
