"""A synthetic fleet of consumer groups, in the records that brokers would write: the load for the replay.

    python -m spark_validation.fleet --groups 5000 --generations 1000000 --days 1 --seed 1 OUT

`profile` defines each group and each topic, `happenings` the events of a group and their times, `life` the
records that its coordinator writes, and `history` has Spark compute all groups. The history of a group
depends only on the options and on the group's number: it is the same in every task and on every machine.
"""
