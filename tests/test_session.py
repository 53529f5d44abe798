"""A session needs no event loop of its own, and reports an error when a retry makes sense.

A script answers the requests; the tests of the two clients cover real coordinators. The coroutines run
without asyncio: every `await` comes from the client.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from compat_tests.scripted.error_codes import ERRORS, UNKNOWN_CODE
from kafka_assignors.assignor import Assignor
from kafka_assignors.messages import JoinedMember, JoinGroupResponse, SyncGroupResponse
from kafka_assignors.rebalance import MemberState, Settings, events
from kafka_assignors.rebalance.client import drop_unsent
from kafka_assignors.rebalance.error_codes import CONSEQUENCES, answered, error_of
from kafka_assignors.rebalance.events import NO_MEMBERSHIP, Event, Membership, MembershipError
from kafka_assignors.rebalance.observer import RebalanceObserver
from kafka_assignors.rebalance.progress import TRANSITIONS, Phase
from kafka_assignors.rebalance.session import Session
from kafka_assignors.strategies import CooperativeSticky, Sticky
from kafka_assignors.strategy import RebalanceProtocol, Strategy
from kafka_assignors.wire import ConsumerAssignment, encode_assignment

NOT_AUTHORIZED = 30


class ClientError(Exception):
    errno = -1
    retriable = True


class Pause:
    """The awaitable of a client's loop: here the step continues at once."""

    def __await__(self) -> Generator[Pause, None, None]:
        yield self


@dataclass
class Client:
    """A client; a script answers its requests."""

    answers: list[int | Exception]
    member: MemberState = field(default_factory=lambda: MemberState(Settings(45, 300, 300)))
    done: list[Any] = field(default_factory=list)
    offered: list[bytes] = field(default_factory=list)
    retries_commits: bool = True
    warms: bool = False
    user_was_told: bool = True
    while_it_leaves: Callable[[], None] = lambda: None

    @property
    def errors(self) -> Any:
        return SimpleNamespace(KafkaError=ClientError, for_code=lambda code: ClientError)

    def spawn(self, task: Coroutine[Any, Any, None]) -> object:
        for pause in iter(lambda: _next(task), None):
            assert isinstance(pause, Pause)
        return task

    def wakeup(self) -> Any:
        async def wait(timeout_s: float | None = None) -> None:
            await Pause()
            self.done.append(f"pause {timeout_s}")

        wait.notify = lambda: None  # type: ignore[attr-defined]
        return wait

    async def back_off(self) -> None:
        await Pause()
        self.done.append("back off")

    def forget_coordinator(self, error_code: int) -> None:
        self.done.append("forget the coordinator")

    async def join_group(
        self, member_id: str, protocols: Sequence[tuple[str, bytes]], reason: str
    ) -> JoinGroupResponse:
        await Pause()
        self.offered.append(protocols[0][1])
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return JoinGroupResponse(answer, "a", 1, "leader", protocols[0][0], [])

    async def sync_group(self, *_: object) -> SyncGroupResponse:
        await Pause()
        return SyncGroupResponse(0, encode_assignment(ConsumerAssignment(0, {"orders": [0]})))

    async def find_coordinator(self, _: float) -> None:
        self.done.append("look the coordinator up")

    async def leave_group(self, member_id: str, _: str) -> None:
        await Pause()
        self.while_it_leaves()
        self.done.append(f"{member_id} left")

    def partition_count(self, topic: str) -> int:
        return 1

    def assigned(self, partitions: object, *, racks: bool) -> None:
        self.done.append(f"watch, racks: {racks}")

    def handle(self, event: Event) -> None:
        self.done.append(event)

    def stop_leading(self) -> None:
        pass

    def raise_to_user(self, error: Exception) -> None:
        self.done.append(f"tell the user: {error}")


def _next(task: Coroutine[Any, Any, None]) -> Any:
    try:
        return task.send(None)
    except StopIteration:
        return None


def about_to_join(
    *answers: int | Exception, protocol: RebalanceProtocol = RebalanceProtocol.COOPERATIVE
) -> tuple[Any, events.SendJoin]:
    """A client whose member is about to send JoinGroup."""
    client = Client(list(answers))
    client.member, _ = client.member.handle(events.SubscriptionChanged(frozenset({"orders"})), 0.0)
    client.member, (join,) = client.member.handle(events.AboutToJoin(protocol), 0.0)
    assert isinstance(join, events.SendJoin)
    return client, join


def joining(*answers: int | Exception) -> list[Any]:
    """The actions of a session after SendJoin."""
    client, join = about_to_join(*answers)
    session = session_of(client)
    session.carry_out(join)
    assert session.joins_are_answered
    return client.done


def join_and_sync(client: Any, session: Session, join: events.SendJoin) -> None:
    """Carry the join out, and the sync that follows its response."""
    session.carry_out(join)
    client.member, (sync,) = client.member.handle(client.done.pop(), 0.0)
    session.carry_out(sync)


def session_of(client: Any, *strategies: Strategy, observers: Sequence[RebalanceObserver] = ()) -> Session:
    return Session(
        client,
        [Assignor(strategy) for strategy in strategies or (CooperativeSticky(),)],
        group_id="g",
        instance_id=None,
        rack=None,
        heartbeat_interval_s=3,
        retry_backoff_s=0.1,
        log=logging.getLogger("tests"),
        observers=observers,
    )


def failed(error: MembershipError, given_id: str = "") -> events.JoinFailed:
    return events.JoinFailed(1, error, given_id)


def test_a_join_without_a_response_is_reported_after_the_backoff() -> None:
    assert joining(ClientError()) == ["back off", failed(MembershipError.OTHER)]


def test_joins_that_are_refused_one_after_the_other_have_growing_pauses_up_to_a_second() -> None:
    client, join = about_to_join(*[NOT_AUTHORIZED] * 7, 0, *[NOT_AUTHORIZED] * 2)
    session = session_of(client)
    for _ in range(7):
        session.carry_out(join)
    pauses = ["pause 0.1", "pause 0.2", "pause 0.4", "pause 0.8", "pause 1.0", "pause 1.0"]
    assert [one for one in client.done if str(one).startswith("pause")] == pauses
    join_and_sync(client, session, join)
    for _ in range(2):
        session.carry_out(join)
    assert [one for one in client.done if str(one).startswith("pause")] == [*pauses, "pause 0.1"]


def test_an_eager_member_which_holds_nothing_names_what_it_was_assigned_last_and_when() -> None:
    client, join = about_to_join(0, 0, protocol=RebalanceProtocol.EAGER)
    session = session_of(client, Sticky())
    join_and_sync(client, session, join)
    session.carry_out(join)
    joined = [JoinedMember("a", None, data) for data in client.offered]
    before, after = (Assignor(Sticky()).read_members([one]).members[0] for one in joined)
    assert before.owned == {}
    assert (after.owned, after.generation, after.revoked) == ({"orders": (0,)}, 1, True)


@pytest.mark.parametrize("request_name", ["JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit"])
def test_the_text_of_every_error_has_its_request_and_kafkas_name_of_it(request_name: str) -> None:
    for error in ERRORS:
        text = answered(request_name, error.code, "billing")
        assert text.startswith(f"the coordinator of group 'billing' answered {request_name} with ")
        named = f"{error.name} (error {error.code})", f"error {error.code}"
        assert text.endswith(named)
    assert answered(request_name, -1, "g").endswith(" UNKNOWN_SERVER_ERROR (error -1)")
    assert answered(request_name, UNKNOWN_CODE, "g").endswith(f" error {UNKNOWN_CODE}")


def test_a_group_that_cannot_be_stored_is_told_where_to_look() -> None:
    errors: Any = Client([]).errors
    said = str(error_of("SyncGroup", -1, "g", errors))
    assert "UNKNOWN_SERVER_ERROR" in said
    assert "max.message.bytes" in said
    assert "max.message.bytes" not in str(error_of("Heartbeat", -1, "g", errors))


def test_an_error_of_ours_is_logged_and_told_to_the_user_and_the_join_is_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    what, error = "the request to join could not be made", ValueError("no error of Kafka")
    told = f"tell the user: group 'g': {what}: {error!r}"
    assert joining(error) == [told, "back off", failed(MembershipError.OTHER)]
    (record,) = caplog.records
    assert record.getMessage() == f"group 'g', member '': {what}"
    assert record.exc_info is not None
    assert record.exc_info[1] is error


@pytest.mark.parametrize("response", CONSEQUENCES, ids=lambda response: response.__name__)
def test_every_error_has_a_consequence_for_every_response(response: type[Event]) -> None:
    consequences: Mapping[MembershipError, Any] = CONSEQUENCES[response]
    errors = set(MembershipError) - ({MembershipError.NONE} if "Failed" in response.__name__ else set())
    assert set(consequences) == errors


def test_every_phase_has_a_row_in_the_table_and_leads_to_phases_that_have_one() -> None:
    assert set(TRANSITIONS) == set(Phase)
    assert {phase for row in TRANSITIONS.values() for phase in row.values()} == set(Phase) - {
        Phase.FENCED,
        Phase.CLOSED,
    }


class FailsAfterTheAssignment(CooperativeSticky):
    name = "fails-after-the-assignment"

    def follows_racks(self) -> bool:
        raise ValueError("a fault of the strategy")


@pytest.mark.parametrize("strategy", [CooperativeSticky(), FailsAfterTheAssignment()])
def test_what_a_strategy_raises_after_the_assignment_is_told_and_does_not_end_the_consumer(
    strategy: Strategy,
) -> None:
    """The consumer cannot continue after an exception that leaves a task of the session."""
    client, join = about_to_join(0)
    session = session_of(client, strategy)
    join_and_sync(client, session, join)
    told = client.done[-1]
    assert isinstance(client.done[-2], events.Assigned)
    if isinstance(strategy, FailsAfterTheAssignment):
        assert told.startswith(
            "tell the user: group 'g': changes of its topics cannot be followed: ValueError"
        )
    else:
        assert told == "watch, racks: False"


def test_a_member_that_leaves_while_it_reads_its_assignment_watches_nothing() -> None:
    client, join = about_to_join(0)

    def leaves(_: str) -> int:
        client.member = replace(client.member, membership=NO_MEMBERSHIP)
        return 1

    client.partition_count = leaves
    join_and_sync(client, session_of(client), join)
    assert isinstance(client.done[-1], events.Assigned)


def test_a_member_that_left_and_joined_again_leaves_in_any_case() -> None:
    client = Client([])
    session = session_of(client)
    session.carry_out(events.SendLeave("a", "max.poll.interval.ms was exceeded"))
    client.member = replace(client.member, membership=Membership("b", 1))
    session.leave_in_any_case()
    session.leave_in_any_case()
    assert client.done == ["look the coordinator up", "a left", "look the coordinator up", "b left"]


def test_a_join_that_is_given_up_because_the_member_leaves_ends_when_it_has_left() -> None:
    client, join = about_to_join()
    session = session_of(client)
    client.while_it_leaves = session.look  # Another event meanwhile.
    client.give_up = lambda join: client.done.append("give the join up")
    client.spawn = lambda task: task.close()  # The join is never answered.
    session.carry_out(join)
    del client.spawn
    client.member, _ = client.member.handle(events.SubscriptionChanged(frozenset()), 0.0)
    session.carry_out(events.SendLeave("a", "it unsubscribed"))
    assert client.done == ["look the coordinator up", "a left", "give the join up"]


@pytest.mark.parametrize("raised", [OSError, TypeError, None], ids=["closed", "uvloop", "TLS"])
def test_a_connection_without_a_socket_is_none_whose_unsent_bytes_are_dropped(raised: Any) -> None:
    class Socket:
        def setsockopt(self, *_: object) -> None:
            raise raised

    for when_closed in (True, False):
        drop_unsent(Socket() if raised else None, when_closed=when_closed)
