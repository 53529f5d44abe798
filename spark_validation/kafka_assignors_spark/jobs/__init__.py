"""Spark's half: bring the records of each group together in order, run `folds` over them, collect results.

`folds/x.py` is pure, and `jobs/x.py` runs it on Spark.
"""
