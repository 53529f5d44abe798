"""Counts of the objects that consumers hold, which repetitions must not add to. See docs/evidence.md."""
