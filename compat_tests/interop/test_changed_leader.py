"""On a real broker, nothing moves when another member takes over the lead (see `change_leader`)."""

from __future__ import annotations

import pytest

from compat_tests.interop.change_leader import alternate
from compat_tests.support.kafka_cluster import Kafka


def test_nothing_moves_when_another_static_member_takes_over(
    kafka: Kafka, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = alternate(kafka, "sticky", 2)
    with capsys.disabled():
        print(f"\nsticky, static members: {', '.join(one.leader for one in seen)} took over", end="")
    assert [one.moved for one in seen] == [0, 0]
