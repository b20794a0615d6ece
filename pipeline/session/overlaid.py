"""Pictures of an avatar that moves by itself: its own pictures, which everybody has, and the painted parts, which alone travel.

A picture of 1080x1920 has 3.1 MB, the part around a mouth 0.2 MB. So a renderer whose avatars bring their own pictures answers with
parts, and who shows or encodes the pictures lays them over the avatar's own, which lie in its bundle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kernels.arrays import U8
from pipeline.types import FaceRect, Nv12Rect, Nv12RectBatch

Planes = tuple[U8, U8]
"""Luma uint8 (h, w) and interleaved chroma uint8 (h / 2, w)."""


class OwnPictures(Protocol):
    """An avatar's own pictures of its rectangle, in one colour standard. Safe to share between threads."""

    @property
    def size_bytes(self) -> int:
        """Bytes that are held in memory, a mapped file not counted."""
        ...

    def planes(self, place: int) -> Planes:
        """One of them; not to be written."""
        ...


@dataclass(frozen=True)
class PaintedParts:
    """Consecutive frames as they travel.

    Attributes:
        rect: Where the avatar's own pictures land on the canvas.
        places: int32 (n,), which of its own pictures each frame shows.
        painted: bool (n,), whether a part is laid over it.
        corners: int32 (m, 2), x and y of the parts on the canvas, even; m of the n frames have one.
        y_planes: uint8 (m, h, w), luma of the parts.
        uv_planes: uint8 (m, h / 2, w), their chroma.
    """

    rect: FaceRect
    places: NDArray[np.int32]
    painted: NDArray[np.bool_]
    corners: NDArray[np.int32]
    y_planes: U8
    uv_planes: U8

    def __len__(self) -> int:
        """Number of frames."""
        return len(self.places)

    def over(self, own: OwnPictures) -> OverlaidBatch:
        """The pictures, whole; nothing is copied."""
        return OverlaidBatch(self, tuple(own.planes(int(place)) for place in self.places))

    def part(self, start: int, stop: int) -> PaintedParts:
        """Some of the frames, without a copy."""
        first, last = (int(self.painted[:end].sum()) for end in (start, stop))
        return PaintedParts(
            self.rect,
            self.places[start:stop],
            self.painted[start:stop],
            self.corners[first:last],
            self.y_planes[first:last],
            self.uv_planes[first:last],
        )


class OverlaidBatch(Nv12RectBatch):
    """Such frames with the pictures beneath; a batch like any other, whose whole planes are put together when they are asked for.

    Args:
        parts: What was painted.
        own: The avatar's own picture of each frame.
    """

    def __init__(self, parts: PaintedParts, own: tuple[Planes, ...]) -> None:
        object.__setattr__(self, "rect", parts.rect)
        object.__setattr__(self, "parts", parts)
        object.__setattr__(self, "_own", own)

    parts: PaintedParts
    _own: tuple[Planes, ...]

    @property
    def y_planes(self) -> U8:
        """uint8 (n, h, w), luma; a copy."""
        return self._whole()[0]

    @property
    def uv_planes(self) -> U8:
        """uint8 (n, h / 2, w), interleaved U V; a copy."""
        return self._whole()[1]

    def __len__(self) -> int:
        """Number of frames."""
        return len(self._own)

    def frame(self, index: int) -> Nv12Rect:
        """One frame: the avatar's own picture, and over it what was painted; without a copy."""
        index = range(len(self))[index]
        rect, (y_plane, uv_plane), parts = self.rect, self._own[index], self.parts
        over = None
        if parts.painted[index]:
            number = int(parts.painted[:index].sum())
            (x, y), (high, wide) = parts.corners[number], parts.y_planes.shape[1:]
            over = Nv12Rect(int(x), int(y), wide, high, parts.y_planes[number], parts.uv_planes[number])
        return Nv12Rect(rect.x, rect.y, rect.w, rect.h, y_plane, uv_plane, over)

    def part(self, start: int, stop: int) -> OverlaidBatch:
        """Implement `Nv12RectBatch.part`."""
        return OverlaidBatch(self.parts.part(start, stop), self._own[start:stop])

    def kept(self) -> OverlaidBatch:
        """Implement `Nv12RectBatch.kept`; the avatar's own pictures stay where they are."""
        parts = self.parts
        copied = (
            array.copy() for array in (parts.places, parts.painted, parts.corners, parts.y_planes, parts.uv_planes)
        )
        return OverlaidBatch(PaintedParts(parts.rect, *copied), self._own)  # type: ignore[arg-type]  # types follow from the order

    def _whole(self) -> Planes:
        rect = self.rect
        luma: U8 = np.empty((len(self), rect.h, rect.w), np.uint8)
        chroma: U8 = np.empty((len(self), rect.h // 2, rect.w), np.uint8)
        for index in range(len(self)):
            one = self.frame(index)
            luma[index], chroma[index] = one.y_plane, one.uv_plane
            if (over := one.over) is not None:
                x, y = over.x - rect.x, over.y - rect.y
                luma[index, y : y + over.h, x : x + over.w] = over.y_plane
                chroma[index, y // 2 : (y + over.h) // 2, x : x + over.w] = over.uv_plane
        return luma, chroma
