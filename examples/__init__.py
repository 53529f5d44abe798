"""Examples that run without changes; README.md says in which order to read them."""
