"""How the work of `flat_convolution`'s kernels is cut."""

from __future__ import annotations

from typing import NamedTuple

from kernels.conv.flat_maps import FlatShape

_MULTIPROCESSORS = 132
WIDE_TILE_BYTES = 200 * 1024
"""What the largest tiles in use take."""


class Tile(NamedTuple):
    """How the work is cut.

    Attributes:
        rows: Rows of a program, a power of two.
        outputs: Outputs of a program, a power of two.
        depth: Channels per step, a power of two that divides the channels.
        stages: Steps in flight.
        warps: Warps per program.
    """

    rows: int
    outputs: int
    depth: int
    stages: int
    warps: int


def tile_for(
    shape: FlatShape,
    channels: int,
    outputs: int,
    kernel: int = 3,
    *,
    modulation: bool = False,
    shared_bytes: int = 232448,
) -> Tile:
    """A measured choice (`python -m benchmarks.kernels.flat_convolution_tiles`, one H200): wide tiles while they fill the GPU.

    Args:
        shape: Extent of the pictures.
        channels: In.
        outputs: Out.
        kernel: 1 or 3.
        modulation: Whether the outputs modulate.
        shared_bytes: Shared memory a program may have; small tiles where it is less than Hopper's (chosen by size, not measured).
    """
    lines = shape.batch * -(-shape.height * shape.pitch // 128)
    wide = next(size for size in (256, 128, 64, 32, 16) if outputs % size == 0)
    depth = min(64, channels)
    if shared_bytes < WIDE_TILE_BYTES:
        return Tile(128, min(wide, 128), min(depth, 32), 3, 8 if wide >= 128 else 4)
    if wide >= 128 and lines * (outputs // wide) < _MULTIPROCESSORS:
        return Tile(128, 128 if lines * (outputs // 128) >= _MULTIPROCESSORS // 2 else 64, depth, 4, 4)
    if kernel == 1 or wide == 128:
        return Tile(128, min(wide, 128), depth, 3, 4)
    if wide == 256:
        return Tile(256, 128, depth, 4, 8) if outputs == 256 and not modulation else Tile(128, 256, depth, 3, 8)
    return Tile(128, wide, depth, 3 if wide == 64 else 2, 4)
