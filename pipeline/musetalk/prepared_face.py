"""An avatar that is ready to be drawn: its latents on the device, and pictures made of what was painted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kernels.arrays import U8
from kernels.nv12.painted import nv12_bytes, painted_rgb, split_nv12
from kernels.nv12.painting import Painting
from pipeline.avatars.face_crop import cut_crop
from pipeline.musetalk.avatar_tensors import MuseTalkTensors
from pipeline.musetalk.clip_place import clip_place
from pipeline.musetalk.device_patches import DevicePatches
from pipeline.musetalk.masters import to_rgb
from pipeline.musetalk.own_pictures import MuseTalkOwnPictures
from pipeline.session.overlaid import PaintedParts
from pipeline.types import Avatar


@dataclass(frozen=True)
class PreparedFace:
    """An avatar in one colour standard.

    Attributes:
        avatar: The avatar.
        tensors: Its arrays.
        colour: `bt709` or `bt601`.
        latents: float16 or float32 (n, 8, 32, 32) on the device.
        own: Its own pictures.
        patches: What painted faces are blended into.
    """

    avatar: Avatar
    tensors: MuseTalkTensors
    colour: str
    latents: Tensor
    own: MuseTalkOwnPictures
    patches: DevicePatches

    @property
    def size_bytes(self) -> int:
        """What the preparation holds in memory, the mapped file not counted."""
        return self.own.size_bytes + self.latents.element_size() * self.latents.nelement() + self.patches.size_bytes

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

    @property
    def rectangle_bytes(self) -> int:
        """Bytes of a painted part in NV12; all of an avatar's have one size."""
        return nv12_bytes(*self.tensors.masks.shape[1:])

    def painted_parts(self, places: NDArray[np.int32], painted: NDArray[np.bool_], packed: U8) -> PaintedParts:
        """What travels of frames.

        Args:
            places: int32 (n,), frames of the clip.
            painted: bool (n,), which of them were painted.
            packed: uint8 (m, bytes), the NV12 rectangles of those.
        """
        y_planes, uv_planes = split_nv12(packed, *self.tensors.masks.shape[1:])
        return PaintedParts(
            rect=self.avatar.rect,
            places=places,
            painted=painted,
            corners=np.asarray(self.tensors.corners[places[painted]], np.int32),
            y_planes=y_planes,
            uv_planes=uv_planes,
        )

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

    def _box_in_patch(self, place: int) -> tuple[int, int, int, int]:
        """Left, top, right and bottom of the face in pixels of the patch."""
        (x, y), box = self._corner(place), self.tensors.box(place)
        return box.left - x, box.top - y, box.right - x, box.bottom - y

    def _corner(self, place: int) -> tuple[int, int]:
        x, y = self.tensors.corners[place]
        return int(x), int(y)
