"""Spark's half: `engine` brings the records of each group together in order and carries results away.

What is computed of a group is in `folds`, which knows nothing of Spark.
"""
