"""Connections to a running cluster with confluent-kafka: `connection` with its errors, and `topics`."""
