"""Every place where we depend on how kafka-python works inside.

kafka-python decodes what the members sent before it asks an assignor, so a member that sends garbage takes
the leader down; the generation being formed does not reach the assignor. An assignor is never given the
coordinator, but it is only ever called by it: `calling_coordinator` finds it in the call stack, and
`lead_with_our_assignors` replaces a few attributes of that one object.

What all versions share is in `coordinator` and `leading`; what differs is in `v2` and `v3`, which have the
same functions (`interface`), and `version` knows which of the two is for the one that is installed. The
private names that are touched are listed at the top of each.
"""

from kafka_assignors_kafka_python._client.coordinator import (
    calling_coordinator,
    come_back_for_this_join,
    instance_id_of,
    lead_with_our_assignors,
    require_unique_names,
    watch_topics_if_static,
)
from kafka_assignors_kafka_python._client.version import INSTALLED, MODULE, interface

__all__ = [
    "INSTALLED",
    "MODULE",
    "calling_coordinator",
    "come_back_for_this_join",
    "instance_id_of",
    "interface",
    "lead_with_our_assignors",
    "require_unique_names",
    "watch_topics_if_static",
]
