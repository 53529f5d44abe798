"""How long partitions pause in a rebalance: ours beside the stock clients, confluent-kafka and Java.

    python -m benchmarks.pause                                  # everything, about an hour
    python -m benchmarks.pause --partitions 60 --rounds 1 --peers aiokafka-ours,java-cooperative

Each peer is a group of four processes on a local broker, with a steady stream of records. One event after
the other happens to it (`schedule`), while every process keeps a journal of what it is delivered, assigned
and revoked (`journal`). All clocks are CLOCK_MONOTONIC. The peers take turns within a round; what is computed
from the journals is in `figures`. The results of the published run are in docs/pause.md.
"""
