"""Examples for aiokafka."""
