"""The watch's folds give the sums of the replay, wherever one run ends and the next one continues."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from kafka_assignors.group import Topic
from kafka_assignors_ops.watch.fleet import Fleet, FleetLimits, FleetSnapshot, Step
from kafka_assignors_ops.watch.watcher import WatchState, load_state, save_state
from kafka_assignors_replay import catalogue
from kafka_assignors_replay.catalogue import Catalogue, CatalogueEntry
from kafka_assignors_replay.history.consumer_offsets import ConsumerGroupRecord
from kafka_assignors_replay.history.generations import Record
from kafka_assignors_replay.history.kip848_records import PartitionMetadata, TopicMetadata
from kafka_assignors_replay.history.rebalances import Cause
from kafka_assignors_replay.history.sums import GroupSums
from kafka_assignors_replay.history_files import catalogue_of, catalogue_rows
from kafka_assignors_replay.result import Mode
from spark_validation.tests.conftest import RECORDED as HISTORY
from spark_validation.tests.folding import raw_rows, sums_of
from spark_validation.tests.groups import ALL, Log, member, new_member, topic_id, write_history
from spark_validation.tests.test_forged_records import forged
from spark_validation.tests.test_kip848_fold import story
from spark_validation.tests.test_watch_fleet import records

pytestmark = pytest.mark.exhaustive  # pure Python, and the same with every PySpark

NOW = 0.0
EVERYTHING = FleetLimits(max_groups=100_000)


@cache
def records_of(path: Path) -> tuple[Record, ...]:
    """The records in the order of a topic reader: each partition in order, one partition after the other."""
    return tuple(records(sorted(raw_rows(path), key=lambda row: (row["partition"], row["offset"]))))


def topics_of(path: Path) -> Catalogue:
    return catalogue_of(catalogue_rows(str(path)))


def fed(fleet: Fleet, records: Iterable[Record]) -> Iterator[Step]:
    for record in records:
        if (step := fleet.feed(record, NOW)) is not None:
            yield step


def watched(path: Path) -> tuple[Fleet, list[Step]]:
    fleet = Fleet(topics_of(path), EVERYTHING)
    return fleet, [*fed(fleet, records_of(path))]


MODE = Mode.ONE_STEP.value


def summed(steps: Iterable[Step]) -> dict[str, GroupSums]:
    """The sums that a replay of the recorded assignments alone makes of these steps."""
    found: dict[str, GroupSums] = defaultdict(GroupSums)
    for step in steps:
        for generation, causes in step.generations:
            found[generation.group].facts.add(generation)
            found[generation.group].causes.update(causes)
        for row in step.rebalances:
            found[row.group].add_row(row, MODE)
    return found


@pytest.fixture(params=["recorded", "forged", "kip848"])
def history(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    logs = {"forged": forged, "kip848": story}
    if request.param == "recorded":
        return HISTORY
    return Path(write_history(tmp_path, logs[request.param](), {"orders": 4}))


def test_what_the_watch_sees_is_what_the_replay_sees(history: Path) -> None:
    fleet, steps = watched(history)
    # At the end of a history a replay also tells of the hand-overs that are not finished.
    steps += [Step(rebalances=[*group.replay.finish()]) for group in fleet.groups.values()]
    here = summed(steps)
    every = sums_of(raw_rows(history), topics_of(history), strategies=(), modes=(Mode.ONE_STEP,))
    replayed = {group: sums for group, sums in every.items() if sums.facts.seen}
    assert replayed.keys() == here.keys()
    for group, there in replayed.items():
        found = replace(
            there, facts=here[group].facts, causes=here[group].causes, figures=here[group].figures
        )
        assert found == there
        assert here[group].not_replayed == there.not_replayed


def test_the_counts_are_the_sums_of_these_rows(history: Path) -> None:
    fleet, steps = watched(history)
    expected: Counter[tuple[str, str]] = Counter()
    for step in steps:
        for generation, causes in step.generations:
            expected[generation.group, "generations"] += 1
            expected.update((generation.group, f"cause {cause.value}") for cause in causes)
        for row in step.rebalances:
            expected[row.group, "rebalances"] += 1
            expected[row.group, "moved"] += 0 if row.measures is None else row.measures.moved
            expected[row.group, "least"] += 0 if row.measures is None else row.measures.least_moved
            expected[row.group, "unjudged"] += row.problem is not None
    found: Counter[tuple[str, str]] = Counter()
    for group in fleet.snapshot(NOW).groups:
        counts = group.counts
        found[group.group, "generations"] = counts.generations
        found[group.group, "rebalances"] = counts.rebalances
        found[group.group, "moved"] = counts.moved
        found[group.group, "least"] = counts.least_moved
        found[group.group, "unjudged"] = counts.unjudged
        found.update({(group.group, f"cause {cause}"): count for cause, count in counts.causes.items()})
    assert +found == +expected
    assert any(count for (_, what), count in found.items() if what == "moved")


def test_a_run_that_goes_on_from_the_state_of_another_counts_each_record_once(
    history: Path, tmp_path: Path
) -> None:
    every = records_of(history)
    whole, steps = watched(history)
    random_places = random.Random(4)
    cuts = sorted(random_places.sample(range(len(every)), min(4, len(every))))
    file = tmp_path / "state.json"
    fleet, pieces = Fleet(topics_of(history), EVERYTHING), []
    for begin, end in zip([0, *cuts], [*cuts, len(every)], strict=True):
        pieces += fed(fleet, every[begin:end])
        counts = {key: group.counts for key, group in fleet.groups.items()}
        save_state(file, WatchState("cluster", "topic", {0: end}, counts))
        loaded = load_state(file)
        assert loaded is not None
        assert loaded.offsets == {0: end}
        # The next run reads what is there to know the groups, and counts what comes then.
        fleet = Fleet(topics_of(history), EVERYTHING, counts=loaded.counts)
        for record in every[:end]:
            fleet.feed(record, NOW, history=True)
    is_same = pieces == steps  # not in the assertion: pytest would write out what differs, which is megabytes
    assert is_same
    assert summary(fleet) == summary(whole)


def summary(fleet: Fleet) -> FleetSnapshot:
    """The snapshot without the times of the latest generations, which the next run does not get."""
    found = fleet.snapshot(NOW)
    return replace(found, groups=[replace(group, recent=0) for group in found.groups])


def other_topics(log: Log, number: int) -> Log:
    """A generation of a classic group and one of a KIP-848 group, with a topic that no other one has."""
    topics = {"orders": ALL["orders"], f"job-{number}": (0,)}
    log.generation("classic", number, member("a", topics, gets=topics))
    listed = [TopicMetadata(topic_id(name), name, len(each)) for name, each in topics.items()]
    log.part("kip848", ConsumerGroupRecord.PARTITION_METADATA, PartitionMetadata(tuple(listed)))
    return log.assigns("kip848", number, {"a": topics}, a=new_member(topics))


def test_a_group_that_reads_new_topics_for_months_is_remembered_by_those_it_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(catalogue, "MOST_TOPICS", 10)
    log, topics = Log(), Catalogue(())
    for number in range(1, 100):
        other_topics(log, number)
    fleet = Fleet(topics, EVERYTHING)
    entries = [CatalogueEntry(None, Topic(f"job-{number}", 1)) for number in range(1, 100)]
    topics.set_entries([CatalogueEntry(None, Topic("orders", 4)), *entries])
    assert [*fed(fleet, records(log.records))][-1].generations[0][0].is_known
    classic, kip848 = fleet.groups[b"classic"], fleet.groups[b"kip848"]
    for known in (classic.causes, kip848.causes):
        assert len(known._partitions) <= 11
    assert max(len(kip848.life.epochs._names), len(kip848.life.epochs._partitions)) <= 12
    # The topic that the groups have read from the start is still known.
    topics.set_entries([CatalogueEntry(None, Topic("orders", 5)), *entries])
    more = Log()
    more.generation("classic", 100, member("a", gets={"orders": range(5)}))
    (step,) = fed(fleet, records(more.records))
    assert Cause.PARTITIONS_ADDED in step.generations[0][1]
