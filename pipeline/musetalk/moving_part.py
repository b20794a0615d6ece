"""The part of a clip that moves: what lies around it is kept once, however long the clip is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import cv2
import numpy as np

from kernels.arrays import U8
from pipeline.types import FaceRect

LEVELS: Final = 3
"""A block of pixels whose mean stays this near to that of the first frame stands still: sensors and codecs flicker so much."""
_BLOCK: Final = 8


def moving_part(canvases: Iterable[U8], always: Iterable[FaceRect]) -> FaceRect:
    """The rectangle outside which a clip looks like its first frame.

    Args:
        canvases: uint8 (H, W, 3), all of one size, even sides; at least one.
        always: Rectangles on the canvas that belong to it in any case; at least one.

    Returns:
        Even-aligned, on the canvas.
    """
    first, most, height, width = None, None, 0, 0
    for canvas in canvases:
        height, width = canvas.shape[:2]
        size = max(width // _BLOCK, 1), max(height // _BLOCK, 1)
        means = cv2.resize(canvas, size, interpolation=cv2.INTER_AREA).astype(np.int16)
        if first is None or most is None:
            first, most = means, np.zeros_like(means)
        np.maximum(most, np.abs(means - first), out=most)
    assert most is not None  # noqa: S101 - the caller has frames
    rows, columns = np.nonzero(most.max(axis=2) > LEVELS)
    spans = [(rect.x, rect.y, rect.x + rect.w, rect.y + rect.h) for rect in always]
    if len(rows):
        step = np.array([width / most.shape[1], height / most.shape[0]])
        low = (np.array([columns.min(), rows.min()]) - 1) * step
        high = (np.array([columns.max(), rows.max()]) + 2) * step
        spans.append((int(low[0]), int(low[1]), int(high[0] + 1), int(high[1] + 1)))
    left, top = (max(min(span[i] for span in spans), 0) // 2 * 2 for i in (0, 1))
    right, bottom = (
        min(-(-max(span[i] for span in spans) // 2) * 2, most_of) for i, most_of in ((2, width), (3, height))
    )
    return FaceRect(left, top, right - left, bottom - top)
