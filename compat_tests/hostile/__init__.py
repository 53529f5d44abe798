"""Members that mean harm, or are broken enough to do it."""
