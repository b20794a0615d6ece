"""`liveanchor engine`: build, list and verify TensorRT engines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernels.errors import InvalidInputError
from serve_app.cli.command_group import CommandGroup
from serve_app.cli.console import progress, show_rows, stderr, stdout, waiting
from serve_app.cli.engine_options import LibraryName, library_of
from serve_app.cli.whole_option import whole

if TYPE_CHECKING:
    from engines.weights.errors import WeightsError

app = typer.Typer(cls=CommandGroup, help="TensorRT engines on this machine: build, list, verify.", no_args_is_help=True)

What = Annotated[
    str, typer.Argument(help="An engine, a prefix (ditto, rife/4.9) or all; `engine list --known` has them.")
]
Checkpoints = Annotated[
    Path | None, typer.Option(help="Folder with the public weights; else where `weights pull` puts them.")
]
RandomWeights = Annotated[bool, typer.Option("--random-weights", help="Random weights, to try a machine without any.")]
LibraryOption = Annotated[LibraryName, typer.Option("--library", help="Which TensorRT; auto takes the one that fits.")]


@app.command("build")
def build(
    what: What = "all",
    capability: Annotated[
        str | None,
        typer.Option("--for", metavar="sm_NNN", help="Build for another card (tensorrt_rtx; no GPU needed)."),
    ] = None,
    checkpoints: Checkpoints = None,
    random_weights: RandomWeights = False,
    library: LibraryOption = LibraryName.auto,
    workspace_mib: Annotated[
        int, typer.Option(parser=whole("--workspace-mib", range(16, 65537)), help="Scratch memory for algorithms, MiB.")
    ] = 4096,
    level: Annotated[
        int, typer.Option(parser=whole("--level", range(6)), help="0 builds fast, 5 makes the fastest engine.")
    ] = 3,
) -> None:
    """Export networks and build their engines into the cache; what is there already is left alone.

    Example: liveanchor engine build ditto --for sm_120
    """
    from engines.tensorrt.build import BuildSettings
    from engines.tensorrt.load import EngineSettings
    from engines.tensorrt.recipes import Kitchen, choose_recipes
    from engines.tensorrt.target import choose_target
    from engines.weights.errors import WeightsError
    from pipeline.inventory import engine_recipes

    recipes = choose_recipes(what, engine_recipes())
    settings = EngineSettings(build=BuildSettings(workspace_mib=workspace_mib, optimisation_level=level))
    found = library_of(library, cross_build=capability is not None)
    kitchen = Kitchen(found, choose_target(found, capability), settings, _folder(checkpoints), random_weights)
    done = 0
    with progress() as bar:
        task = bar.add_task("", total=None)

        def tell(phase: str, step: int, steps: int) -> None:
            bar.update(task, completed=step, total=max(steps, 1), description=f"{recipe.name}: {phase.lower()}")

        for recipe in recipes:
            bar.update(task, description=f"{recipe.name}: export", completed=0, total=None)
            try:
                plan = recipe.plan(kitchen, tell)
            except WeightsError as error:
                _leave_out(recipe.name, what, error)
                continue
            done += 1
            state = "built" if plan.built else "in the cache"
            size = f"{len(plan.data) / 2**20:.1f} MiB"
            stdout.print(f"{recipe.name}  {kitchen.target}  {size}  {state}  {plan.digest[:12]}")
    if not done:
        raise typer.Exit(1)


@app.command("list")
def list_engines(
    known: Annotated[bool, typer.Option("--known", help="All engines that can be built, instead.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the engines in the cache, the most recently used first.

    Example: liveanchor engine list
    """
    from engines.tensorrt.cache import EngineCache
    from pipeline.inventory import engine_recipes

    if known:
        rows = [recipe.known_as for recipe in engine_recipes()]
    else:
        rows = [
            {
                "engine": entry.key.engine,
                "for": entry.key.capability
                if entry.key.card == "any"
                else f"{entry.key.card} ({entry.key.capability})",
                "library": f"{entry.key.flavour} {entry.key.version}",
                "MiB": f"{entry.size / 2**20:.1f}",
                "key": entry.digest[:12],
            }
            for entry in EngineCache().entries()
        ]
    if as_json:
        stdout.print_json(json.dumps(rows))
        return
    if not rows:
        stderr.print("no engines yet: liveanchor engine build")
        return
    show_rows(list(rows[0]), [list(row.values()) for row in rows], whole=("engine", "key"))


@app.command("verify")
def verify(
    what: What = "all",
    checkpoints: Checkpoints = None,
    random_weights: RandomWeights = False,
    library: LibraryOption = LibraryName.auto,
) -> None:
    """Run each built engine and its float32 network on this GPU; exit code 1 when one is off, or none is there.

    Example: liveanchor engine verify ditto
    """
    import torch

    from engines.tensorrt.errors import TensorRtMissingError
    from engines.tensorrt.load import EngineSettings
    from engines.tensorrt.recipes import Kitchen, choose_recipes
    from engines.tensorrt.target import choose_target
    from engines.weights.errors import WeightsError
    from pipeline.inventory import engine_recipes

    recipes = choose_recipes(what, engine_recipes())
    if not torch.cuda.is_available():
        raise TensorRtMissingError("there is no GPU here", "engines are compared by running them where they will serve")
    found = library_of(library)
    kitchen = Kitchen(found, choose_target(found), EngineSettings(), _folder(checkpoints), random_weights)
    checked, off = 0, False
    for recipe in recipes:
        try:
            with waiting(f"verifying {recipe.name}"):
                compared = recipe.compare(kitchen)
        except WeightsError as error:
            _leave_out(recipe.name, what, error)
            continue
        if compared is None:
            stderr.print(f"{recipe.name}: not built for {kitchen.target}")
            continue
        agreement, passed = compared
        checked += 1
        off |= not passed
        stdout.print(f"{recipe.name}  {'ok' if passed else 'OFF'}  {agreement}")
    if off or not checked:
        raise typer.Exit(1)


def _leave_out(name: str, what: str, error: WeightsError) -> None:
    """An engine whose weights are missing is left out, aloud, unless it was asked for by name."""
    if name == what:
        raise error
    stderr.print(f"{name}: left out, {error}")


def _folder(checkpoints: Path | None) -> Path | None:
    if checkpoints is not None and not checkpoints.is_dir():
        raise InvalidInputError("--checkpoints", str(checkpoints), "a folder")
    return checkpoints
