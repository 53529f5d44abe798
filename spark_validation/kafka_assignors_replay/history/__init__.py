"""The computation for one group or one record of `__consumer_offsets`: pure Python, without Spark and I/O."""
