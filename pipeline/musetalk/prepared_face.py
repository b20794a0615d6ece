"""An avatar that is ready to be drawn: its latents on the device, and pictures made of what was painted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from kernels.arrays import U8
from kernels.nv12.from_rgb import rgb_to_nv12
from kernels.nv12.painted import painted_rgb
from kernels.nv12.painting import Painting
from pipeline.avatars.face_crop import cut_crop
from pipeline.musetalk.avatar_tensors import MuseTalkTensors
from pipeline.musetalk.clip_place import clip_place
from pipeline.musetalk.device_patches import DevicePatches
from pipeline.musetalk.masters import KEPT_COLOUR, recoloured, to_rgb
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
        patches: What painted faces are blended into.
    """

    avatar: Avatar
    tensors: MuseTalkTensors
    colour: str
    latents: Tensor
    still: Planes | None
    patches: DevicePatches

    @property
    def size_bytes(self) -> int:
        """What the preparation holds in memory, the mapped file not counted."""
        planes = 0 if self.still is None else sum(plane.nbytes for plane in self.still)
        return planes + self.latents.element_size() * self.latents.nelement() + self.patches.size_bytes

    def places(self, first: int, count: int) -> list[int]:
        """The clip's frames that consecutive frames of a session show."""
        return [clip_place(first + i, len(self.tensors)) for i in range(count)]

    def painting(self, place: int, number: int, share: float) -> Painting:
        """How a painted face goes into the part of a frame that painting can change.

        Args:
            place: Frame of the clip.
            number: Index of the face among those that are put in together.
            share: How much of it shows, 0..1.
        """
        patch, mask = self.patches.of(place)
        return Painting(number, patch, mask, self._box_in_patch(place), share)

    def put_picture(self, place: int, painted: Planes | None, y_out: U8, uv_out: U8) -> None:
        """Write the avatar's rectangle in NV12.

        Args:
            place: Frame of the clip.
            painted: Luma and chroma of the part that was painted; None: the avatar's own picture, at no cost but a copy.
            y_out: uint8 (h, w), overwritten.
            uv_out: uint8 (h / 2, w), overwritten.
        """
        y_out[...], uv_out[...] = self._own(place)
        if painted is None:
            return
        y_face, uv_face = painted
        (high, wide), rect, (x, y) = y_face.shape, self.avatar.rect, self._corner(place)
        x, y = x - rect.x, y - rect.y
        y_out[y : y + high, x : x + wide] = y_face
        uv_out[y // 2 : (y + high) // 2, x : x + wide] = uv_face

    def crop(self, place: int, face: U8 | None, share: float) -> U8:
        """The square around the face as uint8 (512, 512, 3), RGB, for the stage that interpolates pictures.

        Args:
            place: Frame of the clip.
            face: uint8 (256, 256, 3), RGB, what was painted; None: the avatar's own picture.
            share: How much of it shows, 0..1.
        """
        tensors = self.tensors
        canvas, rect = self.avatar.canvas_rgb.copy(), self.avatar.rect
        if tensors.y_planes is not None and tensors.uv_planes is not None:
            moving = to_rgb(tensors.y_planes[place], tensors.uv_planes[place])
            canvas[rect.y : rect.y + rect.h, rect.x : rect.x + rect.w] = moving
        if face is not None:
            patch, mask = (torch.from_numpy(np.array(array[place])) for array in (tensors.patches, tensors.masks))
            one = Painting(0, patch, mask, self._box_in_patch(place), share)
            blended, (x, y) = painted_rgb(torch.from_numpy(face), one).numpy(), self._corner(place)
            canvas[y : y + blended.shape[0], x : x + blended.shape[1]] = blended
        return cut_crop(canvas, tensors.square(place))

    def _own(self, place: int) -> Planes:
        """The rectangle as the avatar has it; not to be written."""
        if self.still is not None:
            return self.still
        tensors = self.tensors
        assert tensors.y_planes is not None and tensors.uv_planes is not None  # noqa: S101 - a clip has them
        if self.colour == KEPT_COLOUR:
            return tensors.y_planes[place], tensors.uv_planes[place]
        return recoloured(tensors.y_planes[place], tensors.uv_planes[place], self.colour)

    def _box_in_patch(self, place: int) -> tuple[int, int, int, int]:
        """Left, top, right and bottom of the face in pixels of the patch."""
        (x, y), box = self._corner(place), self.tensors.box(place)
        return box.left - x, box.top - y, box.right - x, box.bottom - y

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
