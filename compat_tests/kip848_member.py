"""A member program (see `compat_tests.member_reports`): librdkafka with the protocol of KIP-848.

Once it is in a group, the broker assigns, whatever the other members are. `spec.assignors` is ignored.
"""

from __future__ import annotations

from compat_tests.librdkafka_member import consume
from compat_tests.member_reports import MemberSpec, Reporter

if __name__ == "__main__":
    consume(MemberSpec.from_arguments(), Reporter(), {"group.protocol": "consumer"}, cooperative=True)
