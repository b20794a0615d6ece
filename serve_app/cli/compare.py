"""`liveanchor compare`: the forensic check after an upgrade."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from serve_app.cli.console import existing_file, stdout


def compare(
    first: Annotated[Path, typer.Argument(metavar="A.mp4", help="The video before.")],
    second: Annotated[Path, typer.Argument(metavar="B.mp4", help="The video after.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole report as JSON.")] = False,
) -> None:
    """Compare two videos frame by frame: differences, spikes, PSNR, dark mouth pixels.

    Example: liveanchor compare before.mp4 after.mp4 --json
    """
    from pipeline.compare import compare_videos

    report = compare_videos(existing_file(first, "A.mp4"), existing_file(second, "B.mp4")).to_json()
    if as_json:
        stdout.print_json(json.dumps(report))
        return
    table = Table("measure", "value")
    for name, value in report.items():
        if not isinstance(value, list | dict):
            table.add_row(name, f"{value:.4g}" if isinstance(value, float) else str(value))
    stdout.print(table)
