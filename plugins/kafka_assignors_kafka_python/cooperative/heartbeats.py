"""Heartbeats: all the time, joins included, with the membership that the machine has.

All of it runs on kafka-python's I/O thread.
"""

from __future__ import annotations

import time
from typing import Any

from kafka import errors as Errors
from kafka.net.wakeup_notifier import (  # pyright: ignore[reportMissingImports]  # its stubs are of 2.x
    WakeupNotifier,
)

from kafka_assignors.rebalance import HeartbeatPace, clock
from kafka_assignors.rebalance.events import HeartbeatAnswered, MembershipError, PollIntervalChecked
from kafka_assignors_kafka_python.cooperative import requests
from kafka_assignors_kafka_python.cooperative.errors import Source

__all__ = ["Heartbeats"]


class Heartbeats:
    """The heartbeats of one coordinator."""

    def __init__(self, coordinator: Any) -> None:
        config = coordinator.config
        self._coordinator = coordinator
        self._wakeup = WakeupNotifier(coordinator._net)
        self._pace = HeartbeatPace(
            config["heartbeat_interval_ms"] / 1000, config["max_poll_interval_ms"] / 1000
        )
        self._expects_another_round = False

    def expect_another_round(self) -> None:
        """The member was assigned: a second round may follow, and heartbeats come sooner for a moment."""
        self._expects_another_round = True
        self._wakeup.notify()

    def stop(self) -> None:
        """The consumer was closed: have `run` see it."""
        self._wakeup.notify()

    async def run(self) -> None:
        """Send heartbeats until the consumer is closed, and look whether the user still polls."""
        coordinator, pace = self._coordinator, self._pace
        while not coordinator.is_closed:
            await self._wakeup(pace.wait_s(time.monotonic() - coordinator.polled_at))
            if self._expects_another_round:
                self._expects_another_round = False
                pace.assigned()
                continue
            pace.waited()
            try:
                # The poll interval does not count the time of a suspended computer.
                since_poll_s = time.monotonic() - coordinator.polled_at
                coordinator.handle(PollIntervalChecked(clock.including_suspend() - since_poll_s))
                is_answered = not coordinator.in_group or await self._send()
            except Exception as error:
                failure = coordinator.unexpected("a heartbeat could not be sent", error)
                coordinator.errors.raise_in_poll(failure, Source.HEARTBEAT)
                is_answered = False
            if not is_answered:
                coordinator.heartbeat.fail_heartbeat()
                pace.failed(coordinator.config["retry_backoff_ms"] / 1000)

    async def _send(self) -> bool:
        coordinator = self._coordinator
        patience_ms = coordinator.config["session_timeout_ms"]
        try:
            if not await coordinator.ensure_coordinator_ready_async(timeout_ms=patience_ms):
                return False
            membership, sent_at = coordinator.membership, clock.including_suspend()
            coordinator.heartbeat.sent_heartbeat()
            sending = coordinator.start(
                coordinator.send,
                requests.heartbeat(coordinator.group_id, membership, coordinator.group_instance_id),
            )
            response = await coordinator.wait_for(sending, patience_ms)
        except Errors.KafkaTimeoutError as error:
            coordinator.coordinator_dead(error)
            return False
        except Errors.KafkaError as error:
            if not error.retriable:
                coordinator.errors.raise_in_poll(error, Source.HEARTBEAT)
            return False
        code = response.error_code
        answer: MembershipError = coordinator.settle(code)
        coordinator.handle(HeartbeatAnswered(membership, answer, sent_at))
        if answer is MembershipError.OTHER and not requests.is_transient(code):
            coordinator.errors.raise_in_poll(requests.error_of(code, coordinator.group_id), Source.HEARTBEAT)
        elif answer is not MembershipError.OTHER:
            coordinator.errors.withdraw(Source.HEARTBEAT)
            if answer in (MembershipError.NONE, MembershipError.REBALANCE_IN_PROGRESS):
                coordinator.heartbeat.received_heartbeat()
        return answer is not MembershipError.OTHER
