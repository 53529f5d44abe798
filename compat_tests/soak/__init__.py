"""Consumers that run for hours, and counts of what they keep: nothing may grow. See docs/soak.md."""
