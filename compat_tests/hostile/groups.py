"""Groups on a real broker with hostile names as group ids and client ids."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from compat_tests.hostile.raw_member import RawMember
from kafka_assignors.wire import Subscription, encode_subscription
from tests.hostile_names import NAMES

GROUP_IDS = {
    **NAMES,
    "quotes": 'it\'s "quoted" `here` $(touch /tmp/executed)',
    "a folder of a table": "group=a/b",
    "a date folder": "../raw/date=2026-03-01",
    "longer than a file name": "n" * 300,
    "longest": "n" * 32_000,
}
"""Group ids by a description of their content."""


@contextlib.contextmanager
def hostile_groups(bootstrap: str, topic: str) -> Iterator[None]:
    """A group of one member, which reads `topic`, for each of `GROUP_IDS`; all are stable in the block."""
    metadata = encode_subscription(Subscription(1, (topic,)))
    with contextlib.ExitStack() as stack:
        members = [
            stack.enter_context(RawMember(bootstrap, group, metadata=metadata, client_id=group))
            for group in GROUP_IDS.values()
        ]
        for member in members:
            member.wait_until_assigned()
        yield
