"""An avatar's own pictures of its rectangle, over which painted faces are laid."""

from __future__ import annotations

from typing import Final

import numpy as np

from kernels.nv12.from_rgb import rgb_to_nv12
from pipeline.bounded_cache import BoundedCache
from pipeline.musetalk.avatar_tensors import MuseTalkTensors
from pipeline.musetalk.masters import KEPT_COLOUR, recoloured
from pipeline.session.overlaid import Planes
from pipeline.types import Avatar

_RECOLOURED_BYTES: Final = 256 * 2**20


class MuseTalkOwnPictures:
    """Implements `pipeline.session.overlaid.OwnPictures`.

    A clip's lie in the bundle, which is mapped. In a colour standard other than the bundle's they are converted when they are
    asked for, and the last of them are kept.

    Args:
        avatar: The avatar.
        tensors: Its arrays.
        colour: `bt709` or `bt601`.
    """

    def __init__(self, avatar: Avatar, tensors: MuseTalkTensors, colour: str) -> None:
        self._colour = colour
        self._still: Planes | None = None
        self._clip: Planes | None = None
        self._recoloured: BoundedCache[int, Planes] = BoundedCache(
            _RECOLOURED_BYTES, lambda planes: sum(plane.nbytes for plane in planes)
        )
        if tensors.y_planes is not None and tensors.uv_planes is not None:
            self._clip = tensors.y_planes, tensors.uv_planes
        else:
            rect = avatar.rect
            part = avatar.canvas_rgb[rect.y : rect.y + rect.h, rect.x : rect.x + rect.w]
            self._still = rgb_to_nv12(np.ascontiguousarray(part), colour=colour)

    @property
    def size_bytes(self) -> int:
        """Bytes that are held in memory, or may be; the mapped file not counted."""
        if self._still is not None:
            return sum(plane.nbytes for plane in self._still)
        return 0 if self._colour == KEPT_COLOUR else _RECOLOURED_BYTES

    def planes(self, place: int) -> Planes:
        """Luma and chroma of a frame of the clip, or of the one picture; not to be written."""
        if self._clip is None:
            assert self._still is not None  # noqa: S101 - one of the two is there
            return self._still
        y_planes, uv_planes = self._clip
        if self._colour == KEPT_COLOUR:
            return y_planes[place], uv_planes[place]
        return self._recoloured.get_or_build(place, lambda: recoloured(y_planes[place], uv_planes[place], self._colour))
