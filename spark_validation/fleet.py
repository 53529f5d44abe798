"""Write a history of any size: the groups of the recorded one, copied under more names.

python -m spark_validation.fleet --copies 100 OUT
kafka-assignors replay OUT
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from compat_tests.support.group_records import group_partition
from kafka_assignors_replay.history.records import group_of

__all__ = ["RECORDED", "write"]

RECORDED = Path(__file__).with_name("recorded")
_OFFSETS_PARTITIONS = 50


def write(folder: Path, copies: int) -> None:
    """Write the history to the new directory `folder`: `raw/`, with a file for each copy, and the topics."""
    table = pq.read_table(RECORDED / "raw", partitioning=None)
    rows = sorted(table.to_pylist(), key=lambda row: (row["partition"], row["offset"]))
    (folder / "raw").mkdir(parents=True)
    shutil.copyfile(RECORDED / "topics.parquet", folder / "topics.parquet")
    for copy in range(copies):
        # No two records have the same offset, so no two collide in the partitions of their new names.
        renamed = [_renamed(row, copy, place * copies + copy) for place, row in enumerate(rows)]
        file = folder / "raw" / f"{copy:04d}.parquet"
        pq.write_table(pa.Table.from_pylist(renamed, table.schema), file)


def _renamed(row: dict[str, object], copy: int, offset: int) -> dict[str, object]:
    """The record of the group's copy with this number."""
    key = row["key"]
    assert isinstance(key, bytes)
    group = group_of(key)
    assert group is not None
    name = b"%s-%04d" % (group, copy)
    new_key = key[:2] + len(name).to_bytes(2, "big") + name + key[4 + len(group) :]
    partition = group_partition(name.decode(), _OFFSETS_PARTITIONS)
    return {**row, "partition": partition, "offset": offset, "key": new_key}


def main() -> None:
    """Write a history to the directory on the command line."""
    parser = argparse.ArgumentParser(prog="python -m spark_validation.fleet", description=__doc__)
    parser.add_argument("out", metavar="OUT", type=Path, help="a new directory")
    parser.add_argument("--copies", type=int, default=100, help="of each recorded group")
    given = parser.parse_args()
    write(given.out, given.copies)


if __name__ == "__main__":
    main()
