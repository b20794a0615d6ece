"""`liveanchor weights`: list, pull, import, verify."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kernels.errors import InvalidInputError, LiveAnchorError
from serve_app.cli.command_group import CommandGroup
from serve_app.cli.console import show_rows, stderr, stdout, waiting

app = typer.Typer(cls=CommandGroup, help="Weights on this machine: list, pull, import, verify.", no_args_is_help=True)


@app.command("list")
def list_weights() -> None:
    """Show every weight set, where it comes from, its licence, and whether it is here.

    Example: liveanchor weights list
    """
    from engines.weights.home import liveanchor_home
    from engines.weights.inventory import weights_status
    from pipeline.inventory import weight_sets

    home = liveanchor_home()
    found = [weights_status(entry, home, deep=False) for entry in weight_sets().values()]
    rows = [(status.name, status.state, status.licence, status.source) for status in found]
    show_rows(("name", "state", "licence", "source"), rows, whole=("name",))


@app.command("pull")
def pull(name: Annotated[str, typer.Argument(help="Name as `weights list` prints it.")]) -> None:
    """Fetch a weight set, check its digests and keep it under LIVEANCHOR_HOME.

    Example: liveanchor weights pull face
    """
    from engines.weights.home import liveanchor_home
    from engines.weights.pull import pull as fetch
    from pipeline.inventory import find_weights

    entry = find_weights(name)
    with waiting(f"pulling {name}"):
        pulled = fetch(entry, liveanchor_home())
    with waiting(f"checking {name}"):
        found = entry.check(pulled.folder)
    for line in found:
        stderr.print(line)
    stdout.print(str(pulled))


@app.command("import")
def import_folder(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that holds the files of a weight set.")],
    name: Annotated[str, typer.Option(help="Which set it is, as `weights list` prints it; else its files tell.")] = "",
) -> None:
    """Take over weights that someone already has, after checking them.

    Example: liveanchor weights import ./checkpoints --name ditto
    """
    from engines.weights.errors import WeightsChecksumError
    from engines.weights.file import WeightsFileError
    from engines.weights.home import liveanchor_home
    from engines.weights.pull import import_weights
    from pipeline.inventory import find_weights, set_in

    if not folder.is_dir():
        raise InvalidInputError("DIR", str(folder), "a folder with the weights")
    entry = find_weights(name) if name else set_in(folder)
    try:
        with waiting(f"checking {entry.name}"):
            found = entry.check(folder)
        imported = import_weights(folder, entry, liveanchor_home())
    except (WeightsFileError, WeightsChecksumError) as error:  # what is wrong lies in the folder that was handed in
        raise InvalidInputError("DIR", str(folder), "a folder with whole, sound weights", str(error)) from error
    for line in found:
        stderr.print(line)
    stdout.print(str(imported))


@app.command("verify")
def verify() -> None:
    """Check every file of the sets that are here against its recorded SHA-256 and open it.

    Exit code 1 when a file of such a set is missing, altered or of no use;
    sets that were never pulled do not count.

    Example: liveanchor weights verify
    """
    from engines.weights.home import liveanchor_home
    from engines.weights.inventory import weights_status
    from pipeline.inventory import weight_sets

    home = liveanchor_home()
    found = [weights_status(entry, home) for entry in weight_sets().values()]
    damaged = any(status.state == "damaged" for status in found)
    for status in found:
        stdout.print(str(status))
        try:
            for line in status.entry.check(status.folder) if status.present else ():
                stdout.print(line)
        except LiveAnchorError as error:
            damaged = True
            stdout.print(str(error))
    if damaged:
        raise typer.Exit(1)
