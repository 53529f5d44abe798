"""Codecs of what members, leaders and brokers write: no I/O, bytes in and values out.

A member joins with a subscription (`encode_member`, or `Subscription` field by field), the leader reads it
(`decode_member`) and answers with assignments (`ConsumerAssignment`).

Bytes that do not follow their schema raise `ProtocolError`, which says which field is wrong, at which byte,
and how. The formats are described byte by byte in docs/internals/wire-format.md.
"""

from kafka_assignors.wire.consumer_protocol import (
    ConsumerAssignment,
    Subscription,
    decode_assignment,
    decode_member,
    decode_subscription,
    encode_assignment,
    encode_member,
    encode_subscription,
    encode_user_data,
)
from kafka_assignors.wire.reader import Names, ProtocolError

__all__ = [
    "ConsumerAssignment",
    "Names",
    "ProtocolError",
    "Subscription",
    "decode_assignment",
    "decode_member",
    "decode_subscription",
    "encode_assignment",
    "encode_member",
    "encode_subscription",
    "encode_user_data",
]
