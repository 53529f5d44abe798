"""What is computed of the records of one group: pure Python, without Spark.

`folds/x.py` is pure, and `jobs/x.py` runs it on Spark. An import-linter contract holds that.
"""
