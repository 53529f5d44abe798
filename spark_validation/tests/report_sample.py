"""A made-up replay result for the report's tests, with every kind of row and with hostile names."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

from kafka_assignors_replay import result
from kafka_assignors_replay.history.measures import Measures, Sums
from tests.hostile_names import NAMES

HOSTILE = NAMES["a script"]
BREAKING_OUT = NAMES["the end of a script"]
LINKING = NAMES["a link"]
GROUPS = ("payments", HOSTILE, BREAKING_OUT, LINKING)

STRATEGIES = ("range", "cooperative-sticky")

_START = datetime(2026, 3, 1, 12, 0, tzinfo=timezone.utc)


def verdict(
    group: str,
    strategy: str,
    mode: result.Mode = result.Mode.STEADY_STATE,
    *,
    moved: int = 0,
    max_over_mean: float = 1.0,
    load_stddev: float = 0.0,
    rack_misses: int | None = None,
    paused_s: float = 0.0,
    failed: int = 0,
    **figures: int,
) -> result.Verdict:
    """A verdict over ten rebalances."""
    return replace(
        Sums().verdict(group, strategy, mode),
        rebalances=10,
        generations=12,
        moved=moved,
        could_stay=100,
        stickiness=1 - moved / 100,
        max_over_mean=max_over_mean,
        worst_max_over_mean=max_over_mean * 1.5,
        max_minus_min=load_stddev * 2,
        worst_max_minus_min=round(load_stddev * 3),
        load_stddev=load_stddev,
        rack_misses=rack_misses,
        least_rack_misses=None if rack_misses is None else rack_misses // 2,
        vacated=6,
        paused_s=paused_s,
        paused_eager_s=240.0,
        paused_cooperative_s=None if strategy == "range" else paused_s,
        failed=failed,
        failures=(f"generation 3: KeyError: {HOSTILE}",) * bool(failed),
        **figures,
    )


def summary(group: str) -> result.GroupSummary:
    return result.GroupSummary(
        group=group,
        generations=12,
        rebalances=11,
        replayed_rebalances=10,
        not_replayed={"no catalogue entry for topic 'gone'": 1},
        causes={"join": 7, "leave": 5},
        incarnations=2,
        skipped_numbers=3,
        clock_jumps=1,
        protocols=("range",),
        rebalance_protocols=("eager",),
        clients=("java", HOSTILE),
        eager_clients=(),
        min_members=2,
        max_members=6,
        topics=("orders", BREAKING_OUT),
        max_partitions=24,
        first_timestamp=_START,
        last_timestamp=_START + timedelta(minutes=12),
        partition=17,
        first_offset=4_711,
        last_offset=90_210,
    )


def culprit(group: str, generations: int, *, deployments: int = 0) -> result.Culprit:
    """A client with a hostile name, or deployments of four members."""
    return result.Culprit(
        group=group,
        client_id=None if deployments else HOSTILE,
        client_host=None if deployments else BREAKING_OUT,
        instance_id=LINKING if group == LINKING and not deployments else None,
        deployments=deployments,
        members=4 if deployments else 1,
        joins=generations,
        leaves=generations,
        generations=generations,
        alone=generations - 1,
        first_timestamp=_START,
        last_timestamp=_START + timedelta(minutes=11),
    )


def measures(**figures: float) -> Measures:
    """The measures of a rebalance of 24 partitions without racks, under the broker's protocol."""
    usual = Measures(
        partitions=24,
        moved=0,
        least_moved=0,
        could_stay=24,
        min_load=3,
        max_load=6,
        max_over_mean=1.2,
        load_stddev=0.5,
        rounds=1,
        rack_misses=None,
        least_rack_misses=None,
        vacated=0,
        paused_s=5.0,
        paused_eager_s=None,
        paused_cooperative_s=None,
    )
    return usual._replace(**figures)


def sample(
    *, modes: tuple[result.Mode, ...] = tuple(result.Mode), groups: tuple[str, ...] = GROUPS
) -> result.ReplayResult:
    """A result of these groups; three of the four usual groups have names that try to run as code."""
    moved = {result.RECORDED: 40, "range": 40, "cooperative-sticky": 12}
    rows = [(group, name, mode) for group in groups for name in moved for mode in modes]
    return result.ReplayResult(
        options=result.ReplayOptions(
            path="history",
            strategies=STRATEGIES,
            modes=modes,
            client_config={"sasl.password": "opensesame"},
        ),
        history=result.HistorySummary(
            source=f"history of {HOSTILE}",
            records=1234,
            duplicates=1,
            groups=len(groups),
            generations=48,
            empty_generations=2,
            tombstones=1,
            kip848_records=7,
            kip848_groups=1,
            other_records=0,
            skipped_numbers=12,
            clock_jumps=2,
            undecodable=1,
            first_timestamp=_START,
            last_timestamp=_START + timedelta(minutes=12),
        ),
        groups=tuple(map(summary, groups)),
        verdicts=tuple(
            verdict(
                group,
                name,
                mode,
                moved=moved[name],
                least_moved=12,
                load_stddev=0.2 if name == "cooperative-sticky" else 1.0,
                max_over_mean=1.1 if name == "cooperative-sticky" else 1.6,
                second_rounds=4 * (name == "cooperative-sticky"),
                rack_misses={"payments": moved[name] // 2}.get(group),
                paused_s=32.5 if name == "cooperative-sticky" else 240.0,
                failed=int(group == LINKING and name == "range"),
            )
            for group, name, mode in rows
        ),
        culprits=(
            culprit("payments", 8),
            culprit(HOSTILE, 5),
            culprit(LINKING, 2),
            culprit(LINKING, 4, deployments=2),
        ),
        truth=result.TruthCheck(
            clients=(
                result.ClientAgreement("java", "range", True, 20, 20, 1, {}, 0),
                result.ClientAgreement(
                    "aiokafka", "range", False, 9, 7, 0, {"it saw 'orders' not yet": 1}, 1
                ),
            ),
            differences=(
                result.Difference(
                    HOSTILE, 3, 17, 5, "aiokafka", "range", "it saw 'orders' not yet", "m1 has orders-1"
                ),
                result.Difference(HOSTILE, 3, 21, 6, "aiokafka", "range", None, BREAKING_OUT),
            ),
        ),
        sample=(BREAKING_OUT,),
        undecodable=(result.UndecodableRecord(3, 99, BREAKING_OUT, "value: version 9 at byte 0"),),
        warnings=(f"topics of the history are hidden: {HOSTILE!r}",),
        versions={"kafka-assignors": "0.1.0", "python": "3.11"},
        seconds=12.3,
    )


def result_of(*verdicts: result.Verdict) -> result.ReplayResult:
    """A result with these verdicts alone."""
    strategies = tuple(dict.fromkeys(v.strategy for v in verdicts if v.strategy != result.RECORDED))
    groups = tuple(summary(group) for group in dict.fromkeys(v.group for v in verdicts))
    made = sample()
    options = replace(made.options, strategies=strategies)
    made = replace(made, options=options, groups=groups, verdicts=verdicts)
    return replace(made, culprits=())
