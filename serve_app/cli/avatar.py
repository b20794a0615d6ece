"""`liveanchor avatar`: register, list and remove presenters."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from serve_app.cli.console import existing_file, stderr, stdout

app = typer.Typer(help="Register, list and remove presenters.", no_args_is_help=True)


@app.command("register")
def register(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="A portrait (JPEG, PNG, WebP) or a short video.")],
    name: Annotated[str, typer.Option(help="A name for people, else the file's; the id comes from the content.")] = "",
    family: Annotated[str, typer.Option(help="Whose renderer draws it: mini, or ditto (needs its weights).")] = "mini",
) -> None:
    """Register a portrait or a short video and print the presenter's id.

    Example: liveanchor avatar register portrait.jpg --name "Evening news"
    """
    from pipeline.local import register_source

    stdout.print(register_source(existing_file(source, "FILE"), name, family=family).avatar_id)


@app.command("list")
def list_avatars() -> None:
    """List the presenters that this machine knows; those that a service made of a job's portrait are kept for a while only.

    Example: liveanchor avatar list
    """
    from pipeline.local import avatar_store

    found = avatar_store().list()
    if not found:
        stderr.print("no presenters yet: liveanchor avatar register; without --avatar the default presenter speaks")
        return
    table = Table("id", "name", "family", "canvas", "kept")
    for entry in found:
        table.add_row(entry.avatar_id, entry.name, entry.family, f"{entry.width}x{entry.height}", _kept(entry.used_at))
    stdout.print(table)


@app.command("delete")
def delete(avatar_id: Annotated[str, typer.Argument(help="Id as `avatar list` prints it.")]) -> None:
    """Remove a presenter from this machine.

    Example: liveanchor avatar delete 0123456789abcdef0123456789abcdef
    """
    from pipeline.local import avatar_store

    avatar_store().delete(avatar_id)


def _kept(used_at: float | None) -> str:
    """How long a presenter stays."""
    if used_at is None:
        return "always"
    return f"temporary, last used {datetime.fromtimestamp(used_at).astimezone():%Y-%m-%d %H:%M}"
