"""Records the history of real consumer groups on brokers of its own; see `record.py`."""
