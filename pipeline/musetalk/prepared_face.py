"""An avatar that is ready to be drawn: its latents on the device, and pictures made of what was painted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from kernels.arrays import U8
from kernels.nv12.from_rgb import rgb_to_nv12
from pipeline.avatars.face_crop import cut_crop
from pipeline.musetalk.avatar_tensors import MuseTalkTensors
from pipeline.musetalk.blend import fit_face, mix
from pipeline.musetalk.clip_place import clip_place
from pipeline.musetalk.masters import recoloured, to_rgb
from pipeline.types import Avatar

Planes = tuple[U8, U8]


@dataclass(frozen=True)
class PreparedFace:
    """An avatar in one colour standard.

    Attributes:
        avatar: The avatar.
        tensors: Its arrays.
        colour: `bt709` or `bt601`.
        latents: float16 or float32 (n, 8, 32, 32) on the device.
        still: Luma and chroma of a picture's rectangle; None for a clip.
    """

    avatar: Avatar
    tensors: MuseTalkTensors
    colour: str
    latents: Tensor
    still: Planes | None

    @property
    def size_bytes(self) -> int:
        """What the preparation holds in memory, the mapped file not counted."""
        planes = 0 if self.still is None else sum(plane.nbytes for plane in self.still)
        return planes + self.latents.element_size() * self.latents.nelement()

    def places(self, first: int, count: int) -> list[int]:
        """The clip's frames that consecutive frames of a session show."""
        return [clip_place(first + i, len(self.tensors)) for i in range(count)]

    def picture(self, place: int, face: U8 | None, share: float) -> Planes:
        """Luma and chroma of the avatar's rectangle.

        Args:
            place: Frame of the clip.
            face: uint8 (256, 256, 3), RGB, what was painted; None: the avatar's own picture, at no cost but a copy.
            share: How much of it shows, 0..1.
        """
        y_plane, uv_plane = self._own(place)
        if face is None:
            return y_plane, uv_plane
        blended = self.patch(place, face, share)
        y_face, uv_face = rgb_to_nv12(blended, colour=self.colour)
        rect, (x, y) = self.avatar.rect, self._corner(place)
        high, wide = blended.shape[:2]
        x, y = x - rect.x, y - rect.y
        y_plane[y : y + high, x : x + wide] = y_face
        uv_plane[y // 2 : (y + high) // 2, x : x + wide] = uv_face
        return y_plane, uv_plane

    def crop(self, place: int, face: U8 | None, share: float) -> U8:
        """The square around the face as uint8 (512, 512, 3), RGB, for the stage that interpolates pictures; see `picture`."""
        tensors = self.tensors
        canvas, rect = self.avatar.canvas_rgb.copy(), self.avatar.rect
        if tensors.y_planes is not None and tensors.uv_planes is not None:
            moving = to_rgb(tensors.y_planes[place], tensors.uv_planes[place])
            canvas[rect.y : rect.y + rect.h, rect.x : rect.x + rect.w] = moving
        if face is not None:
            blended, (x, y) = self.patch(place, face, share), self._corner(place)
            canvas[y : y + blended.shape[0], x : x + blended.shape[1]] = blended
        return cut_crop(canvas, tensors.square(place))

    def patch(self, place: int, face: U8, share: float) -> U8:
        """The part of the canvas that painting can change, uint8 (h, w, 3), RGB, with the face in it."""
        tensors, (x, y) = self.tensors, self._corner(place)
        own: U8 = np.array(tensors.patches[place])
        box, (high, wide) = tensors.box(place), own.shape[:2]
        left, top = max(box.left, x), max(box.top, y)
        right, bottom = min(box.right, x + wide), min(box.bottom, y + high)
        fitted = fit_face(face, box)[top - box.top : bottom - box.top, left - box.left : right - box.left]
        part = (slice(top - y, bottom - y), slice(left - x, right - x))
        own[part] = mix(own[part], fitted, tensors.masks[place][part], share)
        return own

    def _own(self, place: int) -> Planes:
        """The rectangle as the avatar has it, copied."""
        if self.still is not None:
            return self.still[0].copy(), self.still[1].copy()
        tensors = self.tensors
        assert tensors.y_planes is not None and tensors.uv_planes is not None  # noqa: S101 - a clip has them
        return recoloured(tensors.y_planes[place], tensors.uv_planes[place], self.colour)

    def _corner(self, place: int) -> tuple[int, int]:
        x, y = self.tensors.corners[place]
        return int(x), int(y)


def still_planes(avatar: Avatar, tensors: MuseTalkTensors, colour: str) -> Planes | None:
    """Luma and chroma of a picture's rectangle; None for a clip."""
    if tensors.y_planes is not None:
        return None
    rect = avatar.rect
    part = avatar.canvas_rgb[rect.y : rect.y + rect.h, rect.x : rect.x + rect.w]
    return rgb_to_nv12(np.ascontiguousarray(part), colour=colour)
