"""Python between two data frames, without pandas.

There are two ways:

* **Rows.** Python table functions hand over the rows of a group one after the other and in order, and pass
  some 60 thousand rows a second on two cores. A handler is a class with a method `eval(row)` that yields
  tuples, and may have `terminate()` for what is left after the last row. Timestamps cross as microseconds
  (see `timestamps`).
* **Batches.** Arrow record batches cost next to nothing on their way, and columns that the function does not
  read never become Python objects. Spark's `DataFrame.mapInArrow` refuses to start where pandas is not
  installed, although neither it nor what runs in the worker uses pandas (4.0 to 4.3: the check stands in
  `pandas_udf`, which is merely where the function gets its type). So the function gets its type here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType, TimestampType
from pyspark.sql.udf import UserDefinedFunction
from pyspark.sql.udtf import UserDefinedTableFunction
from pyspark.util import PythonEvalType

__all__ = ["apply_to_batches", "apply_to_groups", "apply_to_rows", "with_micros"]


def apply_to_batches(
    rows: DataFrame,
    function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: StructType,
) -> DataFrame:
    """The result of `function` over `rows`, which arrive as record batches in any order and division.

    It is called once for each task; the batches it yields have the columns of `schema`.
    """
    typed = UserDefinedFunction(
        function,
        returnType=schema,
        name=function.__name__,
        evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF,
    )
    in_jvm: Any = rows._jdf
    applied: Any = typed(*rows.columns)
    return DataFrame(in_jvm.mapInArrow(applied._jc, False, None), rows.sparkSession)


def apply_to_rows(rows: DataFrame, handler: type, schema: StructType) -> DataFrame:
    """The result of instances of `handler` over `rows`, in any order and division."""
    return _apply(with_micros(rows).asTable(), handler, schema)


def apply_to_groups(
    rows: DataFrame, group: tuple[str, ...], order: tuple[str, ...], handler: type, schema: StructType
) -> DataFrame:
    """The result of an instance of `handler` over the rows that are equal in `group`, in the order of
    `order`."""
    return _apply(with_micros(rows).asTable().partitionBy(*group).orderBy(*order), handler, schema)


def with_micros(rows: DataFrame) -> DataFrame:
    """`rows` on their way to Python: every timestamp as microseconds since 1970."""
    return rows.select(
        *(
            F.unix_micros(f.name).alias(f.name) if _is_timestamp(f) else F.col(f.name)
            for f in rows.schema.fields
        )
    )


def _apply(table: Any, handler: type, schema: StructType) -> DataFrame:
    micros = StructType(
        [StructField(f.name, LongType() if _is_timestamp(f) else f.dataType) for f in schema.fields]
    )
    function = cast(UserDefinedTableFunction, F.udtf(handler, returnType=micros, useArrow=False))
    rows = function(table)
    return rows.select(
        *(
            F.timestamp_micros(f.name).alias(f.name) if _is_timestamp(f) else F.col(f.name)
            for f in schema.fields
        )
    )


def _is_timestamp(field: StructField) -> bool:
    return isinstance(field.dataType, TimestampType)
