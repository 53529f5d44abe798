"""A day of a fleet and the recorded history, taken through archive, replay, validate and report.

    python -m spark_validation.day --groups 500 --generations 20000 OUT

The records of each history are written to a topic of a real broker, in the order of their offsets. The
archiver reads them from there. The archive is compared with the written records, and the replay reads it.
"""
