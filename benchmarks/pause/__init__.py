"""How long partitions pause in a rebalance: our consumers, the stock clients, confluent-kafka and Java.

    python -m benchmarks.pause                                  # everything, about an hour
    python -m benchmarks.pause --partitions 60 --rounds 1 --peers aiokafka-ours,java-cooperative

Each peer is a group of four processes on a local broker, with a steady stream of records. The group goes
through a sequence of events (`schedule`), while every process keeps a journal of delivered records and of
assigned and revoked partitions (`journal`). All clocks are CLOCK_MONOTONIC. The peers take turns within a
round; `figures` computes the results from the journals. docs/evidence.md has those of the published run.
"""
