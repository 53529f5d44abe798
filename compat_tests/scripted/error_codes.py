"""Kafka's error codes (`Errors.java`), with Java's judgement of which are retriable."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ERRORS", "UNKNOWN_CODE", "ErrorCode"]

UNKNOWN_CODE = 9999
"""A code that no release of Kafka uses."""


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """One constant of `Errors.java`; `retriable` means that its exception extends RetriableException."""

    code: int
    name: str
    retriable: bool


_LAST_CODE = 128
_NAMED = """
-1 UNKNOWN_SERVER_ERROR
2 CORRUPT_MESSAGE retriable
3 UNKNOWN_TOPIC_OR_PARTITION retriable
5 LEADER_NOT_AVAILABLE retriable
6 NOT_LEADER_OR_FOLLOWER retriable
7 REQUEST_TIMED_OUT retriable
9 REPLICA_NOT_AVAILABLE retriable
10 MESSAGE_TOO_LARGE
12 OFFSET_METADATA_TOO_LARGE
13 NETWORK_EXCEPTION retriable
14 COORDINATOR_LOAD_IN_PROGRESS retriable
15 COORDINATOR_NOT_AVAILABLE retriable
16 NOT_COORDINATOR retriable
17 INVALID_TOPIC_EXCEPTION
19 NOT_ENOUGH_REPLICAS retriable
20 NOT_ENOUGH_REPLICAS_AFTER_APPEND retriable
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
41 NOT_CONTROLLER retriable
42 INVALID_REQUEST
43 UNSUPPORTED_FOR_MESSAGE_FORMAT
44 POLICY_VIOLATION
51 CONCURRENT_TRANSACTIONS retriable
56 KAFKA_STORAGE_ERROR retriable
69 GROUP_ID_NOT_FOUND
70 FETCH_SESSION_ID_NOT_FOUND retriable
71 INVALID_FETCH_SESSION_EPOCH retriable
72 LISTENER_NOT_FOUND retriable
74 FENCED_LEADER_EPOCH retriable
75 UNKNOWN_LEADER_EPOCH retriable
78 OFFSET_NOT_AVAILABLE retriable
79 MEMBER_ID_REQUIRED
80 PREFERRED_LEADER_NOT_AVAILABLE retriable
81 GROUP_MAX_SIZE_REACHED
82 FENCED_INSTANCE_ID
83 ELIGIBLE_LEADERS_NOT_AVAILABLE retriable
84 ELECTION_NOT_NEEDED retriable
88 UNSTABLE_OFFSET_COMMIT retriable
89 THROTTLING_QUOTA_EXCEEDED retriable
100 UNKNOWN_TOPIC_ID retriable
103 INCONSISTENT_TOPIC_ID retriable
106 FETCH_SESSION_TOPIC_ID_ERROR retriable
110 FENCED_MEMBER_EPOCH
113 STALE_MEMBER_EPOCH
122 SHARE_SESSION_NOT_FOUND retriable
123 INVALID_SHARE_SESSION_EPOCH retriable
"""
"""What is retriable, and what a table or a message names; the other codes differ in their number alone."""

ERRORS: dict[int, ErrorCode] = {
    code: ErrorCode(code, f"error {code}", retriable=False)
    for code in (-1, *range(1, _LAST_CODE + 1), UNKNOWN_CODE)
} | {
    int(code): ErrorCode(int(code), name, retriable=bool(rest))
    for code, name, *rest in (line.split() for line in _NAMED.strip().splitlines())
}
