"""A member program (see `compat_tests.support.member_reports`): a Java consumer, for groups of any clients.

The consumer itself is `compat_tests/java/src/SmallMember.java`. This process starts it, translates its events
into reports, and makes it leave when this process is told to stop. The consumer revokes before it leaves, and
reports that.
"""

from __future__ import annotations

import time
from typing import Any

from compat_tests.java.member import JavaMember
from compat_tests.support.member_reports import MemberSpec, Reporter, sigterms

_A_DAY_S = 86_400.0
"""Longer than any test; the test that started the member ends it."""


class Translator:
    """Reports the Java consumer's events with the time at which they happened."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._told = 0
        # Java's events have calendar time, and reports have the time of the machine's monotonic clock.
        self._clock_started_at = time.time() - time.monotonic()

    def report(self, events: list[dict[str, Any]]) -> None:
        """Report the new ones among `events`, which are all events so far."""
        for event in events[self._told :]:
            at = event["at_ms"] / 1000 - self._clock_started_at
            match event["event"]:
                case "assigned":
                    self._reporter.report(
                        "assigned",
                        at=at,
                        member_id=event["member"],
                        generation=event["generation"],
                        partitions=event["owned"],
                    )
                case "revoked" | "lost":
                    self._reporter.report("revoked", at=at, partitions=event["partitions"])
                case "records":
                    for topic, spans in event["records"].items():
                        for partition, (first, last, _) in spans.items():
                            self._reporter.consumed(topic, int(partition), range(first, last + 1))
                case "left":
                    self._reporter.report("stopped", at=at)
        self._told = len(events)

    def has_news(self, events: list[dict[str, Any]]) -> bool:
        return len(events) > self._told


def consume(spec: MemberSpec, reporter: Reporter) -> None:
    stopping = sigterms()
    options = {"assignors": ",".join(spec.assignors), "rack": spec.rack, "instance": spec.instance_id}
    config: dict[str, object] = {
        "client.id": spec.name,
        "session.timeout.ms": spec.session_timeout_ms,
        "heartbeat.interval.ms": 300,
        "metadata.max.age.ms": spec.metadata_max_age_ms,
    }
    if spec.rebalance_timeout_ms is not None:
        config["max.poll.interval.ms"] = spec.rebalance_timeout_ms
    translator = Translator(reporter)
    given = {name: value for name, value in options.items() if value is not None}
    with JavaMember(spec.bootstrap, spec.group, spec.topics, config=config, **given) as member:
        while not stopping:
            member.wait_until(
                lambda: bool(stopping) or translator.has_news(member.events), timeout_s=_A_DAY_S
            )
            translator.report(member.events)
        member.leave()
        translator.report(member.events)


if __name__ == "__main__":
    consume(MemberSpec.from_arguments(), Reporter())
