"""Strategies of kafka-assignors as assignors for kafka-python's consumer."""
