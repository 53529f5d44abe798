"""Prints tables or draws the picture from the file of an earlier run.

python -m benchmarks.pause.report RESULTS.json                      # the tables, on the terminal
python -m benchmarks.pause.report RESULTS.json --markdown           # the same for the documentation
python -m benchmarks.pause.report RESULTS.json --plot rolling.svg --peers aiokafka-sticky,aiokafka-ours
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.pause.plot import draw
from benchmarks.pause.result_files import Results
from benchmarks.pause.tables import markdown, show, tables


def main(
    file: Annotated[Path, typer.Argument(exists=True)],
    as_markdown: Annotated[bool, typer.Option("--markdown")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the rolling restart into this SVG file.")] = None,
    peers: Annotated[str, typer.Option(help="Those in the picture, from top to bottom, with commas.")] = "",
    partitions: Annotated[int, typer.Option(help="The size that is drawn.")] = 60,
) -> None:
    results = Results.read(file)
    if plot is not None:
        lines = {one.peer: one for one in results.timelines if one.partitions == partitions}
        names = peers.split(",") if peers else list(lines)
        draw([lines[name] for name in names], results.labels, plot)
        return
    sheets = tables(results.summaries, results.labels)
    if as_markdown:
        print(markdown(sheets), end="")
    else:
        show(sheets, Console())


if __name__ == "__main__":
    typer.run(main)
