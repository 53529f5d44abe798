"""A day of a fleet, and the recorded history, through everything: archive, replay, validate, report.

    python -m spark_validation.day --groups 500 --generations 20000 OUT

Their records are written to topics of a real broker, in the order of their offsets, and from there the
archiver takes them. What it kept is held against what was written, and is what the replay reads.
"""
