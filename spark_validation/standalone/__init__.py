"""A replay by `spark-submit` on a standalone Spark cluster that has only our wheel.

    python -m spark_validation.standalone spark_validation/recorded

A master and two workers of the installed PySpark, each in its own process, listen on loopback. Driver and
executors run on a Python that has our dependencies but not our package; the package comes with `--py-files`.
The tables are compared with those of a local Spark.
"""
