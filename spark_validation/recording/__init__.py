"""Records the history of real consumer groups on brokers that it starts; see `record.py`."""
