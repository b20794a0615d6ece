"""RGB to YUV, the one place that knows the coefficients.

For luma weights `Kr`, `Kb` and `Kg = 1 - Kr - Kb` (ITU-R BT.601-7 section 2.5.1, BT.709-6 section 3.2), with R, G, B in 0..255::

    Y = 16  + 219/255 * (Kr R + Kg G + Kb B)
    U = 128 + 224/255 * (B - L) / (2 (1 - Kb))        L = Kr R + Kg G + Kb B
    V = 128 + 224/255 * (R - L) / (2 (1 - Kr))

Full range ("PC", "JPEG") drops the head and foot room: 255 in place of 219 and 224, and 0 in place of 16.
Every value is rounded half up, never truncated. For limited BT.601 this gives the widely published six-digit coefficients
(0.256788, 0.504129, 0.097906, ...).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from kernels.arrays import F64
from kernels.errors import InvalidInputError

ColourName = Literal["bt709", "bt601"]
ChromaName = Literal["mean", "top_left"]
COLOUR_NAMES: tuple[ColourName, ...] = ("bt709", "bt601")
CHROMA_NAMES: tuple[ChromaName, ...] = ("mean", "top_left")
_ALSO_CALLED: dict[str, ChromaName] = {"compat": "top_left"}
"""The published system's rule by the name that asks for compatibility with it."""


@dataclass(frozen=True)
class ColourMatrix:
    """A colour standard in limited ("video", "MPEG") or full range.

    Attributes:
        name: `bt709` or `bt601`.
        rgb_to_yuv: float64 (3, 3); rows Y, U, V; columns R, G, B; for inputs and outputs in 0..255.
        offset: float64 (3,), (16, 128, 128); (0, 128, 128) in full range.
        h273_code: Code point of ITU-T H.273 for primaries, transfer and matrix alike: 1 = BT.709, 6 = BT.601 with 525 lines.
        full_range: Whether luma and chroma use all of 0..255.
    """

    name: ColourName
    rgb_to_yuv: F64
    offset: F64
    h273_code: int
    full_range: bool = False

    def swap_red_and_blue(self) -> ColourMatrix:
        """The same standard for pixels that arrive as B, G, R."""
        return replace(self, rgb_to_yuv=self.rgb_to_yuv[:, ::-1])


def _standard(name: ColourName, kr: float, kb: float, h273_code: int, full_range: bool = False) -> ColourMatrix:
    luma = np.array([kr, 1.0 - kr - kb, kb])
    blue_difference = (np.array([0.0, 0.0, 1.0]) - luma) / (2.0 * (1.0 - kb))
    red_difference = (np.array([1.0, 0.0, 0.0]) - luma) / (2.0 * (1.0 - kr))
    luma_span, chroma_span = (1.0, 1.0) if full_range else (219.0 / 255.0, 224.0 / 255.0)
    matrix = np.stack([luma_span * luma, chroma_span * blue_difference, chroma_span * red_difference])
    offset = np.array([0.0 if full_range else 16.0, 128.0, 128.0])
    matrix.setflags(write=False)
    offset.setflags(write=False)
    return ColourMatrix(name, matrix, offset, h273_code, full_range)


BT709 = _standard("bt709", kr=0.2126, kb=0.0722, h273_code=1)
BT601 = _standard("bt601", kr=0.299, kb=0.114, h273_code=6)
FULL_RANGE = (
    _standard("bt709", kr=0.2126, kb=0.0722, h273_code=1, full_range=True),
    _standard("bt601", kr=0.299, kb=0.114, h273_code=6, full_range=True),
)


def colour_matrix(name: str, *, full_range: bool = False) -> ColourMatrix:
    """The matrix of a colour standard.

    Args:
        name: `bt709` or `bt601`.
        full_range: All of 0..255 in place of limited range.

    Raises:
        InvalidInputError: For any other name.
    """
    for matrix in FULL_RANGE if full_range else (BT709, BT601):
        if matrix.name == name:
            return matrix
    raise InvalidInputError("colour", repr(name)[:40], " or ".join(COLOUR_NAMES))


def check_chroma(name: str) -> ChromaName:
    """The same chroma rule, checked; `compat` is another name of `top_left`.

    Raises:
        InvalidInputError: When the rule is neither `mean` nor `top_left`.
    """
    name = _ALSO_CALLED.get(name, name)
    for known in CHROMA_NAMES:
        if name == known:
            return known
    raise InvalidInputError("chroma", repr(name)[:40], " or ".join(CHROMA_NAMES))
