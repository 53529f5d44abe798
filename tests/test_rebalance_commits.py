"""The commits of one member: which ones it allows, and how a rebalance affects them."""

from __future__ import annotations

import random

import pytest

from kafka_assignors.rebalance.error_codes import decisive_error, membership_error, read_commit_response
from kafka_assignors.rebalance.events import (
    AboutToJoin,
    Action,
    CommitAbandoned,
    CommitAnswered,
    CommitDone,
    CommitRefused,
    CommitRequested,
    Install,
    Joined,
    ListenerReturned,
    Lose,
    Membership,
    MembershipError,
    Partitions,
    RejoinRequested,
    Revoke,
    SendCommit,
    SendJoin,
)
from kafka_assignors.rebalance.session_commits import CommitQueue
from tests.rebalance_driver import COOPERATIVE, EAGER, Driver, orders


class TestCommits:
    def crossing(self, *kept: int) -> Driver:
        """A commit of 0 and 1 was sent in generation 1; in generation 2 the member keeps `kept`."""
        driver = Driver().owning(0, 1)
        assert driver.tell(CommitRequested(1, orders(0, 1))) == (
            SendCommit(1, Membership("a", 1), orders(0, 1)),
        )
        driver.heartbeat(MembershipError.REBALANCE_IN_PROGRESS)
        driver.joined(2)
        if driver.assigned(*kept) and driver.member.owned != orders(*kept):
            driver.tell(ListenerReturned())
        driver.tell(ListenerReturned())
        return driver

    def revoking(self, *owned: int) -> Driver:
        """In generation 2 the member has to give up the last owned partition; its listener runs."""
        driver = Driver().owning(*owned)
        driver.heartbeat(MembershipError.REBALANCE_IN_PROGRESS)
        driver.joined(2)
        assert driver.assigned(*owned[:-1]) == (Revoke(orders(owned[-1])),)
        return driver

    def answered(self, driver: Driver, answer: MembershipError, generation: int = 1) -> tuple[Action, ...]:
        return driver.tell(CommitAnswered(1, Membership("a", generation), answer))

    def test_a_commit_that_a_rebalance_overtook_is_sent_again_for_the_kept_partitions(self) -> None:
        driver = self.crossing(0)
        assert self.answered(driver, MembershipError.ILLEGAL_GENERATION) == (
            SendCommit(1, Membership("a", 2), orders(0)),
        )
        (refused,) = self.answered(driver, MembershipError.NONE, generation=2)
        assert isinstance(refused, CommitRefused)
        assert refused.partitions == orders(1)

    def test_a_commit_accepted_before_the_rebalance_is_done(self) -> None:
        assert self.answered(self.crossing(0), MembershipError.NONE) == (CommitDone(1),)

    def test_a_commit_that_lost_all_its_partitions_is_refused(self) -> None:
        driver = Driver().owning(0)
        driver.tell(CommitRequested(1, orders(0)))
        driver.heartbeat(MembershipError.UNKNOWN_MEMBER_ID)
        (refused,) = self.answered(driver, MembershipError.UNKNOWN_MEMBER_ID)
        assert isinstance(refused, CommitRefused)

    def test_a_commit_is_never_sent_for_a_partition_that_was_lost_and_assigned_again(self) -> None:
        driver = Driver().owning(0)
        driver.tell(CommitRequested(1, orders(0)))
        driver.heartbeat(MembershipError.ILLEGAL_GENERATION)
        driver.tell(AboutToJoin(COOPERATIVE))
        (_, request) = driver.tell(ListenerReturned())
        assert isinstance(request, SendJoin)
        driver.tell(Joined(request.attempt, Membership("a", 3)))
        driver.assigned(0)
        driver.tell(ListenerReturned())
        (refused,) = self.answered(driver, MembershipError.OTHER)
        assert isinstance(refused, CommitRefused)

    def test_a_commit_requested_during_the_sync_waits_for_its_end(self) -> None:
        driver = Driver().owning(0)
        driver.heartbeat(MembershipError.REBALANCE_IN_PROGRESS)
        driver.joined(2)
        assert driver.tell(CommitRequested(1, orders(0))) == ()
        assert driver.assigned(0)[0] == SendCommit(1, Membership("a", 2), orders(0))

    def test_a_commit_refused_during_a_join_waits_for_the_end_of_the_join(self) -> None:
        driver = Driver().owning(0)
        driver.tell(CommitRequested(1, orders(0)))
        driver.heartbeat(MembershipError.REBALANCE_IN_PROGRESS)
        driver.join()
        assert self.answered(driver, MembershipError.ILLEGAL_GENERATION) == ()

    def test_a_commit_of_the_listener_before_a_join_does_not_wait_for_that_join(self) -> None:
        driver = Driver(protocol=EAGER).owning(0)
        driver.heartbeat(MembershipError.REBALANCE_IN_PROGRESS)
        assert driver.tell(AboutToJoin(EAGER)) == (Revoke(orders(0)),)
        sent = driver.tell(CommitRequested(1, orders(0)))
        assert self.answered(driver, MembershipError.REBALANCE_IN_PROGRESS) == sent
        assert self.answered(driver, MembershipError.NONE) == (CommitDone(1),)

    def test_a_commit_whose_response_is_lost_is_sent_again(self) -> None:
        driver = Driver().owning(0)
        sent = driver.tell(CommitRequested(1, orders(0)))
        assert self.answered(driver, MembershipError.OTHER) == sent

    def test_a_retry_never_follows_a_later_commit_of_the_partition(self) -> None:
        driver = Driver().owning(0)
        driver.tell(CommitRequested(1, orders(0)))
        driver.tell(CommitRequested(2, orders(0)))
        assert self.answered(driver, MembershipError.OTHER) == ()
        done = driver.tell(CommitAnswered(2, Membership("a", 1), MembershipError.NONE))
        assert done == (CommitDone(1), CommitDone(2))

    def test_a_superseded_commit_is_not_done_before_the_later_commit(self) -> None:
        """Otherwise the listener returns too early, and its partitions are removed from the later commit."""
        driver = self.revoking(0, 1)
        driver.tell(CommitRequested(1, orders(1)))
        driver.tell(CommitRequested(2, orders(0, 1)))
        assert self.answered(driver, MembershipError.OTHER, generation=2) == ()
        again = driver.tell(CommitAnswered(2, Membership("a", 2), MembershipError.OTHER))
        assert again == (SendCommit(2, Membership("a", 2), orders(0, 1)),)
        done = driver.tell(CommitAnswered(2, Membership("a", 2), MembershipError.NONE))
        assert done == (CommitDone(1), CommitDone(2))

    def test_a_commit_superseded_in_part_waits_for_both_parts(self) -> None:
        driver = Driver().owning(0, 1)
        driver.tell(CommitRequested(1, orders(0, 1)))
        driver.tell(CommitRequested(2, orders(0)))
        assert self.answered(driver, MembershipError.OTHER) == (SendCommit(1, Membership("a", 1), orders(1)),)
        assert driver.tell(CommitAnswered(2, Membership("a", 1), MembershipError.NONE)) == (CommitDone(2),)
        assert self.answered(driver, MembershipError.NONE) == (CommitDone(1),)

    def test_a_superseded_commit_is_refused_with_the_later_commit(self) -> None:
        driver = Driver().owning(0)
        for number in (1, 2, 3):
            driver.tell(CommitRequested(number, orders(0)))
        assert self.answered(driver, MembershipError.OTHER) == ()
        assert driver.tell(CommitAnswered(2, Membership("a", 1), MembershipError.OTHER)) == ()
        refused = driver.heartbeat(MembershipError.UNKNOWN_MEMBER_ID)
        refused += driver.tell(CommitAnswered(3, Membership("a", 1), MembershipError.UNKNOWN_MEMBER_ID))
        assert [(type(one), one.commit) for one in refused if isinstance(one, CommitRefused)] == [
            (CommitRefused, 1),
            (CommitRefused, 2),
            (CommitRefused, 3),
        ]

    def test_a_commit_taken_over_by_a_later_one_does_not_wait_for_it_alone(self) -> None:
        driver = Driver().owning(0)
        for number in (1, 2, 3):
            driver.tell(CommitRequested(number, orders(0)))
        self.answered(driver, MembershipError.OTHER)
        assert driver.tell(CommitAbandoned(2)) == ()
        (refused,) = driver.tell(CommitAbandoned(3))
        assert isinstance(refused, CommitRefused)
        assert (refused.commit, refused.partitions) == (1, orders(0))

    def test_none_waits_for_one_that_its_caller_gave_up(self) -> None:
        driver = Driver().owning(0)
        for number in (1, 2, 3):
            driver.tell(CommitRequested(number, orders(0)))
        self.answered(driver, MembershipError.OTHER)
        driver.tell(CommitAnswered(2, Membership("a", 1), MembershipError.OTHER))
        refused = driver.tell(CommitAbandoned(3))
        assert {one.commit for one in refused if isinstance(one, CommitRefused)} == {1, 2}

    def test_a_held_commit_superseded_in_part_waits_for_the_later_commit(self) -> None:
        driver = Driver().owning(0, 1)
        driver.heartbeat(MembershipError.REBALANCE_IN_PROGRESS)
        driver.joined(2)
        driver.tell(CommitRequested(1, orders(0, 1)))
        driver.tell(CommitRequested(2, orders(0)))
        driver.assigned(0, 1)
        assert self.answered(driver, MembershipError.NONE, generation=2) == ()
        done = driver.tell(CommitAnswered(2, Membership("a", 2), MembershipError.NONE))
        assert done == (CommitDone(1), CommitDone(2))

    def test_a_commit_of_a_partition_that_is_not_owned_is_refused(self) -> None:
        (refused,) = Driver().owning(0).tell(CommitRequested(1, orders(7)))
        assert isinstance(refused, CommitRefused)
        assert refused.partitions == orders(7)

    def test_an_abandoned_commit_is_forgotten(self) -> None:
        driver = Driver().owning(0)
        driver.tell(CommitRequested(1, orders(0)))
        driver.tell(CommitAbandoned(1))
        assert self.answered(driver, MembershipError.OTHER) == ()


class TestCommitsTakenInPart:
    """The coordinator returns an error code for each partition of a commit."""

    A = Membership("a", 1)

    def requested(self, *numbers: int) -> Driver:
        driver = Driver().owning(0, 1, 2)
        for number in numbers:
            driver.tell(CommitRequested(number, orders(0, 1, 2)))
        return driver

    def test_only_what_may_be_tried_again_is_sent_again(self) -> None:
        driver = self.requested(1)
        again = driver.tell(
            CommitAnswered(1, self.A, MembershipError.OTHER, accepted=orders(0), failed=orders(1))
        )
        assert again == (SendCommit(1, self.A, orders(2)),)
        assert driver.tell(CommitAnswered(1, self.A, MembershipError.NONE)) == (CommitDone(1),)

    def test_a_commit_is_over_when_no_retry_is_allowed(self) -> None:
        driver = self.requested(1)
        done = driver.tell(
            CommitAnswered(1, self.A, MembershipError.OTHER, accepted=orders(0, 2), failed=orders(1))
        )
        assert done == (CommitDone(1),)

    def test_accepted_partitions_of_a_commit_are_not_refused_when_the_member_is_lost(self) -> None:
        driver = self.requested(1)
        driver.tell(CommitAnswered(1, self.A, MembershipError.OTHER, accepted=orders(0)))
        (refused,) = driver.heartbeat(MembershipError.UNKNOWN_MEMBER_ID) + driver.tell(
            CommitAnswered(1, self.A, MembershipError.UNKNOWN_MEMBER_ID)
        )
        assert isinstance(refused, CommitRefused)
        assert refused.partitions == orders(1, 2)

    def test_earlier_commits_are_done_with_what_was_accepted(self) -> None:
        driver = self.requested(1, 2)
        driver.tell(CommitAnswered(1, self.A, MembershipError.OTHER))
        assert driver.tell(CommitAnswered(2, self.A, MembershipError.OTHER, accepted=orders(0, 1))) == (
            SendCommit(2, self.A, orders(2)),
        )
        assert driver.tell(CommitAnswered(2, self.A, MembershipError.NONE)) == (CommitDone(1), CommitDone(2))

    def test_earlier_commits_are_refused_what_failed_for_good(self) -> None:
        driver = self.requested(1, 2)
        driver.tell(CommitAnswered(1, self.A, MembershipError.OTHER))
        refused, done = driver.tell(
            CommitAnswered(2, self.A, MembershipError.OTHER, accepted=orders(0, 1), failed=orders(2))
        )
        assert isinstance(refused, CommitRefused)
        assert (refused.commit, refused.partitions) == (1, orders(2))
        assert done == CommitDone(2)

    def test_a_later_commit_does_not_mind_that_an_earlier_one_failed(self) -> None:
        driver = self.requested(1, 2)
        done = driver.tell(CommitAnswered(1, self.A, MembershipError.OTHER, failed=orders(0, 1, 2)))
        assert done == (CommitDone(1),)
        assert driver.tell(CommitAnswered(2, self.A, MembershipError.NONE)) == (CommitDone(2),)

    def test_a_membership_refused_beside_it_is_lost(self) -> None:
        driver = self.requested(1)
        (refused,) = driver.tell(
            CommitAnswered(1, self.A, MembershipError.UNKNOWN_MEMBER_ID, accepted=orders(0), failed=orders(1))
        )
        assert isinstance(refused, CommitRefused)
        assert refused.partitions == orders(2)
        assert not driver.member.in_group


class TestCommitResponse:
    """The meaning of the error codes of an OffsetCommit response."""

    @pytest.mark.parametrize("code", [7, 14, 15, 16])
    def test_transient_errors_are_retried_beside_any_other_errors(self, code: int) -> None:
        sent = orders(0, 1, 2)
        read = read_commit_response(sent, {("orders", 0): 3, ("orders", 1): code, ("orders", 2): 0})
        assert (read.error, read.accepted, read.failed) == (
            MembershipError.OTHER,
            orders(2),
            {("orders", 0): 3},
        )
        assert read.coordinator_moved is (code != 14)

    @pytest.mark.parametrize("code", [-1, 3, 12, 24, 28, 29, 30, 35, 97])
    def test_other_errors_fail_for_good(self, code: int) -> None:
        read = read_commit_response(orders(0), {("orders", 0): code})
        assert (read.error, read.failed) == (MembershipError.OTHER, {("orders", 0): code})
        assert not read.coordinator_moved

    @pytest.mark.parametrize("code", [22, 25, 27, 82])
    def test_an_error_about_the_membership_is_one_of_the_whole_request(self, code: int) -> None:
        read = read_commit_response(orders(0, 1), {("orders", 0): 3, ("orders", 1): code})
        assert read.error is membership_error(code)
        assert read.failed == {("orders", 0): 3}

    def test_a_partition_that_the_response_lacks_has_failed(self) -> None:
        read = read_commit_response(orders(0, 1), {("orders", 0): 0})
        assert (read.error, read.accepted, set(read.failed)) == (MembershipError.OTHER, orders(0), orders(1))

    def test_all_accepted(self) -> None:
        read = read_commit_response(orders(0, 1), {("orders", 0): 0, ("orders", 1): 0})
        assert (read.error, read.accepted, read.failed) == (MembershipError.NONE, orders(0, 1), {})

    def test_the_error_of_the_group_comes_before_one_of_a_partition_and_the_topics_not_allowed_last(
        self,
    ) -> None:
        a, b, c = (("orders", number) for number in range(3))
        assert decisive_error({a: 29, b: 12, c: 30}) == (30, (c,))
        assert decisive_error({a: 29, b: 12, c: 28}) == (12, (b,))
        assert decisive_error({a: 29}) == (29, (a,))
        assert decisive_error({c: 12, b: 29, a: 12}) == (12, (a, c))


class QueueDriver:
    """An adapter that queues commits before the machine, while partitions come and go."""

    def __init__(self, most_in_machine: int) -> None:
        self.queue = CommitQueue(most_in_machine)
        self.driver = Driver().owning(0, 1, 2)
        self.owned = orders(0, 1, 2)
        self.tenure = dict.fromkeys(orders(0, 1, 2), 0)
        """How often the member got each partition."""
        self.requested: dict[int, dict[tuple[str, int], int]] = {}
        """For each commit, the tenure of its owned partitions at the time of the request."""
        self.sent: dict[int, SendCommit] = {}
        self.outcomes: dict[int, Partitions] = {}
        """The refused partitions of each finished commit."""
        self.order: list[int] = []

    def do(self, actions: tuple[Action, ...]) -> None:
        for action in actions:
            match action:
                case Install(partitions):
                    for new in partitions - self.owned:
                        self.tenure[new] += 1
                    self.owned = partitions
                    self.queue.installed(partitions)
                case SendCommit():
                    if action.commit not in self.order:
                        self.order.append(action.commit)
                    assert all(
                        self.requested[action.commit][one] == self.tenure[one] for one in action.partitions
                    )
                    self.sent[action.commit] = action
                case CommitDone(number):
                    self.end(number, frozenset())
                case CommitRefused(number, partitions, _):
                    self.end(number, partitions)
        while (request := self.queue.next()) is not None:
            self.do(self.driver.tell(request))
            assert len(self.driver.member.commits) <= 3

    def end(self, number: int, refused: Partitions) -> None:
        assert number not in self.outcomes
        self.outcomes[number] = refused
        self.queue.end(number)

    def request(self, number: int, partitions: Partitions) -> None:
        member = self.driver.member
        self.requested[number] = {one: self.tenure[one] for one in partitions & member.committable}
        self.queue.add(number, partitions, member.committable)
        self.do(())

    def answer(self, number: int, answer: MembershipError) -> None:
        sent = self.sent.pop(number)
        self.do(self.driver.tell(CommitAnswered(number, sent.membership, answer)))

    def rebalance(self, assigned: Partitions) -> None:
        driver = self.driver
        self.do(driver.tell(RejoinRequested("a test")))
        actions = driver.tell(AboutToJoin(COOPERATIVE))
        self.do(actions)
        if isinstance(actions[-1], Lose):
            actions = driver.tell(ListenerReturned())
            self.do(actions)
        join = actions[-1]
        assert isinstance(join, SendJoin)
        self.do(driver.tell(Joined(join.attempt, Membership("a", max(join.membership.generation, 0) + 1))))
        actions = driver.assigned(*(number for _, number in assigned))
        self.do(actions)
        if isinstance(actions[-1], Revoke):
            self.do(driver.tell(ListenerReturned()))
        self.do(driver.tell(ListenerReturned()))


class TestCommitQueue:
    @pytest.mark.parametrize("seed", range(60))
    def test_no_commit_that_waits_outlives_the_ownership_of_its_partitions(self, seed: int) -> None:
        """Partitions come and go while commits wait; `do` checks each request that is sent."""
        chance, adapter = random.Random(seed), QueueDriver(most_in_machine=3)
        number = 0
        for _ in range(120):
            match chance.choice(["request"] * 6 + ["answer"] * 5 + ["rebalance", "lost", "abandoned"]):
                case "request":
                    number += 1
                    adapter.request(number, orders(*chance.sample(range(3), chance.randint(1, 3))))
                case "answer" if adapter.sent:
                    which = chance.choice(list(adapter.sent))
                    adapter.answer(
                        which,
                        chance.choice([MembershipError.NONE, MembershipError.NONE, MembershipError.OTHER]),
                    )
                case "rebalance":
                    adapter.rebalance(orders(*chance.sample(range(3), chance.randint(0, 3))))
                case "lost" if adapter.driver.member.in_group:
                    adapter.do(adapter.driver.heartbeat(MembershipError.ILLEGAL_GENERATION))
                    adapter.rebalance(orders(*chance.sample(range(3), chance.randint(0, 3))))
                case "abandoned" if number:
                    which = chance.randint(1, number)
                    if which not in adapter.outcomes:
                        adapter.outcomes[which] = frozenset()
                        adapter.sent.pop(which, None)
                        if adapter.queue.end(which):
                            adapter.do(adapter.driver.tell(CommitAbandoned(which)))
        while adapter.sent:
            adapter.answer(min(adapter.sent), MembershipError.NONE)
        assert set(adapter.outcomes) == set(range(1, number + 1))
        assert len(adapter.queue) == 0
        assert adapter.order == sorted(adapter.order)

    def test_the_machine_has_a_few_at_a_time_and_the_others_follow_in_order(self) -> None:
        adapter = QueueDriver(most_in_machine=2)
        for number in range(1, 6):
            adapter.request(number, orders(0))
        assert set(adapter.sent) == {1, 2}
        for number in range(1, 6):
            adapter.answer(number, MembershipError.NONE)
        assert adapter.order == [1, 2, 3, 4, 5]
        assert not any(adapter.outcomes.values())

    def test_a_waiting_commit_of_a_partition_assigned_later_is_refused(self) -> None:
        adapter = QueueDriver(most_in_machine=1)
        adapter.rebalance(orders(0))
        adapter.request(1, orders(0))
        adapter.request(2, orders(1))
        adapter.rebalance(orders(0, 1))
        adapter.answer(1, MembershipError.NONE)
        assert adapter.outcomes == {1: frozenset(), 2: orders(1)}
