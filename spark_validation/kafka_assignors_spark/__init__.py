"""Spark jobs that replay the recorded history of consumer groups under other strategies."""
