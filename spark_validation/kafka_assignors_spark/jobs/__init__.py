"""The part that uses Spark: `engine` sorts the records of each group, and collects the results.

The computations on a group are in `folds`, which does not use Spark.
"""
