"""Values that travel between stages. Frozen, arrays are numpy, every array is treated as read-only by its receiver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernels.arrays import F32, U8

SAMPLE_RATE_HZ = 16_000
MOTION_FPS = 25
SAMPLES_PER_FRAME = SAMPLE_RATE_HZ // MOTION_FPS
FEATURE_RATE_HZ = 50
ROWS_PER_FRAME = FEATURE_RATE_HZ // MOTION_FPS
CROP_SIZE = 512
"""Side of the square face crop in pixels, every family."""


@dataclass(frozen=True)
class AudioChunk:
    """Speech of one session.

    Attributes:
        pcm: float32 (n,), mono, 16 kHz, nominally -1..1.
        pts_samples: Index of the first sample since the session's start.
        epoch: Raised by every interruption; work of an older epoch is dropped.
    """

    pcm: F32
    pts_samples: int
    epoch: int = 0


@dataclass(frozen=True)
class FeatureRows:
    """Audio features.

    Attributes:
        rows: float32 (t, d).
        rate_hz: Rows per second.
        first_row: Index of the first row since the session's start.
    """

    rows: F32
    rate_hz: int
    first_row: int


@dataclass(frozen=True)
class MotionChunk:
    """Motion at 25 frames/s.

    Attributes:
        motion: float32 (n, 265), layout in `engines.motion_layout`.
        first_frame: Index of the first frame since the session's start.
        hold: bool (n,), True where a frame does not follow smoothly on the one before, so that an interpolator repeats there;
            None: nowhere.
    """

    motion: F32
    first_frame: int
    hold: NDArray[np.bool_] | None = None

    @property
    def holds(self) -> NDArray[np.bool_]:
        """`hold`, spelled out."""
        return np.zeros(len(self.motion), np.bool_) if self.hold is None else self.hold


@dataclass(frozen=True)
class CropBatch:
    """Rendered face crops, and whose they are, so that an interpolator can tell by itself what must not be blended.

    Attributes:
        crops: uint8 RGB (n, 512, 512, 3).
        hold: bool (n,); True where an interpolator must repeat instead of blending into this frame.
        avatar_id: Id of the avatar that speaks.
        first_frame: Index of the first crop's frame since the session's start, at 25 frames/s.
        epoch: Session epoch.
    """

    crops: U8
    hold: NDArray[np.bool_]
    avatar_id: str = ""
    first_frame: int = 0
    epoch: int = 0

    def __len__(self) -> int:
        """Number of crops."""
        return int(self.crops.shape[0])


@dataclass(frozen=True)
class Nv12Rect:
    """The rectangle of the canvas that a frame changes; limited range; x, y, w, h in canvas pixels, all even.

    Attributes:
        y_plane: uint8 (h, w), luma.
        uv_plane: uint8 (h / 2, w), interleaved U V.
        over: A smaller rectangle within this one that is shown over it; None for none.
    """

    x: int
    y: int
    w: int
    h: int
    y_plane: U8
    uv_plane: U8
    over: Nv12Rect | None = None


@dataclass(frozen=True)
class Nv12Canvas:
    """A whole picture: `y_plane` uint8 (height, width), `uv_plane` uint8 (height / 2, width); limited range."""

    y_plane: U8
    uv_plane: U8

    @property
    def width(self) -> int:
        """Width in pixels, even."""
        return int(self.y_plane.shape[1])

    @property
    def height(self) -> int:
        """Height in pixels, even."""
        return int(self.y_plane.shape[0])


@dataclass(frozen=True)
class FaceRect:
    """The even-aligned rectangle of the canvas inside which the face crop is composited, in canvas pixels."""

    x: int
    y: int
    w: int
    h: int


@dataclass(frozen=True)
class Avatar:
    """An immutable, content-addressed presenter, as loaded from its bundle.

    Attributes:
        avatar_id: Lower-case hex, first 32 digits of the SHA-256 over the canonical bundle content.
        family: Family whose renderer understands `tensors`.
        name: For people; never used as a key.
        canvas_rgb: uint8 (H, W, 3), the still background with the face in its rest pose, even sides.
        rect: The part of the canvas that moves: where the face crop lands, and what moves along with it.
        crop_to_canvas: float32 (2, 3), affine from crop pixels (x right, y down, pixel centres at integers) to canvas pixels.
        mask: float32 (512, 512) in crop space, 1 = face crop, 0 = canvas; 0 along the crop's border.
        tensors: Family-specific arrays. `mini`: `crop_rgb` uint8 (512, 512, 3), `landmarks` float32 (468, 3) in crop pixels;
            where it is known, `person` uint8 (rect.h, rect.w).
    """

    avatar_id: str
    family: str
    name: str
    canvas_rgb: U8
    rect: FaceRect
    crop_to_canvas: F32
    mask: F32
    tensors: Mapping[str, NDArray[np.generic]]


@dataclass(frozen=True)
class Nv12RectBatch:
    """Consecutive frames of one rectangle; what the last GPU stage hands to the encoder's side.

    Attributes:
        rect: Where the planes land on the canvas.
        y_planes: uint8 (n, h, w), luma.
        uv_planes: uint8 (n, h / 2, w), interleaved U V.
    """

    rect: FaceRect
    y_planes: U8
    uv_planes: U8

    def __len__(self) -> int:
        """Number of frames."""
        return int(self.y_planes.shape[0])

    def frame(self, index: int) -> Nv12Rect:
        """Take one frame out of the batch, without a copy."""
        rect = self.rect
        return Nv12Rect(rect.x, rect.y, rect.w, rect.h, self.y_planes[index], self.uv_planes[index])

    def part(self, start: int, stop: int) -> Nv12RectBatch:
        """Take some frames out of the batch, without a copy."""
        return Nv12RectBatch(self.rect, self.y_planes[start:stop], self.uv_planes[start:stop])

    def kept(self) -> Nv12RectBatch:
        """A copy, which does not hold the memory that calls are answered through."""
        return Nv12RectBatch(self.rect, self.y_planes.copy(), self.uv_planes.copy())
