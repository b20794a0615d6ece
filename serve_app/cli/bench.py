"""`liveanchor bench`: re-make a published number."""

from __future__ import annotations

import importlib
from enum import StrEnum
from typing import Annotated, Final

import typer


class Benchmark(StrEnum):
    """Benchmarks that this release carries."""

    main_job = "main_job"
    graph = "graph"
    live = "live"
    agents = "agents"
    rife_quality = "rife_quality"
    rife_cpu = "rife_cpu"
    kernels = "kernels"
    rife = "rife"


_MODULES: Final = {
    Benchmark.main_job: "benchmarks.main_job",
    Benchmark.graph: "benchmarks.graph.run",
    Benchmark.live: "benchmarks.live.run",
    Benchmark.agents: "benchmarks.agents.run",
    Benchmark.rife_quality: "benchmarks.rife.quality",
    Benchmark.rife_cpu: "benchmarks.rife.cpu",
    Benchmark.kernels: "benchmarks.kernels.run",
    Benchmark.rife: "benchmarks.rife.run",
}


def bench(
    context: typer.Context,
    name: Annotated[Benchmark, typer.Argument(help="Which benchmark to run.")],
) -> None:
    """Run a benchmark with its baseline; further arguments go to the benchmark itself.

    Example: liveanchor bench main_job -- --portrait me.jpg
    """
    module = importlib.import_module(_MODULES[name])
    raise typer.Exit(module.main(context.args))
