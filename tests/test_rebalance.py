"""One member, event by event: its actions, the partitions that it may deliver, the commits that it allows."""

from __future__ import annotations

import pytest

from kafka_assignors.rebalance import Settings, events
from kafka_assignors.rebalance.events import NO_MEMBERSHIP, Event, Membership, MembershipError
from kafka_assignors.rebalance.member import OutOfOrderError
from kafka_assignors.strategies import CooperativeSticky, Range
from tests.rebalance_driver import COOPERATIVE, EAGER, Driver, orders


class TestJoining:
    def test_a_new_member_joins_with_the_id_it_is_given_and_claims_nothing(self) -> None:
        driver = Driver()
        first = driver.join()
        assert (first.membership, first.owned) == (NO_MEMBERSHIP, frozenset())
        assert driver.tell(events.JoinFailed(first.attempt, MembershipError.OTHER, given_id="a")) == ()
        assert driver.join().membership == Membership("a", -1)

    def test_the_first_assignment_is_installed_and_announced(self) -> None:
        driver = Driver()
        driver.joined(1)
        assert driver.assigned(0, 1) == (events.Install(orders(0, 1)), events.Announce(orders(0, 1)))

    def test_nothing_added_is_announced_too(self) -> None:
        driver = Driver().owning(0)
        driver.tell(events.RejoinRequested("partitions were added"))
        driver.joined(2)
        assert driver.assigned(0) == (events.Install(orders(0)), events.Announce(frozenset()))

    def test_partitions_are_not_delivered_before_the_listener_has_returned(self) -> None:
        driver = Driver()
        driver.joined(1)
        driver.assigned(0)
        assert not driver.member.may_deliver(("orders", 0), driver.now)
        driver.tell(events.ListenerReturned())
        assert driver.member.may_deliver(("orders", 0), driver.now)

    def test_delivery_goes_on_through_a_join(self) -> None:
        driver = Driver().owning(0)
        assert driver.rejoin().owned == orders(0)
        assert driver.member.may_deliver(("orders", 0), driver.now)

    def test_the_answer_to_an_abandoned_join_is_not_taken_for_that_of_the_next(self) -> None:
        driver = Driver().owning()
        old = driver.rejoin()
        driver.heartbeat(MembershipError.UNKNOWN_MEMBER_ID)
        new = driver.join()
        assert driver.tell(events.Joined(old.attempt, Membership("a", 2))) == ()
        assert driver.tell(events.JoinFailed(old.attempt, MembershipError.OTHER, given_id="a")) == ()
        assert not driver.member.must_join
        membership = Membership("b", 3)
        assert driver.tell(events.Joined(new.attempt, membership)) == (events.SendSync(membership),)

    def test_an_assignment_of_an_older_subscription_is_not_installed(self) -> None:
        driver = Driver()
        driver.joined(1)
        driver.tell(events.SubscriptionChanged(frozenset({"payments"})))
        assert driver.assigned(0) == ()
        assert driver.member.must_join

    def test_a_subscription_changed_back_before_the_join_asks_for_none(self) -> None:
        driver = Driver().owning(0)
        driver.tell(events.SubscriptionChanged(frozenset({"payments"})))
        assert driver.member.must_join
        driver.tell(events.SubscriptionChanged(frozenset({"orders"})))
        assert not driver.member.must_join


def test_revoked_partitions_are_delivered_no_more_but_can_be_committed() -> None:
    driver = Driver().owning(0, 1)
    driver.rejoined(2)
    assert driver.assigned(0, 2) == (events.Revoke(orders(1)),)
    assert driver.member.deliverable == orders(0)
    driver.tell(events.CommitRequested(orders(1)))
    sent = (events.SendCommit(Membership("a", 2), orders(1)),)
    assert driver.tell(events.CommitsCanBeSent(orders(1))) == sent


class TestCallsThatWait:
    """What the listener is told is decided when its call begins."""

    def due(self) -> Driver:
        """A member of which partitions 2 and 3 are to be revoked, and whose user does not poll."""
        driver = Driver().owning(0, 1, 2, 3)
        driver.rejoined(2)
        driver.calls_at_once = False
        assert driver.assigned(0, 1) == (events.CallDue(orders(2, 3)),)
        return driver

    def test_partitions_lost_before_they_were_announced_are_not_told_of(self) -> None:
        driver = Driver().owning(0)
        driver.rejoined(2)
        driver.calls_at_once = False
        driver.assigned(0, 1)
        driver.heartbeat(MembershipError.UNKNOWN_MEMBER_ID)
        assert driver.tell(events.AboutToCall()) == (events.Install(orders(0)), events.Lose(orders(0)))
        assert driver.tell(events.ListenerReturned()) == (events.Install(frozenset()),)

    def test_a_first_assignment_lost_before_it_was_announced_is_not_told_of(self) -> None:
        driver = Driver()
        driver.joined(1)
        driver.calls_at_once = False
        driver.assigned(0, 1)
        driver.heartbeat(MembershipError.UNKNOWN_MEMBER_ID)
        assert driver.tell(events.AboutToCall()) == (events.Install(frozenset()),)
        assert driver.join().owned == frozenset()

    def test_the_word_counts_for_a_session(self) -> None:
        driver = self.due()
        driver.now += 46
        driver.heartbeat(MembershipError.NONE)
        driver.now += 46
        assert not driver.member.may_call(driver.now)
        driver.heartbeat(MembershipError.UNKNOWN_MEMBER_ID)
        assert driver.tell(events.AboutToCall()) == (events.Lose(orders(0, 1, 2, 3)),)

    def test_a_consumer_that_closes_waits_for_no_word(self) -> None:
        driver = self.due()
        driver.now += 46
        driver.tell(events.CloseRequested())
        assert driver.tell(events.AboutToCall()) == (events.Revoke(orders(2, 3)),)

    def test_a_call_that_cannot_begin_is_an_error(self) -> None:
        driver = self.due()
        with pytest.raises(OutOfOrderError, match="running"):
            driver.tell(events.ListenerReturned())
        driver.tell(events.AboutToCall())
        with pytest.raises(OutOfOrderError, match="can begin"):
            driver.tell(events.AboutToCall())


class TestLoss:
    @pytest.mark.parametrize(
        ("answer", "member_id"),
        [(MembershipError.UNKNOWN_MEMBER_ID, ""), (MembershipError.ILLEGAL_GENERATION, "a")],
    )
    def test_losing_the_session_stops_delivery_at_once_and_drops_all_claims(
        self, answer: MembershipError, member_id: str
    ) -> None:
        driver = Driver().owning(0)
        assert driver.heartbeat(answer) == ()
        assert driver.member.deliverable == frozenset()
        assert driver.tell(events.AboutToJoin(COOPERATIVE)) == (events.Lose(orders(0)),)
        _, request = driver.tell(events.ListenerReturned())
        assert isinstance(request, events.SendJoin)
        assert (request.membership, request.owned) == (Membership(member_id, -1), frozenset())

    def test_a_generation_refused_during_a_join_is_a_loss_if_the_join_fails(self) -> None:
        driver = Driver().owning(0)
        request = driver.rejoin()
        driver.heartbeat(MembershipError.ILLEGAL_GENERATION)
        driver.tell(events.JoinFailed(request.attempt, MembershipError.OTHER))
        assert not driver.member.in_group

    def test_a_heartbeat_error_of_an_earlier_generation_is_ignored(self) -> None:
        driver = Driver().owning(0, generation=2)
        driver.tell(
            events.HeartbeatAnswered(Membership("a", 1), MembershipError.UNKNOWN_MEMBER_ID, driver.now)
        )
        assert driver.member.in_group

    def test_a_fenced_member_fails_for_good(self) -> None:
        driver = Driver().owning(0)
        (fail,) = driver.heartbeat(MembershipError.FENCED_INSTANCE_ID)
        assert isinstance(fail, events.Fail)
        assert not driver.member.must_join
        assert driver.tell(events.CloseRequested()) == (events.Lose(orders(0)),)


class TestLease:
    def test_the_lease_ends_a_session_timeout_after_the_last_request_was_sent(self) -> None:
        driver = Driver().owning(0)
        assert driver.member.has_lease(driver.now + 44)
        assert not driver.member.has_lease(driver.now + 45)

    def test_the_lease_returns_with_a_response_that_proves_the_coordinator_knows_the_member(self) -> None:
        driver = Driver().owning(0)
        driver.now += 60
        assert not driver.member.has_lease(driver.now)
        driver.heartbeat(MembershipError.REBALANCE_IN_PROGRESS)
        assert driver.member.may_deliver(("orders", 0), driver.now)

    def test_a_heartbeat_answered_ok_that_comes_too_late_to_say_anything_costs_no_rebalance(self) -> None:
        driver = Driver().owning(0)
        sent_at, driver.now = driver.now + 3, driver.now + 60
        driver.heartbeat(MembershipError.NONE, sent_at)
        assert not driver.member.must_join

    def test_heartbeats_answered_ok_do_not_extend_it_past_the_time_for_sync_group(self) -> None:
        # The coordinator answers OK until it removes a member whose SyncGroup is late.
        driver = Driver().owning(0)
        driver.rejoined(2)
        for _ in range(99):
            driver.now += 3
            driver.heartbeat(MembershipError.NONE)
            assert driver.member.has_lease(driver.now)
        driver.now += 3
        driver.heartbeat(MembershipError.NONE)
        assert not driver.member.has_lease(driver.now)


class TestPollInterval:
    def test_exceeding_it_leaves_the_group_and_loses_the_partitions(self) -> None:
        driver = Driver().owning(0)
        (leave,) = driver.tell(events.PollIntervalChecked(polled_at=driver.now - 301))
        assert leave == events.SendLeave("a", "max.poll.interval.ms was exceeded")
        assert driver.member.deliverable == frozenset()

    def test_a_user_who_polls_in_time_notices_nothing(self) -> None:
        driver = Driver().owning(0)
        before = driver.member
        assert driver.tell(events.PollIntervalChecked(polled_at=driver.now - 300)) == ()
        assert driver.member == before


class TestClose:
    def test_a_join_that_is_under_way_goes_on_for_what_is_committed_meanwhile(self) -> None:
        driver = Driver().owning(0)
        request = driver.rejoin()
        assert driver.tell(events.CloseRequested()) == (events.Revoke(orders(0)),)
        old, new = driver.member.membership, Membership("a", 2)
        driver.tell(events.CommitRequested(orders(0)))
        assert driver.tell(events.CommitsCanBeSent(orders(0))) == (events.SendCommit(old, orders(0)),)
        assert driver.tell(events.Joined(request.attempt, new)) == (events.SendSync(new),)
        driver.tell(events.CommitAnswered(old, MembershipError.ILLEGAL_GENERATION, orders(0)))
        assert not driver.member.can_commit
        driver.assigned(0, 1)
        assert driver.tell(events.CommitsCanBeSent(orders(0))) == (events.SendCommit(new, orders(0)),)
        driver.tell(events.CommitAnswered(new, MembershipError.NONE))
        assert driver.tell(events.ListenerReturned()) == (
            events.Install(frozenset()),
            events.SendLeave("a", "the consumer is being closed"),
        )
        assert not driver.member.deliverable

    def test_closing_leaves_by_a_member_id_that_is_given_while_partitions_are_revoked(self) -> None:
        driver = Driver().owning(0)
        request = driver.rejoin()
        driver.tell(events.CloseRequested())
        assert driver.tell(events.JoinFailed(request.attempt, MembershipError.OTHER, given_id="b")) == ()
        assert driver.tell(events.ListenerReturned())[-1] == events.SendLeave(
            "b", "the consumer is being closed"
        )

    def test_a_member_that_unsubscribes_during_a_join_commits_as_well(self) -> None:
        driver = Driver().owning(0)
        membership = driver.rejoined(2)
        assert driver.tell(events.SubscriptionChanged(frozenset())) == (events.Revoke(orders(0)),)
        assert driver.tell(events.CommitRequested(orders(0))) == ()
        driver.assigned(0)
        assert driver.tell(events.CommitsCanBeSent(orders(0))) == (events.SendCommit(membership, orders(0)),)

    def test_a_static_member_stays_in_the_group(self) -> None:
        driver = Driver(Settings(45, 300, 300, static=True)).owning(0)
        driver.tell(events.CloseRequested())
        assert driver.tell(events.ListenerReturned()) == (events.Install(frozenset()),)

    def test_unsubscribing_leaves_and_a_new_subscription_joins_again(self) -> None:
        driver = Driver().owning(0)
        assert driver.tell(events.SubscriptionChanged(frozenset())) == (events.Revoke(orders(0)),)
        assert driver.tell(events.ListenerReturned())[-1] == events.SendLeave("a", "the user unsubscribed")
        assert not driver.member.must_join
        driver.tell(events.SubscriptionChanged(frozenset({"orders"})))
        assert driver.join().membership == NO_MEMBERSHIP


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ([events.AboutToJoin(COOPERATIVE)], "AboutToJoin"),
        ([events.ListenerReturned()], "no call of the listener"),
        ([events.Assigned(Membership("a", 1), orders(0), 1000.0)], "was not asked for"),
        ([events.CommitAnswered(Membership("a", 1), MembershipError.NONE)], "no commit was sent"),
        ([events.CloseRequested()] * 2, "second time"),
    ],
)
def test_an_event_that_cannot_have_happened_is_an_error(told: list[Event], message: str) -> None:
    driver = Driver().owning(0)
    for event in told[:-1]:
        driver.tell(event)
    with pytest.raises(OutOfOrderError, match=message):
        driver.tell(told[-1])


def test_an_eager_strategy_makes_the_member_eager() -> None:
    assert events.common_protocol([CooperativeSticky()]) is COOPERATIVE
    assert events.common_protocol([CooperativeSticky(), Range()]) is EAGER


class TestAnAssignmentThatDoesNotFit:
    """The leader assigned partitions that the member cannot take."""

    def misfit(self, driver: Driver, generation: int, *partitions: int) -> None:
        membership = driver.joined(generation)
        driver.tell(events.Assigned(membership, orders(*partitions), driver.now, fits=False))
        while driver.member.call is not None:
            driver.tell(events.ListenerReturned())

    def pause(self, driver: Driver) -> float:
        """The seconds until the member joins again."""
        since = driver.now
        while not driver.member.must_join:
            driver.now += 0.5
            driver.tell(events.PollIntervalChecked(polled_at=driver.now))
        return driver.now - since

    def test_the_member_joins_again_after_ever_longer_pauses(self) -> None:
        driver = Driver()
        pauses = []
        for generation in range(1, 14):
            self.misfit(driver, generation, 0)
            assert not driver.member.must_join
            pauses.append(self.pause(driver))
        assert pauses == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300, 300]

    def test_an_assignment_that_fits_resets_the_pause(self) -> None:
        driver = Driver()
        self.misfit(driver, 1, 0)
        self.pause(driver)
        self.misfit(driver, 2, 0)
        self.pause(driver)
        driver.owning(0, generation=3)
        driver.now += 1000
        driver.tell(events.PollIntervalChecked(polled_at=driver.now))
        assert not driver.member.must_join
        driver.tell(events.RejoinRequested("a test"))
        self.misfit(driver, 4, 0)
        assert self.pause(driver) == 1

    def test_a_join_for_another_reason_is_not_followed_by_one_more(self) -> None:
        driver = Driver()
        self.misfit(driver, 1, 0)
        driver.tell(events.RejoinRequested("a test"))
        driver.owning(0, generation=2)
        driver.now += 10
        driver.tell(events.PollIntervalChecked(polled_at=driver.now))
        assert not driver.member.must_join

    def test_a_member_that_is_being_closed_does_not_join_again(self) -> None:
        driver = Driver()
        self.misfit(driver, 1, 0)
        driver.tell(events.CloseRequested())
        driver.now += 10
        driver.tell(events.PollIntervalChecked(polled_at=driver.now))
        assert not driver.member.join.reason


class TestLog:
    @pytest.mark.parametrize(
        ("partitions", "text"),
        [
            ([], "none"),
            ([("orders", 3)], "orders 3"),
            ([("orders", 7), ("orders", 0), ("orders", 2), ("orders", 1)], "orders 0-2, 7"),
            ([("payments", 10), ("orders", 9), ("payments", 9)], "orders 9; payments 9-10"),
            ([("a\nb", 0)], r"'a\nb' 0"),
        ],
    )
    def test_partitions_are_short_in_one_line(self, partitions: list[tuple[str, int]], text: str) -> None:
        assert events.in_log(events.Announce(frozenset()), frozenset(partitions)) == f"added: {text}"
