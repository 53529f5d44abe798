"""Python between two data frames, as Arrow record batches and without pandas.

Spark's `DataFrame.mapInArrow` refuses to start where pandas is not installed, although neither it nor what
runs in the worker uses pandas (4.0 to 4.3: the check stands in `pandas_udf`, which is merely where the
function gets its type). So the function gets its type here.

Timestamps that Spark collects would cross as naive times; `with_micros` makes them microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType, TimestampType
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

__all__ = ["apply_to_batches", "spark_schema", "with_micros"]


def spark_schema(schema: pa.Schema) -> StructType:
    """The same columns for Spark."""
    return from_arrow_schema(schema)


def apply_to_batches(
    rows: DataFrame,
    function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: pa.Schema,
) -> DataFrame:
    """The result of `function` over `rows`, which arrive as record batches in the order that they have.

    It is called once for each task; the batches it yields have the columns of `schema`.
    """
    typed = UserDefinedFunction(
        function,
        returnType=spark_schema(schema),
        name=function.__name__,
        evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF,
    )
    in_jvm: Any = rows._jdf
    applied: Any = typed(*rows.columns)
    return DataFrame(in_jvm.mapInArrow(applied._jc, False, None), rows.sparkSession)


def with_micros(rows: DataFrame) -> DataFrame:
    """`rows` on their way to Python: every timestamp as microseconds since 1970."""
    return rows.select(
        *(
            F.unix_micros(each.name).alias(each.name)
            if isinstance(each.dataType, TimestampType)
            else F.col(each.name)
            for each in rows.schema.fields
        )
    )
