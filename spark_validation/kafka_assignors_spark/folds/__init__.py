"""Computations on the records of one group, in pure Python without Spark.

`jobs` runs them on Spark. An import-linter contract keeps Spark out of `folds`.
"""
