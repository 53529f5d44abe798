"""Strategies of kafka-assignors as assignors for aiokafka's consumer."""
