"""Write a history of any size, of the records of the recorded one.

python -m spark_validation.fleet copies 100 OUT       each of its groups under 100 names
python -m spark_validation.fleet single 200000 OUT    so many groups of one generation
python -m spark_validation.fleet giant 10000 OUT      one group of so many generations
kafka-assignors replay OUT
"""

from __future__ import annotations

import argparse
import itertools
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from compat_tests.support.group_records import group_partition
from kafka_assignors_replay.history.records import RecordKind, decode_record, group_of

__all__ = ["RECORDED", "SHAPES", "write"]

RECORDED = Path(__file__).with_name("recorded")
_OFFSETS_PARTITIONS = 50
_FILE_ROWS = 20_000

_EAGER_GROUP = b"pricing"
"""Its members claim nothing, so its generations may be numbered anew."""

Row = dict[str, Any]


def copied(rows: Iterable[Row], copies: int) -> Iterator[Row]:
    """Each group under this many names."""
    # No two records have the same offset, so no two collide in the partitions of their new names.
    for offset, (copy, row) in enumerate(itertools.product(range(copies), rows)):
        yield _renamed(row, copy, offset)


def single(rows: Iterable[Row], count: int) -> Iterator[Row]:
    """This many groups of one generation each."""
    one = next(_generations(rows))
    return (_renamed(one, number, number) for number in range(count))


def giant(rows: Iterable[Row], count: int) -> Iterator[Row]:
    """One group of this many generations, those of a recorded one again and again."""
    for number, row in zip(range(count), itertools.cycle([*_generations(rows)]), strict=False):
        value = row["value"]
        at = 4 + int.from_bytes(value[2:4], "big")  # after the version and the protocol type
        value = value[:at] + number.to_bytes(4, "big") + value[at + 4 :]
        yield {**row, "value": value, "offset": number}


def _generations(rows: Iterable[Row]) -> Iterator[Row]:
    """The generations of one group that have members."""
    own = (row for row in rows if group_of(row["key"]) == _EAGER_GROUP)
    return (row for row in own if decode_record(row["key"], row["value"]).kind is RecordKind.GENERATION)


def _renamed(row: Row, copy: int, offset: int) -> Row:
    """The record of the group's copy with this number."""
    key, group = row["key"], group_of(row["key"])
    assert group is not None
    name = b"%s-%04d" % (group, copy)
    new_key = key[:2] + len(name).to_bytes(2, "big") + name + key[4 + len(group) :]
    partition = group_partition(name.decode(), _OFFSETS_PARTITIONS)
    return {**row, "partition": partition, "offset": offset, "key": new_key}


SHAPES = {"copies": copied, "single": single, "giant": giant}


def write(folder: Path, shape: str, count: int) -> None:
    """Write a history of this shape to the new directory `folder`: `raw/`, and the recorded topics."""
    (folder / "raw").mkdir(parents=True)
    shutil.copyfile(RECORDED / "topics.parquet", folder / "topics.parquet")
    table = pq.read_table(RECORDED / "raw", partitioning=None)
    recorded = sorted(table.to_pylist(), key=lambda row: (row["partition"], row["offset"]))
    rows = SHAPES[shape](recorded, count)
    for number in itertools.count():
        if not (part := [*itertools.islice(rows, _FILE_ROWS)]):
            return
        pq.write_table(pa.Table.from_pylist(part, table.schema), folder / "raw" / f"{number:04d}.parquet")


def main() -> None:
    """Write a history to the directory on the command line."""
    parser = argparse.ArgumentParser(prog="python -m spark_validation.fleet", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("count", type=int)
    parser.add_argument("out", metavar="OUT", type=Path, help="a new directory")
    given = parser.parse_args()
    write(given.out, given.shape, given.count)


if __name__ == "__main__":
    main()
