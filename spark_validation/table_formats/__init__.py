"""Tables of Delta and Iceberg as histories, with the real readers, on the PySpark that these support."""
