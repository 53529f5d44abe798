"""Warm handoff: what the leader holds and lists, what a member warms, and the bytes between them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from kafka_assignors import leader as leader_module
from kafka_assignors.assignor import Assignor
from kafka_assignors.group import Assignment, Group, Member, Topic, TopicPartitions, Warmth
from kafka_assignors.handoff import LISTED_BYTES, Handoff
from kafka_assignors.leader import LeaderResult, lead
from kafka_assignors.messages import LastAssignment, read_assignment
from kafka_assignors.rebalance.events import Membership, RejoinRequested
from kafka_assignors.rebalance.warming import Warming
from kafka_assignors.strategies import CooperativeSticky, Strategy
from kafka_assignors.strategy import RebalanceProtocol
from kafka_assignors.wire import ConsumerAssignment, decode_member, encode_assignment
from kafka_assignors.wire.warm_sections import Unit, WarmList, read_warm_list, warm_list_bytes, warmth_bytes
from kafka_assignors_strategies import CoPartitioned
from tests import warm_simulation
from tests.warm_simulation import STRATEGIES, Broken, Options, simulate

COOPERATIVE = RebalanceProtocol.COOPERATIVE


def of(topic: str, *numbers: int) -> dict[str, tuple[int, ...]]:
    return {topic: numbers} if numbers else {}


def member(
    name: str, owned: TopicPartitions, warmth: Warmth | None, *topics: str, generation: int = 5
) -> Member:
    return Member(name, topics or ("t",), owned=owned, generation=generation, warmth=warmth)


def led(*members: Member, partitions: int = 4, strategy: Any = None) -> LeaderResult:
    names = {topic for one in members for topic in one.topics}
    group = Group.of([Topic(name, partitions) for name in sorted(names)], members, 6)
    return lead(strategy or CooperativeSticky(), group, COOPERATIVE)


WARMS = Warmth(max_warming=2, generation=5)


def ready(*numbers: int, warming: Iterable[int] = (), generation: int = 5) -> Warmth:
    return Warmth(2, False, generation, 0, of("t", *warming), of("t", *numbers))


def units(result: LeaderResult, name: str) -> tuple[Unit, ...]:
    return result.lists[name].units


# ---- the leader


def test_a_member_without_a_callback_waits_for_the_revocation_alone() -> None:
    result = led(member("a", of("t", 0, 1, 2, 3), WARMS), member("b", {}, Warmth(generation=5)))
    assert result.assignment.members == {"a": {"t": [0, 1]}, "b": {}}
    assert units(result, "b") == ((("t", 2),), (("t", 3),))


def test_a_partition_without_a_live_owner_is_never_held() -> None:
    result = led(member("a", of("t", 0, 1), WARMS), member("b", {}, WARMS))
    assert result.assignment.members == {"a": {"t": [0, 1]}, "b": {"t": [2, 3]}}


def test_a_free_partition_goes_to_the_member_that_has_it_ready() -> None:
    sticky = led(member("a", of("t", 0, 1), ready(3)), member("b", of("t", 2), WARMS), member("c", {}, WARMS))
    assert 3 in sticky.assignment.members["a"]["t"]


def test_of_two_members_that_warm_a_partition_the_one_with_the_later_list_gets_it() -> None:
    owners = [member("a", of("t", 0, 1, 2, 3), WARMS)]
    result = led(*owners, member("b", {}, ready(2, generation=3)), member("c", {}, ready(warming=[2])))
    assert (("t", 2),) in units(result, "c")


@pytest.mark.parametrize("generation", [6, 7, 2**31 - 1])
def test_facts_of_a_generation_that_the_group_has_not_reached_are_false(generation: int) -> None:
    lying = ready(0, 1, 2, 3, generation=generation)
    result = led(member("a", of("t", 0, 1, 2, 3), WARMS), member("b", {}, lying))
    assert result.assignment.members["a"] == {"t": [0, 1, 2, 3]}


def test_facts_about_what_does_not_exist_are_left_out() -> None:
    facts = Warmth(2, False, 5, 0, {"u": (0,), "t": (99, -1)}, {"t": (77,)})
    result = led(member("a", of("t", 0, 1, 2, 3), WARMS), member("b", {}, facts))
    assert len(units(result, "b")) == 2


def test_a_member_that_claims_everything_ready_gets_its_share_and_no_more() -> None:
    result = led(member("a", of("t", 0, 1, 2, 3), WARMS), member("b", {}, ready(0, 1, 2, 3)))
    assert {name: result.target.load(name) for name in ("a", "b")} == {"a": 2, "b": 2}


def test_a_member_that_drains_hands_over_what_another_one_can_take() -> None:
    drains = Warmth(2, draining=True, generation=5)
    result = led(member("a", {"t": (0, 1), "u": (0,)}, drains, "t", "u"), member("b", of("t", 2, 3), WARMS))
    assert result.target.members == {"a": {"u": [0, 1, 2, 3]}, "b": {"t": [0, 1, 2, 3]}}
    assert units(result, "b") == ((("t", 0),), (("t", 1),))


def test_a_member_that_has_drained_takes_nothing_of_the_last_one_that_drains() -> None:
    drains = Warmth(2, draining=True, generation=5)
    result = led(member("a", {}, drains), member("b", of("t", 0, 1, 2, 3), drains))
    assert result.target.members == {"a": {}, "b": {"t": [0, 1, 2, 3]}}
    assert units(result, "a") == ()


def test_a_unit_moves_as_a_whole() -> None:
    strategy = CoPartitioned([["t", "u"]])
    half = Warmth(2, False, 5, 0, {"u": (1,)}, {"t": (1,)})
    owner = member("a", {"t": (0, 1), "u": (0, 1)}, WARMS, "t", "u")
    result = led(owner, member("b", {}, half, "t", "u"), partitions=2, strategy=strategy)
    assert result.assignment.members["a"] == {"t": [0, 1], "u": [0, 1]}
    assert units(result, "b") == ((("t", 1), ("u", 1)),)


@pytest.mark.parametrize("units_of", [[(0, 1), (1, 2)], [(1, 2), (0, 1)], [(0, 0, 1)]], ids=str)
@pytest.mark.parametrize("facts", [WARMS, ready(0, 1), ready(0, 1, 2), ready(1, warming=[2])], ids=str)
def test_units_that_overlap_give_each_partition_once(units_of: Any, facts: Warmth) -> None:
    class Overlapping(TakesAll):
        def units(self, group: Group) -> Any:
            return [[("t", number) for number in unit] for unit in units_of]

    result = led(
        member("a", of("t", 0, 1, 2), WARMS), member("b", {}, facts), partitions=3, strategy=Overlapping()
    )
    given = [*result.assignment.members["a"].get("t", ()), *result.withheld.get("b", {}).get("t", ())]
    assert sorted(given) == [0, 1, 2]


class TakesAll(Strategy):
    """The last member gets everything."""

    name = "takes-all"

    def assign(self, group: Group) -> Assignment:
        *others, last = sorted(group.members)
        everything = {topic.name: [*range(topic.partitions)] for topic in group.topics.values()}
        return Assignment({other: {} for other in others} | {last: everything})


def test_what_a_member_owns_of_a_unit_is_not_warmed_again() -> None:
    owner = member("a", {"t": (0, 1), "u": (0, 1, 2, 3)}, WARMS, "t", "u")
    half = member("b", of("t", 2, 3), WARMS, "t", "u")
    result = led(owner, half, strategy=CoPartitioned([["t", "u"]]))
    assert units(result, "b") == ((("u", 2),), (("u", 3),))


def test_what_a_member_gets_of_a_unit_at_once_is_not_warmed() -> None:
    owner, warms = member("a", of("t", 0, 1, 2, 3), WARMS, "t", "u"), member("b", {}, WARMS, "t", "u")
    result = led(owner, warms, strategy=CoPartitioned([["t", "u"]]))
    assert result.assignment.members["b"] == {"u": [2, 3]}
    assert units(result, "b") == ((("t", 2),), (("t", 3),))


class AsksTwice(Strategy):
    """Gives another answer each time it is asked about an equal group."""

    name = "asks-twice"
    asked = 0

    def assign(self, group: Group) -> Assignment:
        self.asked += 1
        target = CooperativeSticky().assign(group)
        shares = [*target.members.values()]
        shares = shares if self.asked % 2 else shares[::-1]
        return Assignment(dict(zip(target.members, shares, strict=True)))


def test_a_plan_is_kept_while_it_is_carried_out_and_given_up_when_a_fact_changes() -> None:
    strategy = AsksTwice()
    first = led(member("a", of("t", 0, 1, 2, 3), WARMS), member("b", {}, WARMS), strategy=strategy)
    listed = [number for unit in units(first, "b") for _, number in unit]
    echo = first.lists["a"].plan
    assert echo == first.lists["b"].plan != 0
    owner = member("a", of("t", 0, 1, 2, 3), Warmth(2, False, 5, echo))
    warming = Warmth(2, False, 5, echo, of("t", *listed))
    again = led(owner, member("b", {}, warming), strategy=strategy)
    assert strategy.asked == 1
    assert again.target.members == first.target.members
    led(owner, member("b", {}, warming), member("c", {}, None), strategy=strategy)
    assert strategy.asked == 2
    partial = Warmth(2, False, 5, echo, of("t", *listed[:1]))
    led(owner, member("b", {}, partial), strategy=strategy)
    assert strategy.asked == 3


def test_lists_are_bounded_and_begin_with_what_has_begun() -> None:
    many = range(100_000)
    last = Warmth(2, False, 5, 0, of("t", 99_999))
    result = led(member("a", {"t": many}, WARMS), member("b", {}, last), partitions=100_000)
    listed = units(result, "b")
    assert listed[0] == (("t", 99_999),)
    assert 1 < len(listed) < 50_000
    assert len(warm_list_bytes(result.lists["b"])) <= LISTED_BYTES


@pytest.mark.parametrize("echo", [None, Warmth(generation=5, plan=7, ready=of("t", 2))])
def test_if_no_member_warms_the_result_is_as_before_and_nothing_is_listed(echo: Warmth | None) -> None:
    result = led(member("a", of("t", 0, 1, 2, 3), None), member("b", {}, echo))
    assert result.assignment.load("a") == 2
    assert result.lists == {}


# ---- a member


def a(number: int) -> Unit:
    return (("t", number),)


def test_a_member_warms_so_many_at_a_time_and_reports_each_once() -> None:
    warming, gone = Warming(2).assigned(5, WarmList(7, (a(0), a(1), a(2))), frozenset())
    assert gone == frozenset()
    warming, begun = warming.begin()
    assert begun == (a(0), a(1))
    warming, more = warming.ended(a(0)).begin()
    assert more == (a(2),)
    assert warming.unreported == {a(0)}
    warming, warmth = warming.joining()
    assert warmth == Warmth(2, False, 5, 7, {"t": [1, 2]}, {"t": [0]})
    assert not warming.unreported
    assert not warming.is_warm


def test_what_is_assigned_ends_and_what_is_not_listed_any_more_is_cancelled() -> None:
    warming, _ = Warming(3).assigned(5, WarmList(7, (a(0), a(1), a(2))), frozenset())
    warming, _ = warming.begin()
    warming, gone = warming.assigned(6, WarmList(8, (a(2),)), frozenset(a(0)))
    assert gone == warming.cancelled == {a(1)}
    again, _ = warming.assigned(7, WarmList(9, (a(1), a(2))), frozenset())
    again = again.ended(a(1))
    assert a(1) not in again.ready
    assert again.begin()[1] == (a(1),)


def test_a_unit_of_another_shape_waits_for_the_end_of_the_one_that_runs() -> None:
    both = (("t", 0), ("u", 0))
    warming, _ = Warming(2).assigned(5, WarmList(7, (both,)), frozenset())
    warming, _ = warming.begin()
    warming, gone = warming.assigned(6, WarmList(8, (a(0), a(1))), frozenset())
    assert gone == {both}
    warming, begun = warming.begin()
    assert begun == (a(1),)
    assert warming.ended(both).begin()[1] == (a(0),)


def test_an_assignment_without_a_list_cancels_nothing() -> None:
    warming, _ = Warming(3).assigned(5, WarmList(7, (a(0), a(1))), frozenset())
    after, gone = warming.assigned(6, None, frozenset(a(0)))
    assert gone == frozenset()
    assert after.listed == (a(1),)


def test_a_member_without_a_callback_echoes_its_last_list() -> None:
    assert Warming().joining()[1] is None
    warming, _ = Warming().assigned(5, WarmList(7, (a(0),)), frozenset())
    assert warming.begin()[1] == ()
    assert warming.joining()[1] == Warmth(0, False, 5, 7, {}, {"t": [0]})
    assert warming.assigned(6, None, frozenset())[0].joining()[1] is None


# ---- bytes


def subscription(warmth: Warmth | None) -> bytes:
    return Assignor(CooperativeSticky()).subscription_with(
        LastAssignment({"t": [0]}, 5), ["t"], None, held=True, warmth=warmth
    )


WARMTH = Warmth(4, True, 5, 2**63 + 1, {"t": (1, 2)}, {"u": (3,)})


def test_what_a_member_announces_arrives() -> None:
    read = decode_member(CooperativeSticky(), "a", subscription(WARMTH))
    assert read.warmth == WARMTH
    assert decode_member(CooperativeSticky(), "a", subscription(None)).warmth is None


def test_a_section_that_does_not_decode_costs_the_member_nothing_else() -> None:
    whole = subscription(WARMTH)
    plain = decode_member(CooperativeSticky(), "a", subscription(None))
    section = warmth_bytes(WARMTH)
    start = whole.index(section)
    rng = random.Random(1)
    for _ in range(2_000):
        broken = bytearray(whole)
        broken[start + rng.randrange(len(section))] = rng.randrange(256)
        read = decode_member(CooperativeSticky(), "a", bytes(broken))
        assert (read.owned, read.generation, read.topics) == (plain.owned, plain.generation, plain.topics)


def assigned(user_data: bytes) -> WarmList | None:
    data = encode_assignment(ConsumerAssignment(0, {"t": [0]}, user_data))
    own = read_assignment(data, "leader", frozenset({"t", "u"}), {"t": 9, "u": 9}.get)
    assert own.partitions == {"t": [0]}
    assert own.findings == ()
    return own.warm


LIST = WarmList(2**63 + 1, (a(1), a(2), (("t", 3), ("u", 3))))


def test_a_list_arrives_without_units_of_topics_that_are_not_subscribed_and_of_negative_numbers() -> None:
    foreign = ((("v", 1),), (("t", 4), ("v", 4)), a(-1))
    assert assigned(warm_list_bytes(WarmList(LIST.plan, LIST.units + foreign))) == LIST


def test_a_list_of_partitions_that_do_not_exist_is_cut_off() -> None:
    warm = assigned(warm_list_bytes(WarmList(7, tuple(map(a, range(100_000))))))
    assert warm is not None
    assert [*warm.units] == [*map(a, range(9 + 1000))]


@pytest.mark.parametrize("user_data", [b"", b"\0", b"\x01other", b"\x02", b"\x02" + bytes(8) + b"\xff" * 8])
def test_user_data_of_another_kind_are_no_list(user_data: bytes) -> None:
    assert assigned(user_data) is None


def test_no_bytes_of_a_list_make_an_assignment_fail() -> None:
    whole = warm_list_bytes(LIST)
    rng = random.Random(2)
    for length in range(len(whole)):
        assert read_warm_list(whole[:length]) is None
    for _ in range(2_000):
        broken = bytearray(whole)
        broken[rng.randrange(len(whole))] = rng.randrange(256)
        assigned(bytes(broken))


# ---- all of it


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_groups_come_to_rest_on_the_target_of_their_strategy(strategy: str) -> None:
    found = simulate(range(3), Options(strategy, changes=10))
    assert found.counts["changed"] == 0
    assert found.counts["held"] > 0
    assert all(generations <= 4 + 2 * begun for generations, begun in found.generations)
    assert found.thrown_away_s <= 0.05 * found.warmed_s


@pytest.mark.parametrize(
    "options",
    [
        Options(burst=4, changes=10),
        Options(burst=4, changes=10, garbled=0.3),
        Options("weighted", burst=4, changes=10, noise=1.0),
        Options("copartitioned", burst=4, changes=10, max_warming=1, with_callback=1.0),
    ],
    ids=["bursts", "garbled", "noise", "units"],
)
def test_bursts_garbled_facts_and_noise_break_no_promise(options: Options) -> None:
    simulate(range(3), options)


class NothingCounts(Handoff):
    """The strategy is asked about the real group."""

    @classmethod
    def of(cls, strategy: Any, group: Group) -> Handoff | None:
        made = super().of(strategy, group)
        return (
            None
            if made is None
            else cls(group, made.ready, made.warming, made.heirs, frozenset(), strategy, group)
        )


class ForgetsWhatIsReady(Handoff):
    """A unit that is ready and withheld is not listed."""

    def lists(self, target: Assignment, moves: Any, assignment: Assignment) -> Mapping[str, WarmList]:
        listed = super().lists(target, moves, assignment)
        return {
            name: WarmList(
                one.plan, tuple(u for u in one.units if not self.ready.get(name, frozenset()).issuperset(u))
            )
            for name, one in listed.items()
        }


class WithholdsFirst(Handoff):
    """What moves is withheld at once, although its next owner is not ready."""

    def hold(self, target: Assignment, units: Any) -> tuple[Assignment, Mapping[str, tuple[Unit, ...]], int]:
        _, moves, waiting = super().hold(target, units)
        return target, moves, waiting


class ReportsAgain(warm_simulation.Process):
    """A member that takes what its owner still revokes for a report that the leader has overlooked."""

    def assigned(self, membership: Membership, data: bytes, leader: str, topics: frozenset[str]) -> None:
        reported = self.warming.reported
        super().assigned(membership, data, leader, topics)
        if not reported.isdisjoint(self.warming.listed):
            self.run.after(5.0, lambda: self.again(membership))

    def again(self, membership: Membership) -> None:
        if self.machine.membership == membership:
            self.tell(RejoinRequested("partitions are warm"))


def test_a_member_that_repeats_a_report_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_simulation, "Process", ReportsAgain)
    with pytest.raises(Broken, match="has nothing new to tell, and joins: partitions are warm"):
        simulate(range(5), Options(changes=10))


@pytest.mark.parametrize("mutant", [NothingCounts, ForgetsWhatIsReady, WithholdsFirst])
def test_a_leader_that_breaks_a_rule_is_caught(
    mutant: type[Handoff], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leader_module, "Handoff", mutant)
    try:
        found = simulate(range(5), Options(burst=2, changes=10))
    except Broken:
        return
    assert found.counts["changed"] or found.thrown_away_s > 0.05 * found.warmed_s
