"""Examples that run as they stand; README.md says in which order to read them."""
