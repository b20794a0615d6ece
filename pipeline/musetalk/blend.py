"""The painted face into its picture: `out = background + m * alpha * (face - background)` in fp32, rounded to nearest.

That is what Pillow's paste with a mask gives, bit for bit, also where the crop leaves the picture: outside the box face and
background are the same there, so only the box can change.
"""

from __future__ import annotations

import cv2
import numpy as np

from kernels.arrays import U8
from kernels.errors import ShapeError
from pipeline.musetalk.face_box import Box


def fit_face(face: U8, box: Box) -> U8:
    """A painted face uint8 (h, w, 3) resized to its box, bilinearly."""
    if face.shape[:2] == (box.height, box.width):
        return face
    return np.asarray(cv2.resize(face, (box.width, box.height), interpolation=cv2.INTER_LINEAR), np.uint8)


def mix(background: U8, face: U8, mask: U8, alpha: float = 1.0) -> U8:
    """Blend two pictures of one size.

    Args:
        background: uint8 (h, w, 3).
        face: uint8 (h, w, 3).
        mask: uint8 (h, w), 255 where the face shows alone.
        alpha: 0..1, how much of it shows in all.

    Raises:
        ShapeError: They do not fit each other.
    """
    if background.shape != face.shape or mask.shape != background.shape[:2]:
        raise ShapeError("face", f"{face.shape} under a mask {mask.shape}", f"{background.shape} and its first two")
    below = background.astype(np.float32)
    share = mask[..., None].astype(np.float32) * np.float32(alpha / 255.0)
    return np.rint(below + share * (face.astype(np.float32) - below)).astype(np.uint8)


def blend(picture: U8, face: U8, box: Box, mask: U8, crop: Box, alpha: float = 1.0) -> U8:
    """A whole picture with a painted face in it.

    Args:
        picture: uint8 (H, W, 3).
        face: uint8 (h, w, 3), any size, colours in the picture's order.
        box: Where it goes.
        mask: uint8 (side, side), of the crop.
        crop: The square that the mask covers.
        alpha: See `mix`.

    Returns:
        uint8 (H, W, 3), a new array.
    """
    out = picture.copy()
    inside = box.within(picture.shape[1], picture.shape[0])
    fitted = fit_face(face, box)[inside.top - box.top : inside.bottom - box.top, inside.left - box.left :][
        :, : inside.width
    ]
    part = mask[inside.top - crop.top : inside.bottom - crop.top, inside.left - crop.left : inside.right - crop.left]
    place = (slice(inside.top, inside.bottom), slice(inside.left, inside.right))
    out[place] = mix(picture[place], fitted, part, alpha)
    return out
