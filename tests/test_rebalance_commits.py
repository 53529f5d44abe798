"""The commits of one member: when the machine lets them be sent, which offset is sent, and how each ends."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_assignors.rebalance import MemberState, events
from kafka_assignors.rebalance.error_codes import commit_error, membership_error, read_commit_response
from kafka_assignors.rebalance.events import Action, Event, Membership, MembershipError, Partition, Partitions
from kafka_assignors.rebalance.observer import Observers
from kafka_assignors.rebalance.session_commits import MOST_PARTITIONS, SessionCommits
from tests.rebalance_driver import COOPERATIVE, EAGER, Driver, Wakeup, orders, scene, settled


def test_a_commit_of_a_recreated_topic_is_refused() -> None:
    driver = Driver().owning(0, 1)
    driver.tell(events.CommitRequested(orders(0, 1)))
    assert driver.tell(events.TopicsRecreated(orders(0))) == (events.CommitRefused(orders(0)),)
    sent = driver.tell(events.CommitsCanBeSent(orders(0, 1)))
    assert sent == (events.SendCommit(Membership("a", 1), orders(1)),)


def test_a_commit_requested_during_the_sync_waits_for_its_end() -> None:
    driver = Driver().owning(0)
    driver.rejoined(2)
    driver.tell(events.CommitRequested(orders(0)))
    assert not driver.member.can_commit
    driver.assigned(0)
    assert driver.member.can_commit


def met_a_rebalance(driver: Driver) -> None:
    """A commit of partition 0 was sent, and answered with REBALANCE_IN_PROGRESS."""
    driver.tell(events.CommitRequested(orders(0)))
    driver.tell(events.CommitsCanBeSent(orders(0)))
    sent = driver.member.membership
    driver.tell(events.CommitAnswered(sent, MembershipError.REBALANCE_IN_PROGRESS, orders(0)))


def test_a_commit_that_met_a_rebalance_waits_for_the_next_sync() -> None:
    driver = Driver().owning(0)
    met_a_rebalance(driver)
    assert driver.member.must_join
    assert not driver.member.can_commit
    driver.joined(2)
    driver.assigned(0)
    assert driver.member.can_commit


def test_a_commit_of_the_listener_before_a_join_does_not_wait_for_that_join() -> None:
    driver = Driver(protocol=EAGER).owning(0)
    driver.heartbeat(MembershipError.REBALANCE_IN_PROGRESS)
    assert driver.tell(events.AboutToJoin(EAGER)) == (events.Revoke(orders(0)),)
    met_a_rebalance(driver)
    assert driver.member.can_commit


TRANSIENT, FINAL, MEMBERSHIP = (7, 14, 15, 16), (-1, 3, 12, 24, 28, 29, 30, 35, 97), (22, 25, 27, 82)


class TestCommitResponse:
    """The meaning of the error codes of an OffsetCommit response."""

    @pytest.mark.parametrize(
        ("codes", "error", "accepted", "failed"),
        [
            ((0, 0), MembershipError.NONE, orders(0, 1), {}),
            *(((3, code, 0), MembershipError.OTHER, orders(2), {("orders", 0): 3}) for code in TRANSIENT),
            *(((code,), MembershipError.OTHER, orders(), {("orders", 0): code}) for code in FINAL),
            *(((3, code), membership_error(code), orders(), {("orders", 0): 3}) for code in MEMBERSHIP),
        ],
    )
    def test_what_failed_for_good_is_told_apart_from_what_may_be_tried_again(
        self,
        codes: tuple[int, ...],
        error: MembershipError,
        accepted: Partitions,
        failed: dict[Partition, int],
    ) -> None:
        answer = {("orders", number): code for number, code in enumerate(codes)}
        read = read_commit_response(frozenset(answer), answer)
        assert (read.error, read.accepted, read.failed) == (error, accepted, failed)
        assert read.coordinator_moved is bool({7, 15, 16} & {*codes})

    def test_a_partition_that_the_response_lacks_has_failed(self) -> None:
        read = read_commit_response(orders(0, 1), {("orders", 0): 0})
        assert (read.error, read.accepted, set(read.failed)) == (MembershipError.OTHER, orders(0), orders(1))

    def test_the_error_of_the_group_comes_before_one_of_a_partition_and_the_topics_not_allowed_last(
        self,
    ) -> None:
        errors: Any = SimpleNamespace(for_code=lambda code: lambda text: ClientError(f"{code}"))

        def told(failed: dict[int, int]) -> str:
            codes = {("orders", number): code for number, code in failed.items()}
            return str(commit_error(codes, "g", errors))

        assert told({0: 29, 1: 12, 2: 30}) == "30"
        assert told({0: 29, 1: 12, 2: 28}) == "12; not committed: orders-1"
        assert told({0: 29}) == "29"
        assert told({2: 12, 1: 29, 0: 12}) == "12; not committed: orders-0, orders-2"


class ClientError(Exception):
    """An error of Kafka's that a retry may help."""

    retriable = True


class CommitFailed(ClientError):
    """The client's CommitFailedError."""


class Committer:
    """A client. The test says when a request can be written, and answers it."""

    errors = SimpleNamespace(
        KafkaError=ClientError,
        CommitFailedError=CommitFailed,
        for_code=lambda code: lambda text: ClientError(code),
    )
    retries_commits = True

    def __init__(self, *owned: int, ready: bool = True) -> None:
        self.driver = Driver().owning(*owned)
        self.commits = SessionCommits(self, "g", Observers((), "g", logging.getLogger("tests")))  # type: ignore[arg-type]  # all that it needs
        self.ready = ready
        self.connecting: asyncio.Future[None] | None = None
        self.under_way: tuple[Membership, dict[Partition, int], asyncio.Future[Any]] | None = None
        self.written: list[dict[Partition, int]] = []
        self.backoff_over = asyncio.Event()
        self.backoff_over.set()
        self.tasks: set[asyncio.Future[None]] = set()
        self.on_write: Callable[[dict[Partition, int]], None] = lambda offsets: None
        self.on_install: Callable[[Partitions], None] = lambda partitions: None

    @property
    def member(self) -> MemberState:
        return self.driver.member

    @property
    def has_open_commits(self) -> bool:
        return bool(self.member.commits.waiting) or self.member.commits.is_under_way

    def handle(self, event: Event) -> None:
        self.do(self.driver.tell(event))

    def do(self, actions: tuple[Action, ...]) -> None:
        for action in actions:
            if isinstance(action, events.SendCommit):
                self.commits.write(action)
            elif isinstance(action, events.CommitRefused):
                self.commits.refuse(action)
            elif isinstance(action, events.Install):
                self.on_install(action.partitions)
        self.commits.look()

    # ---- the client's requests

    def wakeup(self) -> Wakeup:
        return Wakeup()

    def spawn(self, task: Coroutine[Any, Any, None]) -> object:
        started = asyncio.ensure_future(task)
        self.tasks.add(started)
        started.add_done_callback(self.tasks.discard)
        return started

    def check_offsets(self, offsets: Mapping[Any, Any]) -> None:
        if None in offsets.values():
            raise ValueError("no offset")

    def is_ready(self) -> bool:
        return self.ready

    async def back_off(self) -> None:
        await asyncio.sleep(0)
        await self.backoff_over.wait()

    async def connect(self, timeout_s: float) -> None:
        if not self.ready:
            self.connecting = asyncio.get_running_loop().create_future()
            await self.connecting

    def forget_coordinator(self, error_code: int) -> None:
        pass

    def offset_commit(self, membership: Membership, offsets: Mapping[Any, Any]) -> Awaitable[Any]:
        assert self.ready
        assert self.under_way is None, "a request is written while another is under way"
        self.under_way = (membership, dict(offsets), asyncio.get_running_loop().create_future())
        self.written.append(dict(offsets))
        self.on_write(dict(offsets))
        return self.under_way[2]

    # ---- the test

    def commit(self, offset: int, *numbers: int) -> asyncio.Future[None]:
        """Begin a commit of this offset for partitions of `orders`."""
        return asyncio.ensure_future(self.commits.commit(dict.fromkeys(orders(*numbers), offset), None))

    async def begins(self, offset: int, *numbers: int) -> asyncio.Future[None]:
        commit = self.commit(offset, *numbers)
        await settled()
        return commit

    async def connects(self) -> None:
        self.ready = True
        if self.connecting is not None and not self.connecting.done():
            self.connecting.set_result(None)
        await settled()

    async def answers(self, code: int = 0, **other: int) -> None:
        """The coordinator answers the request; `p1=14` is the error code of partition 1."""
        offsets, response = self._ends()
        response.set_result({one: other.get(f"p{one[1]}", code) for one in offsets})
        await settled()

    async def closes(self) -> None:
        """The connection is closed before there is a response."""
        _, response = self._ends()
        response.set_exception(ClientError("closed"))
        await settled()

    def _ends(self) -> tuple[dict[Partition, int], asyncio.Future[Any]]:
        assert self.under_way is not None
        _, offsets, response = self.under_way
        self.under_way = None
        return offsets, response


def of(offset: int, *numbers: int) -> dict[Partition, int]:
    return dict.fromkeys(sorted(orders(*numbers)), offset)


async def held_up() -> tuple[Committer, asyncio.Future[None], asyncio.Future[None], asyncio.Future[None]]:
    """A client that has written the second of two commits of partition 0, after one of partition 1."""
    client = Committer(0, 1)
    held = await client.begins(0, 1)
    first, second = client.commit(1, 0), client.commit(2, 0)
    await settled()
    await client.answers()
    return client, held, first, second


async def error_of(commit: asyncio.Future[None]) -> type[BaseException] | None:
    await settled()
    assert commit.done()
    return type(commit.exception()) if commit.exception() is not None else None


class TestCommitsOfASession:
    """Which offset is written, and what each caller is told."""

    @pytest.mark.parametrize("how", ["superseded", "abandoned", "lost"])
    @scene
    async def test_what_ends_while_the_connection_is_being_opened_is_never_written(self, how: str) -> None:
        client = Committer(0, ready=False)
        first = await client.begins(1, 0)
        if how == "superseded":
            second = client.commit(2, 0)
        elif how == "abandoned":
            first.cancel()
        else:
            client.do(client.driver.heartbeat(MembershipError.UNKNOWN_MEMBER_ID))
        await settled()
        await client.connects()
        assert client.written == ([of(2, 0)] if how == "superseded" else [])
        if how == "superseded":
            await client.answers()
            assert (await error_of(first), await error_of(second)) == (None, None)
        elif how == "lost":
            assert await error_of(first) is CommitFailed

    @scene
    async def test_no_commit_waits_for_a_connection_when_another_one_is_open(self) -> None:
        client = Committer(0, ready=False)
        commit = await client.begins(1, 0)
        client.ready = True  # To another coordinator, say.
        client.do(client.driver.heartbeat(MembershipError.NONE))
        assert client.written == [of(1, 0)]
        await client.connects()
        await client.answers()
        assert await error_of(commit) is None
        assert client.written == [of(1, 0)]

    @pytest.mark.parametrize("code", [22, 25, 82], ids=["generation", "member", "fenced"])
    @scene
    async def test_a_late_response_about_an_earlier_generation_does_not_cost_the_membership(
        self, code: int
    ) -> None:
        client = Committer(0)
        commit = await client.begins(1, 0)
        client.do(client.driver.heartbeat(MembershipError.REBALANCE_IN_PROGRESS))
        client.driver.joined(2)
        client.do(client.driver.assigned(0))
        client.handle(events.ListenerReturned())
        await client.answers(code)
        assert (client.member.membership.generation, client.member.owned) == (2, orders(0))
        assert client.written == [of(1, 0), of(1, 0)]
        await client.answers()
        assert await error_of(commit) is None

    @scene
    async def test_a_commit_is_tried_again_when_the_later_one_was_abandoned_before_it_was_written(
        self,
    ) -> None:
        client = Committer(0)
        first = await client.begins(1, 0)
        second = await client.begins(2, 0)
        second.cancel()
        await settled()
        await client.closes()
        assert client.written == [of(1, 0), of(1, 0)]
        await client.answers()
        assert await error_of(first) is None

    @pytest.mark.parametrize("when", ["while it is sent", "afterwards"])
    @scene
    async def test_no_commit_is_tried_again_when_a_later_one_may_have_been_accepted(self, when: str) -> None:
        client, held, first, second = await held_up()
        assert client.written[1:] == [of(2, 0)]
        client.ready = False
        if when == "afterwards":
            await client.closes()
            second.cancel()
            await settled()
        else:
            second.cancel()
            await client.closes()
        await client.connects()
        assert await error_of(held) is None
        assert await error_of(first) is CommitFailed
        assert len(client.written) == 2

    @scene
    async def test_a_partition_that_failed_for_good_fails_the_commit_in_the_request_alone(self) -> None:
        client, held, first, second = await held_up()
        await client.answers(12)
        assert client.written == [of(0, 1), of(2, 0), of(1, 0)]
        await client.answers()
        assert [await error_of(one) for one in (held, first, second)] == [None, None, ClientError]

    @scene
    async def test_beside_partitions_that_failed_or_were_accepted_the_others_are_tried_again(self) -> None:
        client = Committer(0, 1, 2)
        commit = await client.begins(1, 0, 1, 2)
        await client.answers(p0=3, p1=14)
        assert client.written[1:] == [of(1, 1)]
        await client.answers()
        assert await error_of(commit) is ClientError

    @scene
    async def test_an_offset_that_cannot_be_sent_fails_its_own_commit_alone(self) -> None:
        client = Committer(0)
        good, bad = client.commit(1, 0), client.commit(None, 0)  # type: ignore[arg-type]  # on purpose
        assert await error_of(bad) is ValueError
        await client.answers()
        assert await error_of(good) is None
        assert not client.commits._lines

    @scene
    async def test_an_error_that_no_retry_helps_fails_all_that_wait_for_the_connection(self) -> None:
        client = Committer(0, ready=False)
        commit = await client.begins(1, 0)
        assert client.connecting is not None
        client.connecting.set_exception(ValueError("no error of Kafka"))
        assert await error_of(commit) is ValueError
        assert not client.has_open_commits

    @scene
    async def test_without_retries_a_closed_connection_fails_the_commit(self) -> None:
        client = Committer(0)
        client.retries_commits = False
        commit = await client.begins(1, 0)
        await client.closes()
        assert await error_of(commit) is ClientError
        assert not client.has_open_commits

    @scene
    async def test_a_request_may_have_the_most_partitions_and_no_more(self) -> None:
        numbers = range(MOST_PARTITIONS + 1)
        client = Committer(*numbers, ready=False)
        for some in ([*numbers][:-2], numbers[-2:-1], numbers[-1:]):
            client.commit(1, *some)
        await settled()
        await client.connects()
        assert client.written == [of(1, *numbers[:-1])]
        await client.answers()
        assert client.written[1:] == [of(1, *numbers[-1:])]
        await client.answers()

    @scene
    async def test_while_the_backoff_lasts_nothing_is_written_not_even_a_later_commit(self) -> None:
        client = Committer(0, 1)
        commits = [client.commit(1, 0)]
        await settled()
        client.backoff_over.clear()
        await client.answers(14)  # The coordinator is loading the group.
        commits.append(client.commit(2, 1))
        await settled()
        assert client.written == [of(1, 0)]
        client.backoff_over.set()
        await settled()
        assert client.written[1:] == [{**of(1, 0), **of(2, 1)}]
        await client.answers()
        assert [await error_of(one) for one in commits] == [None, None]


class Chance:
    """Partitions come and go, and connections break, while commits are requested and abandoned at random."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.client = Committer(0, 1, 2)
        self.client.on_write, self.client.on_install = self.write, self.install
        self.generation = 1
        self.tenure = dict.fromkeys(orders(0, 1, 2), 0)
        """How often the member got each partition."""
        self.owned = orders(0, 1, 2)
        self.requested: list[tuple[asyncio.Future[None], dict[Partition, int]]] = []
        """For each commit, the tenure of its owned partitions at the time of the request."""
        self.possible = dict.fromkeys(orders(0, 1, 2), -1)
        """The highest offset of each partition that the coordinator may have accepted."""
        self.accepted = dict.fromkeys(orders(0, 1, 2), -1)

    def install(self, partitions: Partitions) -> None:
        for new in partitions - self.owned:
            self.tenure[new] += 1
        self.owned = partitions

    def write(self, offsets: dict[Partition, int]) -> None:
        for partition, offset in offsets.items():
            commit, tenures = self.requested[offset]
            assert not commit.done()
            assert tenures[partition] == self.tenure[partition], "written after the partition was given up"
            assert offset >= self.possible[partition], "written after a later commit"

    def request(self, *numbers: int) -> None:
        mine = orders(*numbers) & self.client.member.committable
        commit = self.client.commit(len(self.requested), *numbers)
        self.requested.append((commit, {one: self.tenure[one] for one in mine}))

    async def answer(self) -> None:
        client = self.client
        assert client.under_way is not None
        membership, offsets, _ = client.under_way
        if membership.generation != self.generation or not client.member.in_group:
            await client.answers(22)
            return
        kind = self.chance.choice(["accepted", "accepted", "in part", "rebalance", "closed", "no response"])
        codes = dict.fromkeys(offsets, 0 if kind in ("accepted", "no response") else 27)
        if kind == "in part":
            codes = {one: self.chance.choice([0, 12, 14]) for one in offsets}
        for partition, code in codes.items():
            if code == 0:
                self.accepted[partition] = self.possible[partition] = offsets[partition]
            elif kind == "closed":
                self.possible[partition] = offsets[partition]
        if kind in ("closed", "no response"):
            client.ready = self.chance.random() < 0.5
            await client.closes()
        else:
            await client.answers(**{f"p{one[1]}": code for one, code in codes.items()})

    async def rebalance(self) -> None:
        client, driver = self.client, self.client.driver
        client.handle(events.RejoinRequested("a test"))
        if not driver.member.must_join:
            return
        client.handle(events.AboutToJoin(COOPERATIVE))
        if driver.member.call is not None and isinstance(driver.member.call.asked, events.Lose):
            client.handle(events.ListenerReturned())
        self.generation += 1
        client.handle(events.Joined(driver.member.join.attempt, Membership("a", self.generation)))
        await settled()
        client.do(driver.assigned(*self.chance.sample(range(3), self.chance.randint(0, 3))))
        if driver.member.call is not None and isinstance(driver.member.call.asked, events.Revoke):
            await settled()
            client.handle(events.ListenerReturned())
        client.handle(events.ListenerReturned())

    async def step(self) -> None:
        client = self.client
        match self.chance.choice(
            ["request"] * 6 + ["answer"] * 5 + ["rebalance", "lost", "abandon", "connection"]
        ):
            case "request":
                self.request(*self.chance.sample(range(3), self.chance.randint(1, 3)))
            case "answer" if client.under_way is not None:
                await self.answer()
            case "rebalance":
                await self.rebalance()
            case "lost" if client.member.in_group:
                client.do(client.driver.heartbeat(MembershipError.ILLEGAL_GENERATION))
                await self.rebalance()
            case "abandon" if self.requested:
                self.chance.choice(self.requested[-4:])[0].cancel()
            case "connection":
                if client.ready:
                    client.ready = False
                else:
                    await client.connects()
        await settled()

    async def run(self) -> None:
        client = self.client
        for _ in range(120):
            await self.step()
        while client.has_open_commits or client.member.must_join:
            await client.connects()
            if client.under_way is not None:
                await self.answer()
            elif client.member.must_join:
                await self.rebalance()
            await settled()
        for offset, (commit, tenures) in enumerate(self.requested):
            assert commit.done()
            if not commit.cancelled() and commit.exception() is None:
                assert all(self.accepted[partition] >= offset for partition in tenures)
        assert not client.commits._lines


@pytest.mark.parametrize("seed", range(60))
@scene
async def test_no_commit_goes_back_or_outlives_its_ownership_and_each_has_its_outcome(seed: int) -> None:
    await Chance(seed).run()
