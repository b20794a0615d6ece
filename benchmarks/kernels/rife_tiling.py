"""Which cut of each convolution of RIFE is fastest: `python -m benchmarks.kernels.rife_tiling FILE.json`. Publishes nothing.

Kernels are compiled by several processes first (`--compile`), because compiling takes far longer than measuring. cuDNN with a
separate epilogue is measured for comparison. A variant that does not compile or run is reported as such and the others go on.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

import torch
import torch.nn.functional as F

from benchmarks.core.gpu_timing import replayed_ms
from engines.networks import build
from engines.networks.rife.ifnet import IFNet
from engines.rife.folded import FoldedIFNet, fold
from kernels.conv.conv3x3_layout import Conv3x3, Residual
from kernels.conv.conv3x3_triton import ConvTile, choose_tile, launch

BATCHES: Final = (1, 8)
SIZE: Final = 512
TILES: Final = (
    (128, 128, 64, 8, 3),
    (128, 128, 32, 8, 4),
    (128, 64, 64, 4, 4),
    (128, 32, 64, 4, 4),
    (64, 128, 64, 4, 4),
    (64, 64, 64, 4, 4),
    (64, 32, 64, 4, 5),
    (64, 16, 64, 4, 5),
    (32, 64, 64, 4, 4),
    (32, 32, 64, 2, 5),
    (16, 64, 64, 4, 5),
)


class Work(NamedTuple):
    """Describes a convolution of a network: its constants, input side at 512 x 512, and what is done with a residual."""

    conv: Conv3x3
    side: int
    order: Residual


def works_of(folded: FoldedIFNet) -> dict[str, Work]:
    """Every different convolution of a network by a name that says what it is."""
    found: dict[str, Work] = {}

    def add(conv: Conv3x3, side: int, order: Residual) -> None:
        _, i, o = conv.weight.shape
        found.setdefault(f"{i}->{o} s{conv.stride} {side} {order}", Work(conv, side, order))

    for index, conv in enumerate(folded.encoder):
        add(conv, SIZE if index == 0 else SIZE // 2, "none")
    for block in folded.blocks:
        side = SIZE // block.scale
        add(block.down[0], side, "none")
        add(block.down[1], side // 2, "none")
        add(block.body[0], side // 4, "none" if block.outer else "before")
        add(block.head, side // 4, "none")
    return found


def candidates(work: Work) -> list[ConvTile]:
    """Tiles that make sense for a convolution, the chosen one of today not among them."""
    _, i, o = work.conv.weight.shape
    kept: list[ConvTile] = []
    for pixels, outputs, inputs, warps, stages in TILES:
        step = next(size for size in (64, 32, 16) if size <= inputs and (i % size == 0 or size == 16))
        tile = ConvTile(pixels, outputs, step, warps, stages)
        if (outputs <= o or outputs == 16) and tile not in kept:
            kept.append(tile)
    return kept


def inputs_of(work: Work, batch: int) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Random input and residual."""
    _, i, o = work.conv.weight.shape
    x = torch.randn(batch, work.side, work.side, i, device="cuda", dtype=torch.float16)
    return x, None if work.order == "none" else torch.randn(
        batch, work.side, work.side, o, device="cuda", dtype=torch.float16
    )


def cudnn_ms(work: Work, batch: int) -> float:
    """The same by the library, without bias, residual and activation."""
    _, i, o = work.conv.weight.shape
    x = inputs_of(work, batch)[0].permute(0, 3, 1, 2)
    weight = work.conv.weight.reshape(3, 3, i, o).permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)
    return min(replayed_ms([lambda: F.conv2d(x, weight, None, work.conv.stride, 1)], repeats=20, samples=5))


def main() -> int:
    """Measure all variants."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--versions", nargs="+", default=["4.9", "4.25"])
    parser.add_argument("--workers", type=int, default=12)
    parser.add_argument("--compile", type=int, default=-1, help="only compile, as the worker of this number")
    args = parser.parse_args()
    works: dict[str, Work] = {}
    for version in args.versions:
        network = build(f"rife/{version}")
        if isinstance(network, IFNet):
            works |= works_of(fold(network.requires_grad_(False)).to("cuda", torch.float16))
    variants = [(name, work, tile) for name, work in works.items() for tile in candidates(work)]
    if args.compile >= 0:
        for name, work, tile in variants[args.compile :: args.workers]:
            _try(name, work, tile, 1)
        return 0
    command = [sys.executable, "-m", "benchmarks.kernels.rife_tiling", str(args.out), "--workers", str(args.workers)]
    command += ["--versions", *args.versions]
    running = [subprocess.Popen([*command, "--compile", str(k)]) for k in range(args.workers)]  # noqa: S603 - our own module
    for process in running:
        process.wait()
    times: dict[str, dict[str, float | str]] = {}
    torch.backends.cudnn.benchmark = True
    for batch in BATCHES:
        for name, work in works.items():
            row: dict[str, float | str] = {"cudnn": cudnn_ms(work, batch)}
            for tile in candidates(work):
                row[str(tuple(tile))] = _try(name, work, tile, batch)
            numbers = sorted((value, key) for key, value in row.items() if isinstance(value, float))
            pixels = batch * (work.side // work.conv.stride) ** 2
            today = choose_tile(pixels, work.conv.weight.shape[1], work.conv.weight.shape[2])
            row["today"] = str(tuple(today))
            times[f"b{batch} {name}"] = row
            args.out.write_text(json.dumps(times, indent=1) + "\n", encoding="utf-8")
            best = ", ".join(f"{key} {value * 1e3:.1f} us" for value, key in numbers[:3])
            print(f"b{batch} {name}: {best} | cudnn {row['cudnn']}", flush=True)
    return 0


def _try(name: str, work: Work, tile: ConvTile, batch: int) -> float | str:
    x, residual = inputs_of(work, batch)
    try:
        return min(replayed_ms([lambda: launch(x, work.conv, residual, work.order, tile)], repeats=20, samples=5))
    except (RuntimeError, ValueError, TypeError) as error:  # too much shared memory, or refused by the compiler
        return f"{type(error).__name__}: {str(error)[:80]}"


if __name__ == "__main__":
    sys.exit(main())
