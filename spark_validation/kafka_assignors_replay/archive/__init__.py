"""The archive: the group records of `__consumer_offsets`, copied to Parquet before the broker compacts them.

    archive.json                                     the cluster and the topic of the records
    raw/date=2026-03-01/0000000012-3fa9c1.parquet    a batch of records (`schemas.ARCHIVED`)
    topics/0000000003-3fa9c1.parquet                 changes of the catalogue (`schemas.TOPICS`)

Every record is in exactly one file under `raw/`, and every file there is complete, so any program that reads
Parquet can read the archive, also while it is being written. A file covers all partitions. Its footer has the
places after the batch: **the newest file is the ledger**, and no other file can disagree with it.

`folder` writes and opens the files, `run` reads the topic.
"""
