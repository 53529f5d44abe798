"""Consumers that run for hours, and counts of their objects, which must not grow. See docs/soak.md."""
