"""The replay without Spark: pyarrow reads the records, this process and a few workers fold them."""
