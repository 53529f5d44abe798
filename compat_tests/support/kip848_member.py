"""A member program (see `compat_tests.support.member_reports`): librdkafka with the protocol of KIP-848.

Once it has joined, the broker assigns the partitions of all members, also of classic ones. `spec.assignors`
holds the server-side assignor that it requests, or is empty.
"""

from __future__ import annotations

from compat_tests.support.librdkafka_member import Member
from compat_tests.support.member_reports import MemberSpec

if __name__ == "__main__":
    spec = MemberSpec.from_arguments()
    settings = {"group.protocol": "consumer"}
    if spec.assignors:
        (settings["group.remote.assignor"],) = spec.assignors
    Member(spec, settings, cooperative=True).run()
