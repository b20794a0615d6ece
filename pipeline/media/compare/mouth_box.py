"""Finding a talking mouth without a face model: the place in the lower part of what moves that changes fastest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from kernels.arrays import U8
from kernels.errors import InvalidInputError

WORKING_WIDTH = 180
"""Pictures are shrunk to about this many columns for the search."""
STILL_LEVELS = 0.3
"""Where even the busiest spot changes by less than this, nothing moves."""
MOVING_SHARE = 0.02
EYES_SHARE = 0.35
MOUTH_SHARE = 0.2
DARK_SHARE = 0.4
BLACK = 16
"""Luma of black in limited range."""


@dataclass(frozen=True)
class MouthBox:
    """Rectangle in pixels of the video."""

    x: int
    y: int
    w: int
    h: int


def find_mouth_box(lumas: Iterable[U8]) -> MouthBox | None:
    """Look for the mouth in a run of pictures.

    The second difference in time, `|2 y[t] - y[t-1] - y[t+1]|`, answers to syllables and hardly to a slowly swaying head. It
    is weighted by how much darker a spot gets than it usually is, which an opening mouth does and a moving jaw does less.
    Below the upper 35 % of the moving area (where eyes blink) the busiest spot is taken, and the box is drawn around the
    connected busy area that it belongs to, with a margin of a quarter of its width and half of its height.

    Args:
        lumas: uint8 (h, w) each, consecutive, all of one size; taken one at a time.

    Returns:
        The box, or None when there are too few pictures or nothing moves.
    """
    import cv2

    height = width = 0
    size = (0, 0)
    pictures = []
    for luma in lumas:
        height, width = luma.shape
        shrink = max(1.0, width / WORKING_WIDTH)
        size = (max(8, round(width / shrink)), max(8, round(height / shrink)))
        pictures.append(cv2.resize(luma, size, interpolation=cv2.INTER_AREA))
    if len(pictures) < 3:
        return None
    small = np.stack(pictures).astype(np.float32)
    activity = np.abs(2 * small[1:-1] - small[:-2] - small[2:]).mean(axis=0)
    if float(activity.max()) < STILL_LEVELS:
        return None
    bright, dark = np.percentile(small, (75, 3), axis=0)
    activity = cv2.GaussianBlur((activity * (bright - dark)).astype(np.float32), (0, 0), 1.0)
    peak = float(activity.max())
    rows, _ = np.nonzero(activity > MOVING_SHARE * peak)
    lower = activity.copy()
    lower[: int(rows.min() + EYES_SHARE * (rows.max() + 1 - rows.min()))] = 0
    blur = max(1.0, size[0] / 40)
    centre = np.unravel_index(int(np.argmax(cv2.GaussianBlur(lower, (0, 0), blur))), lower.shape)
    near = (lower > MOUTH_SHARE * float(lower[centre])).astype(np.uint8)
    _, labels, parts, _ = cv2.connectedComponentsWithStats(near)
    x, y, w, h = parts[labels[centre]][:4] if labels[centre] else (centre[1], centre[0], 1, 1)
    left, right = max(0, x - w // 4), min(size[0], x + w + w // 4)
    top, bottom = max(0, y - h // 2), min(size[1], y + h + h // 2)
    across, down = width / size[0], height / size[1]
    return MouthBox(int(left * across), int(top * down), int((right - left) * across), int((bottom - top) * down))


def box_pixels(luma: U8, box: MouthBox | None) -> U8:
    """The part of a picture inside the box, or nothing without one.

    Raises:
        InvalidInputError: The box lies outside the picture.
    """
    if box is None:
        return luma[:0]
    height, width = luma.shape
    if box.x < 0 or box.y < 0 or box.w < 1 or box.h < 1 or box.x + box.w > width or box.y + box.h > height:
        raise InvalidInputError("mouth_box", f"{box.w}x{box.h} at {box.x},{box.y}", f"inside {width}x{height} pixels")
    return luma[box.y : box.y + box.h, box.x : box.x + box.w]


def dark_threshold(pixels: U8) -> int:
    """Luma below which a pixel of the box counts as dark: 40 % of the way from black to its median."""
    return int(BLACK + DARK_SHARE * (float(np.median(pixels)) - BLACK))
