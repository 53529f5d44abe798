"""A leader that looks at the weights between rebalances, and asks for a rebalance when the loads need one.

    a generation begins     the watch keeps the leader's assignment, if the leader's assignor has a trigger
    every `check_every_s`   it asks the source for weights, as a join does, and has `load_trigger` judge them
    the judgement says act  the member joins again, and says why: the group has one ordinary rebalance
    a join begins           the assignment is dropped, and so is every answer that is still under way

The watch decides nothing: `load_trigger` decides when a rebalance pays, and the strategy what it moves, by
fresh weights in the join. The watch has one task, from the first generation that this member leads to the end
of the consumer, so there is never more than one question or judgement at a time. A member without a trigger
has no watch, and one that never leads has no task.

Errors of the source and the strategy do not disturb the consumer. The first of several checks that fail in
the same way is logged, and a check that fails asks for no rebalance.
"""

from __future__ import annotations

import logging
import math
from contextlib import suppress
from dataclasses import dataclass, replace

from kafka_assignors.assignor import Assignor, NoWeightsError, Weighed
from kafka_assignors.group import NO_GENERATION, Assignment, Group, Topic, some_of
from kafka_assignors.join_sync import EncodedAssignments
from kafka_assignors.load_trigger import LoadJudgement, LoadTrigger, TriggerState, judge_load, leads
from kafka_assignors.pause_model import Consumption
from kafka_assignors.rebalance.events import Membership, RejoinRequested
from kafka_assignors.rebalance.observer import Observers
from kafka_assignors.rebalance.progress import Phase
from kafka_assignors.rebalance.transport import Consumer, Outcome, Transport
from kafka_assignors.strategy import RebalanceProtocol

REASON = "the greatest load is too far above its bound"
"""Why a member joins again. It is the same each time, because metrics keep a series for each reason; the
figures are in the log and in `load_judged`."""


@dataclass(frozen=True, slots=True)
class _LedGeneration:
    """A generation that this member leads: its members as they joined, and their assignment."""

    assignor: Assignor
    trigger: LoadTrigger
    membership: Membership
    group: Group
    assignment: Assignment


class LoadWatch:
    """The watch of one consumer. All methods run on the client's event loop."""

    def __init__(
        self,
        consumer: Consumer,
        transport: Transport,
        protocol: RebalanceProtocol,
        *,
        group_id: str,
        observers: Observers | None,
        log: logging.Logger,
    ) -> None:
        self._consumer = consumer
        self._transport = transport
        self._consumption = (
            Consumption.EAGER if protocol is RebalanceProtocol.EAGER else Consumption.COOPERATIVE
        )
        self._group_id = group_id
        self._observers = observers
        self._log = log
        self._generation: _LedGeneration | None = None
        self._state: TriggerState | None = None
        self._state_of: Assignor | None = None
        self._next_check_at = math.inf
        self._due = transport.wakeup()
        self._has_task = self._is_stopped = False
        self._question: Outcome | None = None
        self._trouble = ""

    # ---- what the session reports

    def assigned(self, assignor: Assignor, membership: Membership, led: EncodedAssignments | None) -> None:
        """A generation has begun; `led` is what this member assigned as its leader, None if it follows."""
        trigger = assignor.rebalance
        if led is None or trigger is None:
            self._state = self._state_of = None
            return
        now = self._transport.now()
        self._state = leads(trigger, self._state if self._state_of is assignor else None, now)
        self._state_of = assignor
        if led.result.withheld:
            return  # It is handed over in the next generation, which begins in a moment.
        self._generation = _LedGeneration(assignor, trigger, membership, led.group, led.result.assignment)
        self._next_check_at = now + trigger.check_every_s
        self._due.notify()
        if not self._has_task:
            self._has_task = True
            self._transport.spawn(self._run())

    def join_begins(self) -> None:
        """Drop the generation; an answer for it that is still under way is dropped when it comes."""
        self._generation = None

    async def question_ended(self, timeout_s: float) -> None:
        """Wait until the source has answered the watch: it is asked one question at a time.

        A join that asks meanwhile gets no weights. The wait takes no longer than a question of the join.
        """
        question, self._question = self._question, None
        if question is not None:
            with suppress(self._transport.errors.KafkaError):  # The source hangs, and the join goes on.
                await question.wait(timeout_s)

    def stop(self) -> None:
        """The consumer is closed: the task ends."""
        self._generation = None
        self._is_stopped = True
        self._due.notify()

    # ---- the task

    async def _run(self) -> None:
        now = self._transport.now
        while not self._is_stopped:
            watched = self._generation
            await self._due(None if watched is None else max(0.0, self._next_check_at - now()))
            if watched is None or now() < self._next_check_at:
                continue
            if watched is self._generation and watched.membership != self._consumer.member.membership:
                self._generation = None  # The member is out of the group, and leads no more.
            if self._is_settled(watched):
                try:
                    await self._check(watched)
                except NoWeightsError as error:
                    self._failed("weights", f"no weights from {watched.assignor.weights!r}: {error}")
                except Exception as error:
                    self._failed("judgement", f"the load could not be judged: {error!r}", error)
            self._next_check_at = max(self._next_check_at, now() + watched.trigger.check_every_s)

    def _is_settled(self, watched: _LedGeneration) -> bool:
        """Whether the member still leads this generation, and no rebalance is under way or due."""
        member = self._consumer.member
        return (
            watched is self._generation
            and member.membership == watched.membership
            and member.phase is Phase.IDLE
            and member.call is None
            and not member.join.reason
            and member.has_lease(self._transport.now())
            and not member.poll_interval_exceeded
            and not member.closing
        )

    async def _check(self, watched: _LedGeneration) -> None:
        """Ask for weights, have them judged, and act if the judgement says so."""
        transport = self._transport
        weighed = await self._weigh(watched)
        if not self._is_settled(watched):
            return
        if weighed.findings:
            self._failed("weights", some_of(weighed.findings, 1))
            return
        assert self._state is not None
        judged: tuple[TriggerState, LoadJudgement] = await transport.in_thread(
            _judge, watched, weighed.topics, self._state, transport.now(), self._consumption
        )
        if not self._is_settled(watched):
            return
        self._trouble = ""
        self._state, judgement = judged
        if self._observers is not None:
            self._observers.load_judged(watched.assignor.strategy, judgement)
        if not judgement.act:
            self._log.debug("group %r: asks for no rebalance: %s", self._group_id, judgement.reason)
        else:
            self._log.info("group %r: asks for a rebalance: %s", self._group_id, judgement.reason)
            self._consumer.handle(RejoinRequested(REASON))

    async def _weigh(self, watched: _LedGeneration) -> Weighed:
        question = self._question = self._transport.outcome()
        try:
            topics = list(watched.group.topics.values())
            return await self._transport.ask_for_weights(watched.assignor, topics)
        finally:
            self._question = None
            question.resolve()

    def _failed(self, kind: str, message: str, error: Exception | None = None) -> None:
        """Log the first of several checks that fail in the same way."""
        if self._trouble != kind:
            self._trouble = kind
            level = logging.WARNING if error is None else logging.ERROR
            note = "no rebalance because of the load until that is over"
            self._log.log(level, "group %r: %s; %s", self._group_id, message, note, exc_info=error)


def _judge(
    watched: _LedGeneration, topics: list[Topic], state: TriggerState, now_s: float, consumption: Consumption
) -> tuple[TriggerState, LoadJudgement]:
    generation = watched.membership.generation
    members = (
        replace(member, owned=owned, generation=generation if owned else NO_GENERATION, revoked=False)
        for member in watched.group.members.values()
        for owned in (watched.assignment.members[member.id],)
    )
    group = Group.of(topics, members, generation + 1)
    return judge_load(watched.trigger, state, now_s, group, watched.assignor.strategy, consumption)
