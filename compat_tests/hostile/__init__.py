"""Members that are malicious, or broken enough to do harm."""
