"""A replay from a path or a broker to a verdict, or to one clear error line."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from compat_tests.support.group_records import encode_key
from kafka_assignors_cli.files import parse_toml
from kafka_assignors_replay.engine import ENGINES
from kafka_assignors_replay.history.consumer_offsets import OffsetCommitKey
from kafka_assignors_replay.history.records import from_micros
from kafka_assignors_replay.policy import RuleOutcome, judge, read_policy
from kafka_assignors_replay.replay import run_replay
from kafka_assignors_replay.result import RECORDED, Mode, Progress, ReplayError, ReplayOptions, ReplayResult
from spark_validation.tests.groups import ALL, HIGH, LOW, Log, member, write_history
from spark_validation.tests.replaying import replay as run

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = ("range", "roundrobin", "sticky", "cooperative-sticky", "rack-aware-sticky")


SmallRun = tuple[ReplayResult, list[Progress]]


def small() -> Log:
    log = Log().generation("eager", 1, member("a", gets=ALL))
    log.generation("coop", 1, member("a", gets=ALL), protocol="cooperative-sticky")
    log.generation("eager", 2, member("a", gets=LOW), member("b", gets=HIGH))
    first = (member("a", gets=LOW, owned=ALL, generation=1), member("b"))
    log.generation("coop", 2, *first, protocol="cooperative-sticky")
    second = (member("a", gets=LOW, owned=LOW, generation=2), member("b", gets=HIGH))
    return log.generation("coop", 3, *second, protocol="cooperative-sticky")


@pytest.fixture(scope="module")
def small_run(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SmallRun:
    """The replay of `small`, with its progress reports."""
    path = write_history(tmp_path_factory.mktemp("small"), small(), {"orders": 4})
    seen: list[Progress] = []
    return run_replay(ReplayOptions(path=path), seen.append), seen


@pytest.fixture(scope="module")
def result(recorded: str) -> ReplayResult:
    """The replay of the repository's history; `test_engines` replays it on Spark."""
    return run(recorded)


# What a verdict says


def test_a_cooperative_hand_over_counts_as_one_rebalance_of_two_generations(small_run: SmallRun) -> None:
    found, _ = small_run
    by_group = {group.group: group for group in found.groups}
    assert (by_group["coop"].generations, by_group["coop"].rebalances) == (3, 2)
    assert by_group["coop"].rebalance_protocols == ("cooperative",)
    assert by_group["eager"].rebalance_protocols == ("eager",)
    recorded = {
        (verdict.group, verdict.moved, verdict.second_rounds)
        for verdict in found.verdicts
        if (verdict.strategy, verdict.mode) == (RECORDED, Mode.STEADY_STATE)
    }
    assert recorded == {("coop", 2, 1), ("eager", 2, 0)}


def test_causes_are_counted_and_clients_named(small_run: SmallRun) -> None:
    found, _ = small_run
    assert {each.group: each.causes.get("join") for each in found.groups}["eager"] == 2
    joined = {(each.group, each.joins, each.leaves) for each in found.culprits if each.client_id == "java-b"}
    assert joined == {("coop", 1, 0), ("eager", 1, 0)}


def test_every_group_has_a_verdict_for_each_strategy_in_each_mode(result: ReplayResult) -> None:
    judged = {group.group for group in result.groups if group.replayed_rebalances}
    verdicts = {(verdict.group, verdict.strategy, verdict.mode) for verdict in result.verdicts}
    assert verdicts == {
        (group, name, mode) for group in judged for name in (*NAMES, RECORDED) for mode in Mode
    }
    assert len(judged) >= 12


def test_sticky_strategies_move_the_least_there_is_to_move(result: ReplayResult) -> None:
    for verdict in result.verdicts:
        if verdict.strategy in ("sticky", "cooperative-sticky"):
            assert verdict.moved == verdict.least_moved
            assert verdict.failed == 0


def test_rack_aware_sticky_crosses_racks_as_rarely_as_can_be_and_none_more_rarely_at_that_balance(
    result: ReplayResult,
) -> None:
    in_racks = [verdict for verdict in result.verdicts if verdict.rack_misses is not None]
    assert {verdict.group for verdict in in_racks} >= {"billing", "payouts", "search"}
    for verdict in in_racks:
        assert verdict.least_rack_misses is not None
        if verdict.strategy == "rack-aware-sticky":
            assert verdict.rack_misses == verdict.least_rack_misses
        elif verdict.strategy in ("sticky", "cooperative-sticky"):
            assert (verdict.rack_misses or 0) >= verdict.least_rack_misses


def test_the_policy_of_the_documentation_holds_and_the_other_one_does_not(result: ReplayResult) -> None:
    for name, outcome in (("policy.toml", RuleOutcome.HOLDS), ("strict-policy.toml", RuleOutcome.VIOLATED)):
        policy = read_policy(parse_toml(EXAMPLES / name, (EXAMPLES / name).read_text(encoding="utf-8")))
        assert set(policy.strategies) <= set(NAMES)
        assert judge(policy, result).verdict is outcome


def test_all_that_was_recorded_is_accounted_for(result: ReplayResult) -> None:
    history_ = result.history
    assert history_.undecodable == 0
    assert history_.generations >= 300
    assert history_.kip848_groups == 1
    (of_kip848,) = [group for group in result.groups if group.rebalance_protocols == ("kip-848",)]
    assert of_kip848.group == "audit-trail"
    assert of_kip848.generations == of_kip848.replayed_rebalances == 56  # and one without members
    for group in result.groups:
        assert group.rebalances == group.replayed_rebalances + sum(group.not_replayed.values())
        assert group.inferred_topics == ()


def test_range_and_roundrobin_are_what_java_and_our_leaders_did(result: ReplayResult) -> None:
    assert result.truth.holds
    bound = [client for client in result.truth.clients if client.must_match]
    assert {client.client for client in bound} >= {"java", "aiokafka with kafka-assignors"}
    for client in bound:
        assert client.matched + sum(client.explained.values()) == client.checked > 0


def test_every_difference_of_another_client_is_explained(result: ReplayResult) -> None:
    assert [each for each in result.truth.differences if each.explanation is None] == []


def test_progress_names_each_phase_once_and_in_order(small_run: SmallRun) -> None:
    _, seen = small_run
    phases = list(dict.fromkeys((progress.number, progress.phase) for progress in seen))
    assert [number for number, _ in phases] == [1, 2, 3, 4, 5]
    assert {progress.phases for progress in seen} == {5}
    assert all(progress.done <= progress.total for progress in seen)


# Bad input


def test_a_path_that_does_not_exist_is_named() -> None:
    with pytest.raises(ReplayError, match="/no/such/history: there is no such file or directory"):
        run("/no/such/history")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_history_of_offset_commits_alone_has_nothing_in_it(
    spark: SparkSession, tmp_path: Path, engine: str
) -> None:
    log = Log().append(encode_key(OffsetCommitKey("g", "orders", 0)), b"")
    with pytest.raises(
        ReplayError, match="no generation of a consumer group; found 1 records that are offset commits"
    ):
        run(write_history(tmp_path, log), engine)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_record_cut_short_that_is_alone_is_named_with_its_reason(
    spark: SparkSession, tmp_path: Path, engine: str, strict: bool
) -> None:
    log = Log().generation("g", 1, member("a", gets=ALL))
    log.records[0]["value"] = log.records[0]["value"][:-3]
    with pytest.raises(ReplayError, match=r"1 record does not decode: partition 0 offset 0: \w") as caught:
        run(write_history(tmp_path, log), engine, strict=strict)
    assert "other records" not in str(caught.value)


def test_a_history_of_which_nothing_can_be_judged_is_an_error(tmp_path: Path) -> None:
    log = Log().generation("g", 9, member("a", gets=ALL))
    with pytest.raises(ReplayError, match=r"nothing to replay: .*the history starts in the middle"):
        run(write_history(tmp_path, log, {"orders": 4}), strategies=("range",))


def test_an_unknown_strategy_is_named_before_anything_starts() -> None:
    with pytest.raises(ReplayError, match="there is no strategy 'stiky': did you mean 'sticky'"):
        run("/no/such/history", strategies=("stiky",))


def test_an_unreachable_broker_is_said_in_one_line(spark: SparkSession) -> None:
    with pytest.raises(ReplayError, match=r"no answer from 127\.0\.0\.1:1 within 2 s") as error:
        run(engine=None, bootstrap_servers="127.0.0.1:1", timeout_seconds=2)
    assert "\n" not in str(error.value)


@pytest.mark.exhaustive
def test_parquet_without_a_catalogue_is_replayed_on_inferred_counts_and_says_so(tmp_path: Path) -> None:
    pq.write_table(small().table(), tmp_path / "part-0.parquet")
    found = run(tmp_path, strategies=("range",))
    assert {group.inferred_topics for group in found.groups} == {("orders",)}
    assert all(client.checked == 0 for client in found.truth.clients)


def test_times_are_aware_and_in_utc(small_run: SmallRun) -> None:
    found, _ = small_run
    assert found.history.first_timestamp == from_micros(1_772_323_200_000_000)
