"""Connections to a running cluster with confluent-kafka: `connection`, and `topic_metadata`."""
