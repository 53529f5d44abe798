"""One member, event by event: what it does, what it may deliver, which commits it lets through."""

from __future__ import annotations

import pytest

from kafka_assignors.rebalance import Member, OutOfOrderError, Settings, common_protocol
from kafka_assignors.rebalance.values import (
    NOBODY,
    AboutToJoin,
    Action,
    Announce,
    Answer,
    Assigned,
    Checked,
    CloseRequested,
    CommitAbandoned,
    CommitAnswered,
    CommitDone,
    CommitRefused,
    CommitRequested,
    Event,
    Fail,
    HeartbeatAnswered,
    Install,
    Joined,
    JoinFailed,
    ListenerReturned,
    Lose,
    Membership,
    Partitions,
    Polled,
    RejoinRequested,
    Revoke,
    SendCommit,
    SendJoin,
    SendLeave,
    SendSync,
    SubscriptionChanged,
    SyncFailed,
)
from kafka_assignors.strategies import CooperativeSticky, Range
from kafka_assignors.strategies.contract import RebalanceProtocol

COOPERATIVE, EAGER = RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER
SETTINGS = Settings(session_timeout=45, rebalance_timeout=300, max_poll_interval=300)


def orders(*partitions: int) -> Partitions:
    return frozenset(("orders", partition) for partition in partitions)


class Driver:
    """What an adapter is to the machine: it keeps the member and collects what there is to do."""

    def __init__(self, settings: Settings = SETTINGS, protocol: RebalanceProtocol = COOPERATIVE) -> None:
        self.member = Member(settings)
        self.protocol = protocol
        self.now = 1000.0
        self.tell(SubscriptionChanged(frozenset({"orders"})))

    def tell(self, event: Event) -> tuple[Action, ...]:
        self.member, actions = self.member.handle(event, self.now)
        return actions

    def join(self) -> SendJoin:
        """Go to JoinGroup; no listener call may be due before."""
        (request,) = self.tell(AboutToJoin(self.protocol))
        assert isinstance(request, SendJoin)
        return request

    def joined(self, generation: int, member_id: str = "a") -> Membership:
        """Through JoinGroup to SyncGroup."""
        request = self.join()
        membership = Membership(member_id, generation)
        assert self.tell(Joined(request.attempt, membership)) == (SendSync(membership),)
        return membership

    def assigned(self, *partitions: int) -> tuple[Action, ...]:
        return self.tell(Assigned(self.member.membership, orders(*partitions), self.now))

    def owning(self, *partitions: int, generation: int = 1) -> Driver:
        self.joined(generation)
        self.assigned(*partitions)
        self.tell(ListenerReturned())
        return self

    def heartbeat(self, answer: Answer, sent_at: float | None = None) -> tuple[Action, ...]:
        at = self.now if sent_at is None else sent_at
        return self.tell(HeartbeatAnswered(self.member.membership, answer, at))


class TestJoining:
    def test_a_new_member_joins_with_the_id_it_is_given_and_claims_nothing(self) -> None:
        driver = Driver()
        first = driver.join()
        assert (first.membership, first.owned) == (NOBODY, frozenset())
        assert driver.tell(JoinFailed(first.attempt, Answer.OTHER, given_id="a")) == ()
        assert driver.join().membership == Membership("a", -1)

    def test_the_first_assignment_is_installed_and_announced(self) -> None:
        driver = Driver()
        driver.joined(1)
        assert driver.assigned(0, 1) == (Install(orders(0, 1)), Announce(orders(0, 1)))

    def test_nothing_added_is_announced_too(self) -> None:
        driver = Driver().owning(0)
        driver.tell(RejoinRequested("partitions were added"))
        driver.joined(2)
        assert driver.assigned(0) == (Install(orders(0)), Announce(frozenset()))

    def test_what_is_not_announced_yet_is_not_delivered(self) -> None:
        driver = Driver()
        driver.joined(1)
        driver.assigned(0)
        assert not driver.member.may_deliver(("orders", 0), driver.now)
        driver.tell(ListenerReturned())
        assert driver.member.may_deliver(("orders", 0), driver.now)

    def test_delivery_goes_on_through_a_join(self) -> None:
        driver = Driver().owning(0)
        driver.heartbeat(Answer.REBALANCE_IN_PROGRESS)
        assert driver.join().owned == orders(0)
        assert driver.member.may_deliver(("orders", 0), driver.now)

    def test_the_claim_has_the_generation_of_the_last_join_response(self) -> None:
        driver = Driver().owning(0, generation=1)
        driver.heartbeat(Answer.REBALANCE_IN_PROGRESS)
        membership = driver.joined(2)
        driver.tell(SyncFailed(membership, Answer.REBALANCE_IN_PROGRESS))
        request = driver.join()
        assert (request.membership.generation, request.owned) == (2, orders(0))

    def test_a_rebalance_heard_of_during_the_sync_is_joined_after_it(self) -> None:
        driver = Driver()
        driver.joined(1)
        driver.heartbeat(Answer.REBALANCE_IN_PROGRESS)
        driver.assigned(0)
        driver.tell(ListenerReturned())
        assert driver.member.must_join

    def test_the_answer_to_an_abandoned_join_does_nothing(self) -> None:
        driver = Driver().owning(0)
        driver.heartbeat(Answer.REBALANCE_IN_PROGRESS)
        old = driver.join()
        driver.heartbeat(Answer.UNKNOWN_MEMBER_ID)
        assert driver.tell(Joined(old.attempt, Membership("a", 2))) == ()
        assert not driver.member.in_group

    def test_an_assignment_of_an_older_subscription_is_not_installed(self) -> None:
        driver = Driver()
        driver.joined(1)
        driver.tell(SubscriptionChanged(frozenset({"payments"})))
        assert driver.assigned(0) == ()
        assert driver.member.must_join

    def test_a_subscription_changed_back_before_the_join_asks_for_none(self) -> None:
        driver = Driver().owning(0)
        driver.tell(SubscriptionChanged(frozenset({"payments"})))
        assert driver.member.must_join
        driver.tell(SubscriptionChanged(frozenset({"orders"})))
        assert not driver.member.must_join


class TestRevoking:
    def revoking(self) -> Driver:
        driver = Driver().owning(0, 1)
        driver.heartbeat(Answer.REBALANCE_IN_PROGRESS)
        driver.joined(2)
        assert driver.assigned(0, 2) == (Revoke(orders(1)),)
        return driver

    def test_it_comes_before_the_new_assignment(self) -> None:
        driver = self.revoking()
        assert driver.member.owned == orders(0, 1)
        assert driver.tell(ListenerReturned()) == (Install(orders(0, 2)), Announce(orders(2)))

    def test_what_goes_is_delivered_no_more_but_can_be_committed(self) -> None:
        driver = self.revoking()
        assert driver.member.deliverable == orders(0)
        assert driver.tell(CommitRequested(1, orders(1))) == (SendCommit(1, Membership("a", 2), orders(1)),)

    def test_the_member_rejoins_at_once_without_the_claim(self) -> None:
        driver = self.revoking()
        assert not driver.member.must_join
        driver.tell(ListenerReturned())
        driver.tell(ListenerReturned())
        request = driver.join()
        assert (request.owned, request.membership.generation) == (orders(0, 2), 2)

    def test_topics_no_longer_subscribed_are_revoked_before_the_join(self) -> None:
        driver = Driver().owning(0)
        driver.tell(SubscriptionChanged(frozenset({"payments"})))
        assert driver.member.deliverable == frozenset()
        assert driver.tell(AboutToJoin(COOPERATIVE)) == (Revoke(orders(0)),)
        install, request = driver.tell(ListenerReturned())
        assert install == Install(frozenset())
        assert isinstance(request, SendJoin)

    def test_an_eager_member_revokes_everything_before_the_join(self) -> None:
        driver = Driver(protocol=EAGER).owning(0, 1)
        driver.heartbeat(Answer.REBALANCE_IN_PROGRESS)
        assert driver.tell(AboutToJoin(EAGER)) == (Revoke(orders(0, 1)),)
        _, request = driver.tell(ListenerReturned())
        assert isinstance(request, SendJoin)
        assert request.owned == frozenset()

    def test_a_generation_lost_meanwhile_loses_the_rest(self) -> None:
        driver = self.revoking()
        driver.heartbeat(Answer.UNKNOWN_MEMBER_ID)
        assert driver.tell(ListenerReturned()) == (Install(orders(0)),)
        assert driver.tell(AboutToJoin(COOPERATIVE)) == (Lose(orders(0)),)


class TestLoss:
    @pytest.mark.parametrize(
        ("answer", "member_id"), [(Answer.UNKNOWN_MEMBER_ID, ""), (Answer.ILLEGAL_GENERATION, "a")]
    )
    def test_it_stops_delivery_at_once_and_claims_nothing(self, answer: Answer, member_id: str) -> None:
        driver = Driver().owning(0)
        assert driver.heartbeat(answer) == ()
        assert driver.member.deliverable == frozenset()
        assert driver.tell(AboutToJoin(COOPERATIVE)) == (Lose(orders(0)),)
        _, request = driver.tell(ListenerReturned())
        assert isinstance(request, SendJoin)
        assert (request.membership, request.owned) == (Membership(member_id, -1), frozenset())

    def test_a_generation_refused_during_a_join_is_no_loss_if_the_join_succeeds(self) -> None:
        driver = Driver().owning(0)
        driver.heartbeat(Answer.REBALANCE_IN_PROGRESS)
        request = driver.join()
        driver.heartbeat(Answer.ILLEGAL_GENERATION)
        driver.tell(Joined(request.attempt, Membership("a", 2)))
        assert driver.assigned(0) == (Install(orders(0)), Announce(frozenset()))

    def test_a_generation_refused_during_a_join_is_a_loss_if_the_join_fails(self) -> None:
        driver = Driver().owning(0)
        driver.heartbeat(Answer.REBALANCE_IN_PROGRESS)
        request = driver.join()
        driver.heartbeat(Answer.ILLEGAL_GENERATION)
        driver.tell(JoinFailed(request.attempt, Answer.OTHER))
        assert not driver.member.in_group

    def test_what_is_said_of_an_earlier_generation_is_ignored(self) -> None:
        driver = Driver().owning(0, generation=2)
        driver.tell(HeartbeatAnswered(Membership("a", 1), Answer.UNKNOWN_MEMBER_ID, driver.now))
        assert driver.member.in_group

    def test_a_fenced_member_fails_for_good(self) -> None:
        driver = Driver().owning(0)
        (fail,) = driver.heartbeat(Answer.FENCED_INSTANCE_ID)
        assert isinstance(fail, Fail)
        assert not driver.member.must_join
        assert driver.tell(CloseRequested()) == (Lose(orders(0)),)


class TestLease:
    def test_it_ends_a_session_timeout_after_the_last_request_was_sent(self) -> None:
        driver = Driver().owning(0)
        assert driver.member.has_lease(driver.now + 44)
        assert not driver.member.has_lease(driver.now + 45)

    def test_an_answer_that_comes_late_extends_it_from_when_its_request_was_sent(self) -> None:
        driver = Driver().owning(0)
        sent_at, driver.now = driver.now + 3, driver.now + 60
        driver.heartbeat(Answer.OK, sent_at)
        assert not driver.member.has_lease(driver.now)

    def test_it_returns_with_an_answer_that_only_a_coordinator_gives_which_knows_the_member(self) -> None:
        driver = Driver().owning(0)
        driver.now += 60
        assert not driver.member.has_lease(driver.now)
        driver.heartbeat(Answer.REBALANCE_IN_PROGRESS)
        assert driver.member.may_deliver(("orders", 0), driver.now)

    def test_once_over_it_does_not_return_with_a_heartbeat_that_is_answered_ok(self) -> None:
        driver = Driver().owning(0)
        driver.now += 60
        driver.heartbeat(Answer.OK)
        assert not driver.member.has_lease(driver.now)
        assert driver.member.must_join

    def test_a_heartbeat_answered_ok_that_comes_too_late_to_say_anything_costs_no_rebalance(self) -> None:
        driver = Driver().owning(0)
        sent_at, driver.now = driver.now + 3, driver.now + 60
        driver.heartbeat(Answer.OK, sent_at)
        assert not driver.member.must_join

    def test_joining_again_brings_it_back_and_moves_nothing(self) -> None:
        driver = Driver().owning(0)
        driver.now += 60
        driver.heartbeat(Answer.OK)
        (join,) = driver.tell(AboutToJoin(COOPERATIVE))
        assert isinstance(join, SendJoin)
        assert join.owned == orders(0)
        driver.tell(Joined(join.attempt, Membership("a", 2)))
        driver.heartbeat(Answer.OK)
        assert not driver.member.must_join
        driver.tell(Assigned(Membership("a", 2), orders(0), driver.now))
        assert driver.member.may_deliver(("orders", 0), driver.now)

    def test_a_rebalance_that_may_end_without_the_member_ends_it(self) -> None:
        driver = Driver().owning(0)
        for _ in range(100):
            driver.now += 3
            driver.heartbeat(Answer.REBALANCE_IN_PROGRESS)
        assert not driver.member.has_lease(driver.now)


class TestPollInterval:
    def test_exceeding_it_leaves_the_group_and_loses_the_partitions(self) -> None:
        driver = Driver().owning(0)
        (leave,) = driver.tell(Checked(polled_at=driver.now - 301))
        assert leave == SendLeave("a", "max.poll.interval.ms was exceeded")
        assert driver.member.deliverable == frozenset()

    def test_the_member_joins_again_when_the_user_polls(self) -> None:
        driver = Driver().owning(0)
        driver.tell(Checked(polled_at=driver.now - 301))
        assert not driver.member.must_join
        driver.tell(Polled())
        assert driver.tell(AboutToJoin(COOPERATIVE)) == (Lose(orders(0)),)

    def test_a_user_who_polls_in_time_notices_nothing(self) -> None:
        driver = Driver().owning(0)
        before = driver.member
        assert driver.tell(Checked(polled_at=driver.now - 300)) == ()
        assert driver.member == before


class TestClose:
    def test_it_revokes_and_leaves(self) -> None:
        driver = Driver().owning(0)
        assert driver.tell(CloseRequested()) == (Revoke(orders(0)),)
        install, leave = driver.tell(ListenerReturned())
        assert install == Install(frozenset())
        assert leave == SendLeave("a", "the consumer is being closed")

    def test_a_static_member_stays_in_the_group(self) -> None:
        driver = Driver(Settings(45, 300, 300, static=True)).owning(0)
        driver.tell(CloseRequested())
        assert driver.tell(ListenerReturned()) == (Install(frozenset()),)

    def test_a_join_that_is_under_way_goes_on_for_what_is_committed_meanwhile(self) -> None:
        driver = Driver().owning(0)
        driver.heartbeat(Answer.REBALANCE_IN_PROGRESS)
        request = driver.join()
        assert driver.tell(CloseRequested()) == (Revoke(orders(0)),)
        old, new = driver.member.membership, Membership("a", 2)
        assert driver.tell(CommitRequested(7, orders(0))) == (SendCommit(7, old, orders(0)),)
        assert driver.tell(Joined(request.attempt, new)) == (SendSync(new),)
        assert driver.tell(CommitAnswered(7, old, Answer.ILLEGAL_GENERATION)) == ()
        assert driver.assigned(0, 1) == (SendCommit(7, new, orders(0)),)
        assert driver.tell(CommitAnswered(7, new, Answer.OK)) == (CommitDone(7),)
        assert driver.tell(ListenerReturned()) == (
            Install(frozenset()),
            SendLeave("a", "the consumer is being closed"),
        )
        assert not driver.member.deliverable

    @pytest.mark.parametrize("answer", [Answer.OK, Answer.REBALANCE_IN_PROGRESS])
    def test_an_answer_to_sync_group_that_comes_after_leaving_is_of_no_interest(self, answer: Answer) -> None:
        driver = Driver().owning(0)
        driver.heartbeat(Answer.REBALANCE_IN_PROGRESS)
        membership = driver.joined(2)
        driver.tell(CloseRequested())
        driver.tell(ListenerReturned())
        closed = driver.member
        late = (
            Assigned(membership, orders(0), driver.now)
            if answer is Answer.OK
            else SyncFailed(membership, answer)
        )
        assert driver.tell(late) == ()
        assert driver.member == closed

    def test_a_membership_lost_while_everything_is_revoked_loses_the_commits(self) -> None:
        driver = Driver().owning(0)
        driver.heartbeat(Answer.REBALANCE_IN_PROGRESS)
        membership = driver.joined(2)
        driver.tell(CloseRequested())
        assert driver.tell(CommitRequested(7, orders(0))) == ()
        (refused,) = driver.tell(SyncFailed(membership, Answer.UNKNOWN_MEMBER_ID))
        assert isinstance(refused, CommitRefused)
        assert driver.tell(ListenerReturned()) == (Install(frozenset()),)

    def test_who_unsubscribes_during_a_join_commits_as_well(self) -> None:
        driver = Driver().owning(0)
        driver.heartbeat(Answer.REBALANCE_IN_PROGRESS)
        membership = driver.joined(2)
        assert driver.tell(SubscriptionChanged(frozenset())) == (Revoke(orders(0)),)
        assert driver.tell(CommitRequested(7, orders(0))) == ()
        assert driver.assigned(0) == (SendCommit(7, membership, orders(0)),)

    def test_partitions_are_lost_when_the_generation_is(self) -> None:
        driver = Driver().owning(0)
        driver.heartbeat(Answer.UNKNOWN_MEMBER_ID)
        assert driver.tell(CloseRequested()) == (Lose(orders(0)),)

    def test_it_waits_for_a_listener_that_is_running(self) -> None:
        driver = Driver()
        driver.joined(1)
        driver.assigned(0)
        assert driver.tell(CloseRequested()) == ()
        assert driver.tell(ListenerReturned()) == (Revoke(orders(0)),)

    def test_unsubscribing_leaves_and_a_new_subscription_joins_again(self) -> None:
        driver = Driver().owning(0)
        assert driver.tell(SubscriptionChanged(frozenset())) == (Revoke(orders(0)),)
        assert driver.tell(ListenerReturned())[-1] == SendLeave("a", "the user unsubscribed")
        assert not driver.member.must_join
        driver.tell(SubscriptionChanged(frozenset({"orders"})))
        assert driver.join().membership == NOBODY


class TestCommits:
    def crossing(self, *kept: int) -> Driver:
        """A commit of 0 and 1 was sent in generation 1; in generation 2 the member has `kept`."""
        driver = Driver().owning(0, 1)
        assert driver.tell(CommitRequested(1, orders(0, 1))) == (
            SendCommit(1, Membership("a", 1), orders(0, 1)),
        )
        driver.heartbeat(Answer.REBALANCE_IN_PROGRESS)
        driver.joined(2)
        if driver.assigned(*kept) and driver.member.owned != orders(*kept):
            driver.tell(ListenerReturned())
        driver.tell(ListenerReturned())
        return driver

    def revoking(self, *owned: int) -> Driver:
        """In generation 2 the member is to give up the last of what it owns; the listener is at it."""
        driver = Driver().owning(*owned)
        driver.heartbeat(Answer.REBALANCE_IN_PROGRESS)
        driver.joined(2)
        assert driver.assigned(*owned[:-1]) == (Revoke(orders(owned[-1])),)
        return driver

    def answered(self, driver: Driver, answer: Answer, generation: int = 1) -> tuple[Action, ...]:
        return driver.tell(CommitAnswered(1, Membership("a", generation), answer))

    def test_one_that_crossed_a_rebalance_is_sent_again_for_what_was_kept(self) -> None:
        driver = self.crossing(0)
        assert self.answered(driver, Answer.ILLEGAL_GENERATION) == (
            SendCommit(1, Membership("a", 2), orders(0)),
        )
        (refused,) = self.answered(driver, Answer.OK, generation=2)
        assert isinstance(refused, CommitRefused)
        assert refused.partitions == orders(1)

    def test_one_that_the_coordinator_took_in_time_is_done(self) -> None:
        assert self.answered(self.crossing(0), Answer.OK) == (CommitDone(1),)

    def test_one_that_lost_all_its_partitions_is_refused(self) -> None:
        driver = Driver().owning(0)
        driver.tell(CommitRequested(1, orders(0)))
        driver.heartbeat(Answer.UNKNOWN_MEMBER_ID)
        (refused,) = self.answered(driver, Answer.UNKNOWN_MEMBER_ID)
        assert isinstance(refused, CommitRefused)

    def test_one_is_never_sent_for_a_partition_lost_and_got_back(self) -> None:
        driver = Driver().owning(0)
        driver.tell(CommitRequested(1, orders(0)))
        driver.heartbeat(Answer.ILLEGAL_GENERATION)
        driver.tell(AboutToJoin(COOPERATIVE))
        (_, request) = driver.tell(ListenerReturned())
        assert isinstance(request, SendJoin)
        driver.tell(Joined(request.attempt, Membership("a", 3)))
        driver.assigned(0)
        driver.tell(ListenerReturned())
        (refused,) = self.answered(driver, Answer.OTHER)
        assert isinstance(refused, CommitRefused)

    def test_one_asked_for_during_the_sync_waits_for_its_end(self) -> None:
        driver = Driver().owning(0)
        driver.heartbeat(Answer.REBALANCE_IN_PROGRESS)
        driver.joined(2)
        assert driver.tell(CommitRequested(1, orders(0))) == ()
        assert driver.assigned(0)[0] == SendCommit(1, Membership("a", 2), orders(0))

    def test_one_refused_while_the_join_is_answered_waits_for_its_end(self) -> None:
        driver = Driver().owning(0)
        driver.tell(CommitRequested(1, orders(0)))
        driver.heartbeat(Answer.REBALANCE_IN_PROGRESS)
        driver.join()
        assert self.answered(driver, Answer.ILLEGAL_GENERATION) == ()

    def test_one_that_the_listener_makes_before_a_join_does_not_wait_for_that_join(self) -> None:
        driver = Driver(protocol=EAGER).owning(0)
        driver.heartbeat(Answer.REBALANCE_IN_PROGRESS)
        assert driver.tell(AboutToJoin(EAGER)) == (Revoke(orders(0)),)
        sent = driver.tell(CommitRequested(1, orders(0)))
        assert self.answered(driver, Answer.REBALANCE_IN_PROGRESS) == sent
        assert self.answered(driver, Answer.OK) == (CommitDone(1),)

    def test_one_whose_response_is_lost_is_sent_again(self) -> None:
        driver = Driver().owning(0)
        sent = driver.tell(CommitRequested(1, orders(0)))
        assert self.answered(driver, Answer.OTHER) == sent

    def test_a_retry_never_follows_a_later_commit_of_the_partition(self) -> None:
        driver = Driver().owning(0)
        driver.tell(CommitRequested(1, orders(0)))
        driver.tell(CommitRequested(2, orders(0)))
        assert self.answered(driver, Answer.OTHER) == ()
        done = driver.tell(CommitAnswered(2, Membership("a", 1), Answer.OK))
        assert done == (CommitDone(1), CommitDone(2))

    def test_one_that_a_later_one_takes_over_is_not_done_before_that(self) -> None:
        """Else the listener returns in good faith, and what it committed is struck from the later commit."""
        driver = self.revoking(0, 1)
        driver.tell(CommitRequested(1, orders(1)))
        driver.tell(CommitRequested(2, orders(0, 1)))
        assert self.answered(driver, Answer.OTHER, generation=2) == ()
        again = driver.tell(CommitAnswered(2, Membership("a", 2), Answer.OTHER))
        assert again == (SendCommit(2, Membership("a", 2), orders(0, 1)),)
        done = driver.tell(CommitAnswered(2, Membership("a", 2), Answer.OK))
        assert done == (CommitDone(1), CommitDone(2))

    def test_one_that_a_later_one_takes_over_in_part_waits_for_both_parts(self) -> None:
        driver = Driver().owning(0, 1)
        driver.tell(CommitRequested(1, orders(0, 1)))
        driver.tell(CommitRequested(2, orders(0)))
        assert self.answered(driver, Answer.OTHER) == (SendCommit(1, Membership("a", 1), orders(1)),)
        assert driver.tell(CommitAnswered(2, Membership("a", 1), Answer.OK)) == (CommitDone(2),)
        assert self.answered(driver, Answer.OK) == (CommitDone(1),)

    def test_one_that_a_later_one_takes_over_is_refused_with_it(self) -> None:
        driver = Driver().owning(0)
        for number in (1, 2, 3):
            driver.tell(CommitRequested(number, orders(0)))
        assert self.answered(driver, Answer.OTHER) == ()
        assert driver.tell(CommitAnswered(2, Membership("a", 1), Answer.OTHER)) == ()
        refused = driver.heartbeat(Answer.UNKNOWN_MEMBER_ID)
        refused += driver.tell(CommitAnswered(3, Membership("a", 1), Answer.UNKNOWN_MEMBER_ID))
        assert [(type(one), one.commit) for one in refused if isinstance(one, CommitRefused)] == [
            (CommitRefused, 1),
            (CommitRefused, 2),
            (CommitRefused, 3),
        ]

    def test_one_that_a_later_one_takes_over_does_not_wait_for_it_when_nobody_else_does(self) -> None:
        driver = Driver().owning(0)
        for number in (1, 2, 3):
            driver.tell(CommitRequested(number, orders(0)))
        self.answered(driver, Answer.OTHER)
        assert driver.tell(CommitAbandoned(2)) == ()
        (refused,) = driver.tell(CommitAbandoned(3))
        assert isinstance(refused, CommitRefused)
        assert (refused.commit, refused.partitions) == (1, orders(0))

    def test_one_of_a_partition_that_is_not_owned_is_refused(self) -> None:
        (refused,) = Driver().owning(0).tell(CommitRequested(1, orders(7)))
        assert isinstance(refused, CommitRefused)
        assert refused.partitions == orders(7)

    def test_one_that_is_abandoned_is_forgotten(self) -> None:
        driver = Driver().owning(0)
        driver.tell(CommitRequested(1, orders(0)))
        driver.tell(CommitAbandoned(1))
        assert self.answered(driver, Answer.OTHER) == ()


class TestMisuse:
    def test_joining_without_need(self) -> None:
        with pytest.raises(OutOfOrderError, match="AboutToJoin"):
            Driver().owning(0).tell(AboutToJoin(COOPERATIVE))

    def test_a_listener_that_was_not_called(self) -> None:
        with pytest.raises(OutOfOrderError, match="no call of the listener"):
            Driver().owning(0).tell(ListenerReturned())

    def test_an_assignment_twice(self) -> None:
        with pytest.raises(OutOfOrderError, match="nobody asked for"):
            Driver().owning(0).assigned(0)

    def test_closing_twice(self) -> None:
        driver = Driver()
        driver.tell(CloseRequested())
        with pytest.raises(OutOfOrderError, match="second time"):
            driver.tell(CloseRequested())

    def test_one_number_for_two_commits(self) -> None:
        driver = Driver().owning(0)
        driver.tell(CommitRequested(1, orders(0)))
        with pytest.raises(OutOfOrderError, match="commit 1"):
            driver.tell(CommitRequested(1, orders(0)))


def test_one_eager_strategy_makes_the_member_eager() -> None:
    assert common_protocol([CooperativeSticky()]) is COOPERATIVE
    assert common_protocol([CooperativeSticky(), Range()]) is EAGER
