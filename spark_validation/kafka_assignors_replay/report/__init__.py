"""Reports on a replay: one HTML file that works offline, and one JSON document that holds everything."""
