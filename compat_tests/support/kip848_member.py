"""A member program (see `compat_tests.support.member_reports`): librdkafka with the protocol of KIP-848.

Once it is in a group, the broker assigns for members of every kind. `spec.assignors` holds the broker's
assignor that it asks for, or nothing.
"""

from __future__ import annotations

from compat_tests.support.librdkafka_member import consume
from compat_tests.support.member_reports import MemberSpec, Reporter

if __name__ == "__main__":
    spec = MemberSpec.from_arguments()
    settings = {"group.protocol": "consumer"}
    if spec.assignors:
        (settings["group.remote.assignor"],) = spec.assignors
    consume(spec, Reporter(), settings, cooperative=True)
