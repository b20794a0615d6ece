"""A layout for stacks of pictures in which a convolution is a sum of shifted matrix products.

A picture of height h and width w lies as (h + 1) (w + 1) rows of c channels, line after line, with one zero row after every line
and one zero line after the last: place (y, x) is row y (w + 1) + x. The neighbour at (dy, dx) is then always dy (w + 1) + dx rows
away, and a step over an edge meets zeros: the right edge's zero row is the next line's left edge, and one picture's zero
line is the next one's top. Rows before the first picture and after the last one read as zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.errors import ShapeError


@dataclass(frozen=True)
class FlatShape:
    """Extent of a stack of pictures.

    Attributes:
        batch: Pictures.
        height: Lines of each.
        width: Places in a line.
    """

    batch: int
    height: int
    width: int

    @property
    def pitch(self) -> int:
        """Rows from one line to the next."""
        return self.width + 1

    @property
    def stride(self) -> int:
        """Rows from one picture to the next."""
        return (self.height + 1) * self.pitch

    @property
    def rows(self) -> int:
        """Rows of the whole stack."""
        return self.batch * self.stride

    def scaled(self, factor: int) -> FlatShape:
        """The same pictures, `factor` times larger."""
        return FlatShape(self.batch, self.height * factor, self.width * factor)

    def check(self, name: str, flat: Tensor) -> None:
        """Raise ShapeError unless `flat` is a contiguous (rows, c)."""
        if flat.dim() != 2 or flat.shape[0] != self.rows or not flat.is_contiguous():
            raise ShapeError(name, f"{tuple(flat.shape)}", f"contiguous ({self.rows}, c) for {self}")


def to_flat(pictures: Tensor) -> Tensor:
    """(b, h, w, c) -> the flat (b (h + 1) (w + 1), c), zeros between."""
    return torch.nn.functional.pad(pictures, (0, 0, 0, 1, 0, 1)).flatten(0, 2)


def from_flat(flat: Tensor, shape: FlatShape) -> Tensor:
    """(rows, c) -> a view (b, h, w, c)."""
    grid = flat.reshape(shape.batch, shape.height + 1, shape.width + 1, flat.shape[-1])
    return grid[:, : shape.height, : shape.width]
