"""Examples for kafka-python."""
