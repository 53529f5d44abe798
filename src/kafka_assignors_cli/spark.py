"""The options that say on which Spark a command runs, the same for every command that needs one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kafka_assignors_cli.errors import CannotRun

__all__ = ["Master", "SparkConfig", "spark_properties"]

_PANEL = "Spark"

Master = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Spark's master.", show_default="local[*]", rich_help_panel=_PANEL),
]
SparkConfig = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Properties of Spark, as for spark-submit --properties-file: jars, credentials and so on.",
        rich_help_panel=_PANEL,
    ),
]


def spark_properties(file: Path | None) -> str | None:
    """The file of properties to hand to Spark, if there is one."""
    if file is None:
        return None
    if not file.is_file():
        raise CannotRun(f"{file}: there is no such file")
    return str(file.absolute())
