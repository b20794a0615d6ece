"""The regular lattices on which motion is evaluated: one node at the centre of every square block of crop pixels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kernels.arrays import F64

CROP: Final = 512
"""Side of the square face crop, pixels."""
FACE_CELL: Final = 8
"""Block side of the lattice over the whole crop."""
MOUTH_CELL: Final = 4
"""Block side of the finer lattice around the mouth."""


@dataclass(frozen=True)
class Lattice:
    """A rectangle of the crop covered by `cell` x `cell` blocks, one node at each block's centre.

    Attributes:
        x: Left edge, crop pixels.
        y: Top edge.
        columns: Blocks across.
        rows: Blocks down.
        cell: Block side in pixels.
    """

    x: int
    y: int
    columns: int
    rows: int
    cell: int

    def nodes(self) -> F64:
        """Node positions, float64 (rows, columns, 2), crop pixels."""
        half = (self.cell - 1) / 2
        xs = self.x + np.arange(self.columns) * self.cell + half
        ys = self.y + np.arange(self.rows) * self.cell + half
        return np.stack(np.meshgrid(xs, ys), axis=-1)
