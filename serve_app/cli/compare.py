"""`liveanchor compare`: the forensic check after an upgrade."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from kernels.errors import InvalidInputError
from serve_app.cli.console import existing_file, show_rows, stderr, stdout

SHOWN_SPIKES = 10
SPIKES_ARE = (
    "a spike is a frame that jumps out of its neighbourhood. A mouth that opens or shuts between two frames makes some in sound "
    "videos too; after an upgrade, look at those in spikes_only_second"
)


def compare(
    first: Annotated[Path, typer.Argument(metavar="A.mp4", help="The video before.")],
    second: Annotated[Path, typer.Argument(metavar="B.mp4", help="The video after.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole report as JSON.")] = False,
) -> None:
    """Compare two videos of one size frame by frame: differences, spikes, PSNR, dark mouth pixels.

    Differences are in luma levels (0 to 255). A spike is a frame that jumps out of its neighbourhood.

    Example: liveanchor compare before.mp4 after.mp4 --json
    """
    from pipeline.media.compare.videos import compare_videos

    try:
        report = compare_videos(existing_file(first, "A.mp4"), existing_file(second, "B.mp4")).to_json()
    except InvalidInputError as error:
        error.field = {"first": "A.mp4", "second": "B.mp4"}.get(error.field, error.field)
        raise
    if as_json:
        stdout.print_json(json.dumps(report))
        return
    cells = [(name, _in_words(name, value)) for name, value in report.items()]
    show_rows(("measure", "value"), [(name, text) for name, text in cells if text is not None])
    if any(report[name] for name in report if name.startswith("spikes")):
        stderr.print(SPIKES_ARE)


def _in_words(name: str, value: Any) -> str | None:
    """A cell of the table; None for what has a number for every frame, which only JSON shows."""
    if name in ("first", "second"):
        return f"{value['width']}x{value['height']}, {value['frames']} frames, {value['fps']:.4g} a second"
    if name.startswith("spikes"):
        frames = ", ".join(str(spike["frame"]) for spike in value[:SHOWN_SPIKES])
        return f"{len(value)} (frames {frames}{', ...' if len(value) > SHOWN_SPIKES else ''})" if value else "none"
    if isinstance(value, list | dict):
        return None
    if value is None:
        return "nothing differs" if name.startswith("psnr") else "none"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
