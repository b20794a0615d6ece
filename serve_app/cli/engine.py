"""`liveanchor engine`: build, list and verify TensorRT engines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernels.errors import InvalidInputError
from serve_app.cli.command_group import CommandGroup
from serve_app.cli.console import progress, show_rows, stderr, stdout, waiting
from serve_app.cli.engine_options import LibraryName, library_of

if TYPE_CHECKING:
    from torch import nn

    from engines.tensorrt.catalogue import EngineSpec
    from engines.tensorrt.networks import Load

app = typer.Typer(cls=CommandGroup, help="TensorRT engines on this machine: build, list, verify.", no_args_is_help=True)

What = Annotated[
    str, typer.Argument(help="An engine, a prefix (ditto, rife/4.9) or all; `engine list --known` has them.")
]
Checkpoints = Annotated[
    Path | None, typer.Option(help="Ditto's checkpoint folder; else where `weights pull ditto` puts it.")
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
    workspace_mib: Annotated[int, typer.Option(help="Scratch memory for algorithms, MiB.")] = 4096,
    level: Annotated[int, typer.Option(help="0 builds fast, 5 makes the fastest engine.")] = 3,
) -> None:
    """Export networks and build their engines into the cache; what is there already is left alone.

    Example: liveanchor engine build ditto --for sm_120
    """
    from engines.tensorrt.build import BuildSettings
    from engines.tensorrt.catalogue import HUBERT, engine_names
    from engines.tensorrt.hubert import find_hubert_plan
    from engines.tensorrt.load import EngineSettings, find_plan
    from engines.tensorrt.target import choose_target

    names = engine_names(what)
    settings = EngineSettings(build=BuildSettings(workspace_mib=workspace_mib, optimisation_level=level))
    found = library_of(library, cross_build=capability is not None)
    target = choose_target(found, capability)
    done = 0
    with progress() as bar:
        task = bar.add_task("", total=None)

        def tell(phase: str, step: int, steps: int) -> None:
            bar.update(task, completed=step, total=max(steps, 1), description=f"{current}: {phase.lower()}")

        for current in names:
            bar.update(task, description=f"{current}: export", completed=0, total=None)
            if current == HUBERT:
                path = _hubert_file(checkpoints, explicit=what != "all" and len(names) == 1)
                plan = None if path is None else find_hubert_plan(path, found, target, settings, tell)
            else:
                source = _sources([current], checkpoints, random_weights, explicit=what == current)
                plan = next((find_plan(spec, net, found, target, settings, tell) for spec, net in source), None)
            if plan is not None:
                done += 1
                state = "built" if plan.built else "in the cache"
                stdout.print(f"{current}  {target}  {len(plan.data) / 2**20:.1f} MiB  {state}  {plan.digest[:12]}")
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
    from engines.tensorrt.catalogue import CATALOGUE, HUBERT

    if known:
        rows = [
            {
                "engine": name,
                "type": str(spec.dtype).removeprefix("torch."),
                "batch": f"1..{spec.max_batch}",
                "what": spec.about,
            }
            for name, spec in CATALOGUE.items()
        ]
        about = "speech -> features, from its ONNX file; float32 in and out"
        rows.append({"engine": HUBERT, "type": "float16", "batch": "as its file", "what": about})
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
    """Run each built engine beside its float32 network on this GPU; exit code 1 when one is off, or none is there.

    Example: liveanchor engine verify ditto
    """
    import torch

    from engines.tensorrt.catalogue import HUBERT, engine_names
    from engines.tensorrt.errors import TensorRtMissingError
    from engines.tensorrt.load import EngineSettings, cached_plan
    from engines.tensorrt.runtime import TensorRtRuntime
    from engines.tensorrt.target import choose_target
    from engines.tensorrt.verify import compare

    names = engine_names(what)
    if not torch.cuda.is_available():
        raise TensorRtMissingError("there is no GPU here", "engines are compared by running them where they will serve")
    found = library_of(library)
    target = choose_target(found)
    settings = EngineSettings()
    checked, off = 0, False
    plain = [name for name in names if name != HUBERT]
    for spec, module in _sources(plain, checkpoints, random_weights, explicit=what in plain):
        with waiting(f"verifying {spec.name}"):
            plan = cached_plan(spec, module, found, target, settings)
            agreement = None
            if plan is not None:
                runtime = TensorRtRuntime(spec, plan.data, found, settings.device)
                agreement = compare(spec, runtime.run_all, module, device=settings.device)
        if agreement is None:
            stderr.print(f"{spec.name}: not built for {target}")
            continue
        checked += 1
        passed = agreement.passes(spec.gate)
        off |= not passed
        stdout.print(f"{spec.name}  {'ok' if passed else 'OFF'}  {agreement}")
    if HUBERT in names and (path := _hubert_file(checkpoints, explicit=what == HUBERT)) is not None:
        from engines.tensorrt.hubert import load_hubert

        load_hubert(path.parents[2], settings)
        checked += 1
        stdout.print(f"{HUBERT}  ok")
    if off or not checked:
        raise typer.Exit(1)


def _sources(
    names: list[str], checkpoints: Path | None, random: bool, *, explicit: bool
) -> Iterator[tuple[EngineSpec, nn.Module]]:
    """Specs and networks; where weights are missing, an engine that was not asked for by name is left out, aloud."""
    from engines.tensorrt.catalogue import spec_of
    from engines.tensorrt.networks import network_of, public_weights
    from engines.tensorrt.networks import random_weights as load_random
    from engines.weights.errors import WeightsError

    load: Load = load_random if random else public_weights(_folder(checkpoints))
    for name in names:
        try:
            module = network_of(name, load)
        except WeightsError as error:
            if explicit:
                raise
            stderr.print(f"{name}: left out, {error}")
            continue
        yield spec_of(name), module


def _folder(checkpoints: Path | None) -> Path | None:
    if checkpoints is not None and not checkpoints.is_dir():
        raise InvalidInputError("--checkpoints", str(checkpoints), "a folder")
    return checkpoints


def _hubert_file(checkpoints: Path | None, *, explicit: bool) -> Path | None:
    from engines.ditto.checkpoints import HUBERT_FILE, ditto_folder
    from engines.weights.file import WeightsFileError

    path = ditto_folder(_folder(checkpoints)) / HUBERT_FILE
    if path.is_file():
        return path
    if explicit:
        raise WeightsFileError(str(path), "", "no such file; liveanchor weights pull ditto")
    stderr.print(f"ditto/hubert: left out, there is no {path}")
    return None
