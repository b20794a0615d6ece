"""Which tiles are fastest in LMDM's operations: `python -m benchmarks.kernels.lmdm_tiling FILE.json`. Publishes nothing.

Every variant runs eight layers' weights one after the other inside one CUDA graph, as a step does. `--part I/N` only compiles every
N-th variant, so that N processes can fill Triton's cache together before the timed run.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from triton.runtime.errors import OutOfResources

from benchmarks.core.gpu_timing import replayed_ms
from kernels.lmdm import ddim_project_triton, linear_film_triton, norm_linear_triton, short_attention_triton
from kernels.lmdm.norm_linear_triton import Tiling

WIDTH, LENGTH, LAYERS = 512, 80, 8
SMALL = [
    Tiling(32, 64, 128, 4, 4),
    Tiling(32, 32, 128, 4, 4),
    Tiling(16, 64, 128, 4, 4),
    Tiling(16, 32, 256, 4, 2),
    Tiling(64, 32, 128, 4, 3),
    Tiling(64, 64, 64, 4, 4),
]
LARGE = [
    Tiling(128, 128, 64, 8, 3),
    Tiling(64, 128, 64, 4, 4),
    Tiling(128, 64, 64, 4, 4),
    Tiling(64, 64, 64, 4, 4),
    Tiling(64, 256, 64, 8, 3),
]
Launches = list[Callable[[], object]]


def _random(*shape: int, dtype: torch.dtype = torch.float16) -> Tensor:
    return torch.randn(shape, device="cuda", dtype=torch.float32).mul(0.05).to(dtype)


def _norm(items: int, n: int, rotated: int, tiling: Tiling) -> Launches:
    x, gain = _random(items, LENGTH, WIDTH, dtype=torch.float32), torch.ones(WIDTH, device="cuda")
    bias, tables = torch.zeros(n, device="cuda"), (_random(LENGTH, WIDTH), _random(LENGTH, WIDTH))
    weights = [_random(n, WIDTH) for _ in range(LAYERS)]
    gelu = rotated == 0
    return [
        lambda w=w: norm_linear_triton.launch(x, gain, gain, w, bias, tables, rotated, gelu, tiling)  # type: ignore[misc]  # mypy cannot infer a lambda with defaults
        for w in weights
    ]


def _film(items: int, k: int, tiling: Tiling) -> Launches:
    h, y = _random(items, LENGTH, WIDTH, dtype=torch.float32), _random(items, LENGTH, k)
    bias, film = torch.zeros(WIDTH, device="cuda"), _random(items, 2, WIDTH)
    weights = [_random(WIDTH, k) for _ in range(LAYERS)]
    return [lambda w=w: linear_film_triton.launch(h, y, w, bias, film, tiling) for w in weights]  # type: ignore[misc]  # mypy cannot infer a lambda with defaults


def _attention(items: int, queries: int) -> Launches:
    qkv = [_random(items, LENGTH, 3 * WIDTH) for _ in range(LAYERS)]
    shared = (_random(2, WIDTH), _random(2, WIDTH))
    return [
        lambda p=p: short_attention_triton.launch(  # type: ignore[misc]  # mypy cannot infer a lambda with defaults
            p[..., :WIDTH], p[..., WIDTH : 2 * WIDTH], p[..., 2 * WIDTH :], 8, shared, queries
        )
        for p in qkv
    ]


def _project(items: int, tiling: Tiling) -> Launches:
    h, weights = _random(2 * items, LENGTH, WIDTH, dtype=torch.float32), [_random(265, WIDTH) for _ in range(LAYERS)]
    x, bias = _random(items, LENGTH, 265, dtype=torch.float32), torch.zeros(265, device="cuda")
    return [
        lambda w=w: ddim_project_triton.launch(h, w, bias, x, x, (0.5, 0.5, 0.1), 2.0, tiling)  # type: ignore[misc]  # mypy cannot infer a lambda with defaults
        for w in weights
    ]


def variants() -> dict[str, Callable[[], Launches]]:
    """Name -> launches."""
    made: dict[str, Callable[[], Launches]] = {}
    for windows, tilings in ((1, SMALL), (16, LARGE)):
        g = 2 * windows
        for t in tilings:
            label = f"b{windows} {t.rows}x{t.columns}x{t.depth} w{t.warps} s{t.stages}"
            made[f"qkv {label}"] = lambda t=t, g=g: _norm(g, 3 * WIDTH, 2 * WIDTH, t)  # type: ignore[misc]
            made[f"query {label}"] = lambda t=t, g=g: _norm(g, WIDTH, WIDTH, t)  # type: ignore[misc]
            made[f"wide {label}"] = lambda t=t, g=g: _norm(g, 2 * WIDTH, 0, t)  # type: ignore[misc]
            made[f"out512 {label}"] = lambda t=t, g=g: _film(g, WIDTH, t)  # type: ignore[misc]
            made[f"out1024 {label}"] = lambda t=t, g=g: _film(g, 2 * WIDTH, t)  # type: ignore[misc]
            made[f"project {label}"] = lambda t=t, b=windows: _project(b, t)  # type: ignore[misc]
        for queries in (16, 32, 64, 128):
            made[f"attention b{windows} q{queries}"] = lambda g=g, q=queries: _attention(g, q)  # type: ignore[misc]
    return made


def main() -> None:
    """Measure all variants."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--part", default="")
    arguments = parser.parse_args()
    chosen = list(variants().items())
    if arguments.part:
        index, parts = map(int, arguments.part.split("/"))
        chosen = chosen[index::parts]
    times: dict[str, float | str] = {}
    for name, make in chosen:
        try:
            launches = make()
            if arguments.part:
                launches[0]()
                torch.cuda.synchronize()
                continue
            times[name] = 1e3 * float(torch.tensor(replayed_ms(launches, repeats=2, samples=9)).median())
        except (RuntimeError, ValueError, OutOfResources) as error:
            times[name] = f"{type(error).__name__}: {str(error)[:100]}"
    if arguments.part:
        return
    arguments.out.write_text(json.dumps(times, indent=1), encoding="utf-8")
    best: dict[str, list[tuple[float, str]]] = {}
    for name, value in times.items():
        operation, size, *rest = name.split(" ")
        if isinstance(value, float):
            best.setdefault(f"{operation} {size}", []).append((value, " ".join(rest)))
    for key, values in sorted(best.items()):
        shown = ", ".join(f"{us:.2f} us {tiles}" for us, tiles in sorted(values)[:4])
        sys.stdout.write(f"{key}: {shown}\n")


if __name__ == "__main__":
    main()
