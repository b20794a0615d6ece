"""What a MuseTalk avatar's bundle holds in addition to the canvas, and how it is read again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engines.musetalk.shapes import LATENT_CHANNELS, LATENT_SIDE
from kernels.arrays import F16, F32, U8
from kernels.errors import ShapeError
from pipeline.avatars.arrays import sized_array
from pipeline.avatars.face_crop import CropSquare
from pipeline.musetalk.face_box import Box, crop_around
from pipeline.types import Avatar


@dataclass(frozen=True)
class MuseTalkTensors:
    """The family's part of a bundle; arrays may be views of the memory-mapped file. n is 1 for a picture.

    Attributes:
        latents: float16 (n, 8, 32, 32), what the painter sees of each frame.
        boxes: int32 (n, 4), left, top, right, bottom of the face, all of one size.
        faces: bool (n,), whether the frame shows the face: others are never painted.
        corners: int32 (n, 2), x and y of the patch, even.
        patches: uint8 (n, h, w, 3), RGB, the part of the canvas that painting can change, even sides.
        masks: uint8 (n, h, w), how much of the painted face shows there.
        y_planes: uint8 (n, h, w), luma of the avatar's rectangle in the clip's frames, BT.709 limited; None for a picture.
        uv_planes: uint8 (n, h / 2, w), their chroma; None for a picture.
        version: Weights that the latents come from.
    """

    latents: F16
    boxes: NDArray[np.int32]
    faces: NDArray[np.bool_]
    corners: NDArray[np.int32]
    patches: U8
    masks: U8
    y_planes: U8 | None
    uv_planes: U8 | None
    version: str

    def __len__(self) -> int:
        """Number of frames."""
        return len(self.latents)

    def box(self, place: int) -> Box:
        """The face of a frame."""
        return Box(*(int(number) for number in self.boxes[place]))

    def square(self, place: int) -> CropSquare:
        """The even square around the face that is interpolated above 25 frames/s."""
        return even_square(crop_around(self.box(place)))

    def crop_to_canvas(self) -> F32:
        """float32 (n, 2, 3), pixels of those squares at 512 to canvas pixels."""
        return np.stack([self.square(place).to_canvas() for place in range(len(self))])

    def pack(self) -> dict[str, NDArray[np.generic]]:
        """As the bundle's named arrays."""
        packed: dict[str, NDArray[np.generic]] = {
            "latents": self.latents,
            "boxes": self.boxes,
            "faces": self.faces,
            "corners": self.corners,
            "patches": self.patches,
            "masks": self.masks,
            "version": np.frombuffer(self.version.encode("ascii"), np.uint8),
        }
        if self.y_planes is not None and self.uv_planes is not None:
            packed |= {"y_planes": self.y_planes, "uv_planes": self.uv_planes}
        return packed


def even_square(crop: Box) -> CropSquare:
    """The smallest square with even corners that holds a crop of even side."""
    x, y = crop.left // 2 * 2, crop.top // 2 * 2
    return CropSquare(x, y, crop.width + (2 if (x, y) != (crop.left, crop.top) else 0))


def unpack(avatar: Avatar) -> MuseTalkTensors:
    """Read a bundle's arrays; nothing is copied.

    Raises:
        ShapeError: An array is missing, has the wrong shape or type, or a patch does not lie on the canvas; it names the array.
    """
    tensors = avatar.tensors
    latents = sized_array(tensors, "latents", np.float16, (-1, LATENT_CHANNELS, LATENT_SIDE, LATENT_SIDE))
    count, (height, width) = len(latents), avatar.canvas_rgb.shape[:2]
    masks = sized_array(tensors, "masks", np.uint8, (count, -1, -1))
    high, wide = masks.shape[1:]
    corners = sized_array(tensors, "corners", np.int32, (count, 2))
    inside = (corners >= 0).all() and (corners + (wide, high) <= (width, height)).all()
    if not inside or (corners % 2).any() or high % 2 or wide % 2:
        raise ShapeError("tensors.corners", f"patches of {wide}x{high}", f"even ones inside {width}x{height}")
    planes, rect = (None, None), avatar.rect
    if count > 1:
        planes = (
            sized_array(tensors, "y_planes", np.uint8, (count, rect.h, rect.w)),
            sized_array(tensors, "uv_planes", np.uint8, (count, rect.h // 2, rect.w)),
        )
    boxes = sized_array(tensors, "boxes", np.int32, (count, 4))
    if (boxes[:, 2:] - boxes[:, :2] < 2).any():
        raise ShapeError("tensors.boxes", "an empty box", "boxes of 2x2 and more")
    return MuseTalkTensors(
        latents=latents,
        boxes=boxes,
        faces=sized_array(tensors, "faces", np.bool_, (count,)),
        corners=corners,
        patches=sized_array(tensors, "patches", np.uint8, (count, high, wide, 3)),
        masks=masks,
        y_planes=planes[0],
        uv_planes=planes[1],
        version=sized_array(tensors, "version", np.uint8, (-1,)).tobytes().decode("ascii", "replace"),
    )
