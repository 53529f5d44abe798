"""A synthetic fleet of consumer groups, written down as brokers would have done: the load for the replay.

    python -m spark_validation.fleet --groups 5000 --generations 1000000 --days 1 --seed 1 OUT

`profile` says what each group and each topic is, `happenings` what befalls a group and when, `life` what its
coordinator then writes, and `history` has Spark do that for all groups at once. A group's history depends on
the options and on its own number alone: it is the same in every task and on every machine.
"""
