"""The load of a member as a leader with weights reports it, in the user data of the member's assignment.

    INT8 1, INT64 load, INT64 bound, INT32 unknown

No member reads the user data of an assignment under the names of our strategies; a look at the group from
outside shows them. A number that does not fit its field is written as the greatest that does. Other user
data, such as those of another leader or of a later version, are no summary.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafka_assignors.wire.reader import ProtocolError, Reader
from kafka_assignors.wire.writer import Writer

_VERSION = 1
_SUBJECT = "load summary"
_MOST_INT32, _MOST_INT64 = 2**31 - 1, 2**63 - 1


@dataclass(frozen=True, slots=True)
class LoadSummary:
    """The load of one member as its leader saw it when it assigned, in the unit of the weights.

    Attributes:
        load: the weight of all partitions of the member.
        bound: a lower bound of the greatest load of any assignment of the group.
        unknown: how many partitions of the group had an unknown weight.
    """

    load: int
    bound: int
    unknown: int


def encode_load_summary(summary: LoadSummary) -> bytes:
    writer = Writer(_SUBJECT)
    writer.int8("version", _VERSION)
    writer.int64("load", min(summary.load, _MOST_INT64))
    writer.int64("bound", min(summary.bound, _MOST_INT64))
    writer.int32("unknown", min(summary.unknown, _MOST_INT32))
    return writer.getvalue()


def decode_load_summary(user_data: bytes) -> LoadSummary | None:
    """The summary in the user data of an assignment; None if they are something else."""
    reader = Reader(user_data, _SUBJECT)
    try:
        if reader.int8("version") != _VERSION:
            return None
        summary = LoadSummary(reader.int64("load"), reader.int64("bound"), reader.int32("unknown"))
        reader.finish("unknown")
    except ProtocolError:
        return None
    return summary if min(summary.load, summary.bound, summary.unknown) >= 0 else None
