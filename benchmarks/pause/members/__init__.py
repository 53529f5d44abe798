"""The programs of the members: one for each client, all with the same settings (`spec.MemberSpec`).

A program loads its client, writes READY into its journal, and waits for a line on standard input before it
joins, so that the start of a process does not count as part of a rebalance. It leaves on SIGTERM.
"""
