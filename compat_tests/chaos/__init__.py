"""A mixed group under random events on real brokers, and the rules that must always hold."""
