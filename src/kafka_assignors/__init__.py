"""Partition assignment for Kafka consumer groups.

The core holds the values (`Group`, `Member`, `Topic`, `Assignment`), the strategies that turn a group into an
assignment, the exact solver that the strategies use, and the codecs of the bytes that members and brokers
write. It imports the standard library alone, does no I/O, reads no clock and keeps no state. So a consumer,
the command line and a Spark job can all run the same code.
"""

from kafka_assignors.group import Assignment, Group, InvalidGroupError, Member, Topic

__all__ = ["Assignment", "Group", "InvalidGroupError", "Member", "Topic", "__version__"]

__version__ = "0.1.0"
