"""A replay by `spark-submit` on a standalone Spark cluster, with nothing of ours on it but the wheel.

    python -m spark_validation.standalone spark_validation/recorded

A master and two workers, each a process of its own, listen on loopback; they are those of the installed
PySpark. Driver and executors run on a Python that has our dependencies but not our package, which comes with
`--py-files`. What they write is held against what a local Spark writes, table by table.
"""
