"""Tiles of `flat_convolution` over the Ditto decoder's shapes: `python -m benchmarks.kernels.flat_convolution_tiles FILE.json`.

Batch of eight, fp16, random data, device time by graph replay; TFLOP/s count the convolution's own work, not the rows between
lines. cuDNN's channels-last convolution of the same pictures, without what follows it, is timed too. The defaults are in
`kernels.conv.flat_tiles.tile_for`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benchmarks.core.gpu_timing import replayed_ms
from kernels.conv.flat_convolution_triton import convolve, modulate
from kernels.conv.flat_maps import FlatShape, to_flat
from kernels.conv.flat_tiles import Tile
from kernels.conv.instance_norm import Normed, statistics_torch
from kernels.triton_launch import compiling_in_parallel

BATCH = 8


class Case(NamedTuple):
    """Describes a convolution of the decoder; `scale` > 0 makes it a modulation of pictures that much smaller."""

    name: str
    size: int
    inputs: int
    outputs: int
    kernel: int = 3
    scale: int = 0
    residual: bool = False


CASES = (
    Case("middle_conv", 64, 512, 512, residual=True),
    Case("middle_norm", 64, 128, 1024, scale=1),
    Case("shared", 64, 256, 1536),
    Case("up_0_norm", 128, 128, 1024, scale=2),
    Case("up_0_conv_0", 128, 512, 256),
    Case("up_1_norm_0", 256, 128, 512, scale=2),
    Case("up_1_conv_0", 256, 256, 64),
    Case("up_1_norm_1", 256, 128, 128, scale=1),
    Case("up_1_conv_1", 256, 64, 64, residual=True),
    Case("picture", 256, 64, 16),
    Case("up_1_beta_s", 256, 128, 64, residual=True),
    Case("up_0_conv_1", 128, 256, 256, residual=True),
)
TILES = (
    Tile(128, 256, 64, 3, 8),
    Tile(128, 256, 64, 4, 8),
    Tile(256, 128, 64, 3, 8),
    Tile(256, 128, 64, 4, 8),
    Tile(128, 128, 64, 3, 4),
    Tile(128, 128, 64, 3, 8),
    Tile(128, 128, 64, 4, 8),
    Tile(64, 256, 64, 4, 4),
    Tile(128, 64, 64, 4, 4),
    Tile(256, 64, 64, 4, 8),
    Tile(256, 64, 64, 4, 4),
    Tile(128, 16, 64, 4, 4),
    Tile(256, 16, 64, 4, 4),
    Tile(128, 64, 64, 2, 4),
    Tile(128, 64, 64, 3, 4),
    Tile(256, 64, 64, 2, 4),
    Tile(256, 64, 64, 2, 8),
    Tile(256, 64, 64, 3, 8),
    Tile(128, 16, 64, 2, 4),
    Tile(256, 16, 64, 2, 4),
    Tile(256, 16, 64, 3, 8),
    Tile(128, 128, 64, 2, 4),
    Tile(128, 256, 64, 2, 8),
)


def work_of(case: Case) -> Callable[[Tile], Tensor]:
    """The launch of a case for a tile."""
    shape = FlatShape(BATCH, case.size, case.size)
    x = to_flat(torch.randn(BATCH, case.size, case.size, case.inputs, device="cuda").half())
    columns = case.kernel**2 * case.inputs
    weight = (torch.randn(case.outputs, columns, device="cuda") * columns**-0.5).half()
    if case.scale:
        small = case.size // case.scale
        below = FlatShape(BATCH, small, small)
        z = to_flat(torch.randn(BATCH, small, small, case.outputs // 2, device="cuda").half())
        bias = torch.randn(case.outputs, device="cuda")
        normed = Normed(z, below, statistics_torch(z, below), case.scale)
        return lambda tile: modulate(x, weight, bias, shape, normed, 0.2, True, tile=tile)
    rows = (
        to_flat(torch.randn(BATCH, case.size, case.size, case.outputs, device="cuda").half()) if case.residual else None
    )

    return lambda tile: convolve(x, weight, shape, case.kernel, None, 1.0, rows, None, 1, x.dtype, tile=tile)


def tiles_of(case: Case) -> list[Tile]:
    """Tiles that divide the outputs of a case and are not far too narrow for it."""
    return [tile for tile in TILES if case.outputs % tile.outputs == 0 and tile.outputs * 4 >= min(case.outputs, 256)]


def main() -> None:
    """Measure, print, and keep in the file named on the command line."""
    found: dict[str, Any] = {}
    runs = {case: work_of(case) for case in CASES}
    with compiling_in_parallel():
        for case, run in runs.items():
            for tile in tiles_of(case):
                run(tile)
    for case, run in runs.items():
        flop = 2.0 * BATCH * case.size**2 * case.outputs * case.inputs * case.kernel**2
        tiles = tiles_of(case)
        rows: dict[str, float] = {}
        for tile in tiles:
            try:
                times = replayed_ms([lambda t=tile, r=run: r(t)], repeats=3, samples=8)  # type: ignore[misc]  # mypy cannot infer a lambda with defaults
            except RuntimeError as error:
                print(case.name, tile, repr(error)[:120])
                continue
            rows[str(tuple(tile))] = sorted(times)[len(times) // 2]
        pictures = torch.randn(BATCH, case.inputs, case.size, case.size, device="cuda").half()
        pictures = pictures.contiguous(memory_format=torch.channels_last)
        kernel = torch.randn(case.outputs, case.inputs, case.kernel, case.kernel, device="cuda").half()
        kernel = kernel.contiguous(memory_format=torch.channels_last)
        with torch.backends.cudnn.flags(enabled=True, benchmark=True):
            times = replayed_ms(
                [lambda p=pictures, k=kernel, c=case: torch.nn.functional.conv2d(p, k, padding=c.kernel // 2)],  # type: ignore[misc]  # as above
                repeats=3,
                samples=8,
            )
        rows["cudnn"] = sorted(times)[len(times) // 2]
        found[case.name] = rows
        table = "  ".join(
            f"{name}: {ms:.3f} ms {flop / ms / 1e9:.0f}" for name, ms in sorted(rows.items(), key=lambda r: r[1])
        )
        print(f"{case.name}  {table}", flush=True)
        if len(sys.argv) > 1:
            Path(sys.argv[1]).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    with torch.inference_mode():
        main()
