"""Bytes that this process has received from each port, as counted by the kernel.

    received_by_port() -> {9092: 1_048_576, ...}

The count does not depend on any client. It works on Linux only: the kernel counts the bytes of a connection
in `tcp_info.tcpi_bytes_received` (4.1 and later), and lists a process's connections in `/proc/self/fd`.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import struct
from collections import Counter

__all__ = ["received_by_port"]

_RECEIVED = struct.Struct("=128xQ")
"""`tcpi_bytes_received` follows 8 bytes of flags, 24 numbers of 4 bytes and 3 numbers of 8 bytes."""


def received_by_port() -> Counter[int]:
    """Bytes received over the open connections, by the port at the other end."""
    received: Counter[int] = Counter()
    for name in os.listdir("/proc/self/fd"):
        # A descriptor may close after the folder was listed, and a listening socket has no peer.
        with contextlib.suppress(OSError):
            if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                continue
            with socket.socket(fileno=os.dup(int(name))) as connection:
                if connection.family in (socket.AF_INET, socket.AF_INET6):
                    port = connection.getpeername()[1]
                    information = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _RECEIVED.size)
                    received[port] += _RECEIVED.unpack(information)[0]
    return received
