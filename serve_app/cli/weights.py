"""`liveanchor weights`: list, pull, verify."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from serve_app.cli.console import stderr, stdout

app = typer.Typer(help="Weights on this machine: list, pull, verify.", no_args_is_help=True)


@app.command("list")
def list_weights() -> None:
    """Show every weight set, where it comes from, its licence, and whether it is here.

    Example: liveanchor weights list
    """
    from engines.home import liveanchor_home
    from engines.weights_pull import list_weights as known

    table = Table("name", "here", "licence", "source")
    for entry in known(liveanchor_home()):
        table.add_row(entry.name, "yes" if entry.present else "no", entry.licence, entry.source)
    stdout.print(table)


@app.command("pull")
def pull(name: Annotated[str, typer.Argument(help="Name as `weights list` prints it.")]) -> None:
    """Fetch a weight set, check its digests and keep it under LIVEANCHOR_HOME.

    Example: liveanchor weights pull face
    """
    from engines.home import liveanchor_home
    from engines.weights_pull import pull as fetch

    with stderr.status(f"pulling {name}"):
        folder = fetch(name, liveanchor_home())
    stdout.print(str(folder))


@app.command("verify")
def verify() -> None:
    """Check every pulled file against its recorded SHA-256; exit code 1 when one is missing or altered.

    Example: liveanchor weights verify
    """
    from engines.home import liveanchor_home
    from engines.weights_pull import verify_weights

    for line in verify_weights(liveanchor_home()):
        stdout.print(line)
