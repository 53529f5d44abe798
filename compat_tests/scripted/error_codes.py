"""Kafka's error codes (`Errors.java`), with Java's judgement of which are retriable."""

from __future__ import annotations

from dataclasses import dataclass

UNKNOWN_CODE = 9999
"""A code that no release of Kafka uses."""


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """One constant of `Errors.java`; `retriable` means that its exception extends RetriableException."""

    code: int
    name: str
    retriable: bool


_LAST_CODE = 128
_RETRIABLE = """
2 3 5 6 7 9 13 14 15 16 19 20 41 51 56 70 71 72 74 75 78 80 83 84 88 89 100 103 106 122 123
"""
_NAMES = """
-1 UNKNOWN_SERVER_ERROR
3 UNKNOWN_TOPIC_OR_PARTITION
7 REQUEST_TIMED_OUT
10 MESSAGE_TOO_LARGE
12 OFFSET_METADATA_TOO_LARGE
14 COORDINATOR_LOAD_IN_PROGRESS
15 COORDINATOR_NOT_AVAILABLE
16 NOT_COORDINATOR
17 INVALID_TOPIC_EXCEPTION
22 ILLEGAL_GENERATION
23 INCONSISTENT_GROUP_PROTOCOL
24 INVALID_GROUP_ID
25 UNKNOWN_MEMBER_ID
26 INVALID_SESSION_TIMEOUT
27 REBALANCE_IN_PROGRESS
28 INVALID_COMMIT_OFFSET_SIZE
29 TOPIC_AUTHORIZATION_FAILED
30 GROUP_AUTHORIZATION_FAILED
31 CLUSTER_AUTHORIZATION_FAILED
35 UNSUPPORTED_VERSION
42 INVALID_REQUEST
43 UNSUPPORTED_FOR_MESSAGE_FORMAT
44 POLICY_VIOLATION
69 GROUP_ID_NOT_FOUND
79 MEMBER_ID_REQUIRED
81 GROUP_MAX_SIZE_REACHED
82 FENCED_INSTANCE_ID
88 UNSTABLE_OFFSET_COMMIT
110 FENCED_MEMBER_EPOCH
113 STALE_MEMBER_EPOCH
"""
"""What a table or a message names; the other codes differ in their number alone."""

_RETRIABLE_CODES = {*map(int, _RETRIABLE.split())}
_NAME_OF = {int(code): name for code, name in map(str.split, _NAMES.strip().splitlines())}

ERRORS = [
    ErrorCode(code, _NAME_OF.get(code, f"error {code}"), code in _RETRIABLE_CODES)
    for code in (-1, *range(1, _LAST_CODE + 1), UNKNOWN_CODE)
]
