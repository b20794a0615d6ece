"""The default presenter as a picture with known landmarks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kernels.arrays import F32, U8
from kernels.errors import InvalidInputError
from pipeline.presenter.geometry import BOARD_H, BOARD_W

MIN_WIDTH: Final = 360


@dataclass(frozen=True)
class PresenterDrawing:
    """The presenter on a canvas.

    Attributes:
        rgb: uint8 (height, width, 3), RGB.
        landmarks: float32 (468, 3), public face-mesh topology, canvas pixels, pixel centres at integers: x right,
            y down, z away from the viewer. Lips closed, eyes open.
    """

    rgb: U8
    landmarks: F32


def draw_presenter(width: int = 720, height: int = 1280) -> PresenterDrawing:
    """Draw the presenter: no assets, no network, the same bytes on every call; about 3 s on one core.

    Args:
        width: Canvas width in pixels, even, 360..1080.
        height: Canvas height in pixels; the canvas is 9:16.

    Returns:
        The drawing, painted at 1080 x 1920 and area-averaged to the canvas.

    Raises:
        InvalidInputError: The canvas is not an even 9:16 rectangle within the limits.
    """
    _check_canvas(width, height)
    import cv2

    from pipeline.presenter.compose import paint_board
    from pipeline.presenter.template import landmarks_on

    board = paint_board()
    if width != BOARD_W:
        board = np.asarray(cv2.resize(board, (width, height), interpolation=cv2.INTER_AREA), dtype=np.float32)
    noise = np.random.default_rng(0).random((height, width, 1), dtype=np.float32)  # dither: dark gradients would band
    rgb = np.floor(np.clip(board, 0.0, 1.0) * np.float32(255.0) + noise * np.float32(0.98)).astype(np.uint8)
    return PresenterDrawing(rgb, landmarks_on(width))


def draw_outline(width: int = 720, height: int = 1280) -> U8:
    """The presenter's share of every pixel of `draw_presenter`'s picture, uint8 (height, width), 0..255; twice its time."""
    _check_canvas(width, height)
    import cv2

    from pipeline.presenter.compose import person_cover

    cover = cv2.resize(person_cover(), (width, height), interpolation=cv2.INTER_AREA)
    return np.asarray(np.round(255.0 * cover), dtype=np.uint8)


def _check_canvas(width: int, height: int) -> None:
    if not (MIN_WIDTH <= width <= BOARD_W) or width % 2 or height % 2 or width * BOARD_H != height * BOARD_W:
        raise InvalidInputError("canvas", f"{width}x{height}", f"even 9:16, width {MIN_WIDTH}..{BOARD_W}")
