"""The Spark engine: it brings the records of each group together in order, and carries the results away."""
