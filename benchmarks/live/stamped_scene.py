"""A talking-head-like scene for timing the transport: the time stands in the picture, a flash and a click mark each second."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kernels.arrays import F32, U8
from pipeline.types import SAMPLE_RATE_HZ, FaceRect, Nv12Canvas, Nv12Rect

BLOCK: Final = 32
"""Side of one bit in pixels: survives any bit rate."""
BITS: Final = 48
BITS_PER_ROW: Final = 16
FACE_SIDE: Final = 512
FLASH_ROW: Final = 3
"""Row of blocks below the bits that is white in flash frames."""
WHITE, BLACK = 235, 16
CLICK_LEVEL: Final = 0.9
CLICK_SAMPLES: Final = 8


class StampedScene:
    """Pictures of `width` x `height`: a textured still background and a moving face of 512 x 512 in the middle.

    Args:
        width: At least 512, even.
        height: At least 512, even.
        fps: Frames per second.
    """

    def __init__(self, width: int, height: int, fps: int) -> None:
        self.fps = fps
        self.rect = FaceRect((width - FACE_SIDE) // 4 * 2, (height - FACE_SIDE) // 4 * 2, FACE_SIDE, FACE_SIDE)
        rng = np.random.default_rng(0)
        luma = 110 + 40 * np.sin(np.arange(width) / 97)[None] + 20 * np.cos(np.arange(height) / 131)[:, None]
        luma = luma + np.kron(rng.normal(0, 6, (-(-height // 4), -(-width // 4))), np.ones((4, 4)))[:height, :width]
        self.canvas = Nv12Canvas(
            np.clip(luma, BLACK, WHITE).astype(np.uint8), np.full((height // 2, width), 128, np.uint8)
        )
        self._faces = [self._face(rng, step / 12) for step in range(12)]
        self._uv: U8 = np.full((FACE_SIDE // 2, FACE_SIDE), 120, np.uint8)

    def picture(self, index: int, stamp: int, flash: bool | None = None) -> Nv12Rect:
        """Frame `index`, stamped with a number of 48 bits, such as a time; it flashes as `flash` says, else once a second."""
        luma = self._faces[index % len(self._faces)].copy()
        for bit in range(BITS):
            row, column = divmod(bit, BITS_PER_ROW)
            value = WHITE if stamp >> bit & 1 else BLACK
            luma[row * BLOCK : (row + 1) * BLOCK, column * BLOCK : (column + 1) * BLOCK] = value
        top = FLASH_ROW * BLOCK
        luma[top : top + BLOCK] = WHITE if (self.flashes(index) if flash is None else flash) else BLACK
        return Nv12Rect(self.rect.x, self.rect.y, FACE_SIDE, FACE_SIDE, luma, self._uv)

    def flashes(self, index: int) -> bool:
        """Whether a second begins with this frame."""
        return index % self.fps == 0

    def voice(self, index: int) -> F32:
        """The samples of a frame, float32 (16000 / fps,): silence, and a click in the first ones of a flash."""
        pcm = np.zeros(SAMPLE_RATE_HZ // self.fps, np.float32)
        if self.flashes(index):
            pcm[:CLICK_SAMPLES] = CLICK_LEVEL
        return pcm

    @staticmethod
    def _face(rng: np.random.Generator, phase: float) -> U8:
        rows, columns = np.mgrid[0:FACE_SIDE, 0:FACE_SIDE]
        angle = 2 * np.pi * phase
        shade = 130 + 50 * np.sin(columns / 40 + 0.3 * np.sin(angle)) * np.cos(rows / 55 + 0.2 * np.cos(angle))
        mouth = ((columns - 256) / 70) ** 2 + ((rows - 380) / (10 + 25 * (1 + np.sin(angle)))) ** 2 < 1
        shade = np.where(mouth, 40, shade + rng.normal(0, 2, shade.shape))
        return np.clip(shade, BLACK, WHITE).astype(np.uint8)


def read_stamp(luma: U8, x: int, y: int) -> int:
    """The time in a decoded picture whose face lies at (x, y), in microseconds, lowest 48 bits."""
    value = 0
    for bit in range(BITS):
        row, column = divmod(bit, BITS_PER_ROW)
        top, left = y + row * BLOCK, x + column * BLOCK
        value |= int(luma[top + 8 : top + 24 : 4, left + 8 : left + 24 : 4].mean() > 125) << bit
    return value


def is_flash(luma: U8, x: int, y: int) -> bool:
    """Whether a decoded picture is one of a flash."""
    top = y + FLASH_ROW * BLOCK
    return bool(luma[top + 8 : top + 24 : 4, x + 64 : x + 448 : 16].mean() > 125)


def clicks(sound: NDArray[np.floating], level: float = CLICK_LEVEL / 9, apart: int = 12_000) -> list[int]:
    """Where clicks begin in float (n,), at least `apart` samples from each other; the loudest sample of each counts."""
    loud = np.flatnonzero(np.abs(sound) > level)
    found: list[int] = []
    for place in loud:
        if not found or place - found[-1] > apart:
            window = np.abs(sound[place : place + 480])
            found.append(int(place + np.argmax(window)))
    return found
