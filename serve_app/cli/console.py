"""Where the command line speaks to a person: results on stdout, everything else on stderr."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.status import Status
from rich.table import Table
from rich.text import Text

from kernels.errors import InvalidInputError

# Without markup: names, paths and what FFmpeg says may hold [brackets].
stdout = Console(highlight=False, soft_wrap=True, markup=False)
stderr = Console(stderr=True, highlight=False, soft_wrap=True, markup=False)


def report_error(message: str) -> None:
    """Write one line to stderr."""
    stderr.print(f"liveanchor: {' '.join(message.split())}", style="bold red")


def progress() -> Progress:
    """A progress bar on stderr that leaves no trace in a pipe."""
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=stderr,
        transient=True,
        disable=not stderr.is_interactive,
    )


def waiting(text: str) -> Status:
    """Show a spinner on stderr with what is being done."""
    return stderr.status(Text(text))


def show_rows(columns: Sequence[str], rows: Sequence[Sequence[str | Text]], whole: Sequence[str] = ()) -> None:
    """Rows on stdout: a table for a person at a terminal; in a pipe one line a row, cells apart by tabs, nothing cut off.

    Args:
        columns: Headings, which only the table has.
        rows: Cells of each row.
        whole: Columns whose cells stay on one line: ids, which people copy.
    """
    if not stdout.is_terminal:
        for row in rows:
            typer.echo("\t".join(" ".join(str(cell).split()) for cell in row))  # rich makes spaces of tabs
        return
    table = Table()
    for name in columns:
        table.add_column(name, no_wrap=name in whole, overflow="fold")
    for row in rows:
        table.add_row(*row)
    stdout.print(table, soft_wrap=False)


def existing_file(path: Path, flag: str) -> Path:
    """The path of a readable file, or InvalidInputError that names the flag."""
    if not path.is_file():
        what = "a folder" if path.is_dir() else "no such file"
        raise InvalidInputError(flag, f"{path} ({what})", "the path of a file that exists")
    return path


def writable_target(path: Path, flag: str) -> Path:
    """A path whose folder exists, or InvalidInputError that names the flag."""
    if path.is_dir() or not path.resolve().parent.is_dir():
        raise InvalidInputError(flag, str(path), "a file name inside a folder that exists")
    return path
