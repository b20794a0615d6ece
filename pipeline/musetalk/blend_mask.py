"""How much of the painted face shows at each pixel: from the classes of a face parser to a soft mask.

Classes are those of CelebAMask-HQ: 1 skin, 10 nose, 11 mouth, 12 and 13 lips, 14 neck; 19 in all.
"""

from __future__ import annotations

from typing import Final, Literal

import cv2
import numpy as np

from kernels.arrays import U8
from kernels.errors import InvalidInputError, ShapeError
from pipeline.musetalk.face_box import Box

LABEL_SIDE: Final = 512
"""Classes are given for the square crop at this size."""
SKIN, NOSE, MOUTH, UPPER_LIP, LOWER_LIP, NECK = 1, 10, 11, 12, 13, 14
Region = Literal["raw", "neck", "jaw"]
CHEEK_PX: Final = 90
"""Columns further than this from the middle of the labels are cheek, which `jaw` takes back."""
SOFT_LIVE: Final = 0.1
SOFT_OFFLINE: Final = 0.05
"""Width of the blur in sides of the crop: what the reference takes in real time, and for files."""
_CONE_TOP: Final = 10
_STEM_HALF: Final = 10
_GROWTH: Final = 33
_ERODED: Final = (35, 3)


def talking_region(labels: U8, region: Region = "jaw", cheek_px: int = CHEEK_PX) -> U8:
    """The region that may be painted.

    `raw` is skin, mouth and lips; `neck` adds the neck; `jaw` is skin grown by `growth_kernel` (16 pixels up, 6 down), taken
    back in the cheeks, without the nose, with mouth and lips.

    Args:
        labels: uint8 (512, 512), classes.
        region: Which region.
        cheek_px: For `jaw`: distance from the middle column at which the cheeks begin.

    Returns:
        uint8 (512, 512), 0 or 255.

    Raises:
        ShapeError: Labels of another shape or type.
        InvalidInputError: No such region.
    """
    if labels.shape != (LABEL_SIDE, LABEL_SIDE) or labels.dtype != np.uint8:
        raise ShapeError("labels", f"{labels.dtype} {labels.shape}", f"uint8 ({LABEL_SIDE}, {LABEL_SIDE})")
    lips = np.isin(labels, (MOUTH, UPPER_LIP, LOWER_LIP))
    skin = labels == SKIN
    if region == "raw":
        inside = lips | skin
    elif region == "neck":
        inside = lips | skin | (labels == NECK)
    elif region == "jaw":
        grown = cv2.dilate(skin.astype(np.uint8), growth_kernel())
        flat = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, _ERODED)
        eroded = cv2.erode(grown, flat, iterations=2)
        cheeks = np.abs(np.arange(LABEL_SIDE) - LABEL_SIDE // 2) >= cheek_px
        inside = (np.where(cheeks, eroded, grown).astype(bool) & (labels != NOSE)) | lips
    else:
        raise InvalidInputError("region", str(region)[:40], "raw, neck, jaw")
    return np.where(inside, np.uint8(255), np.uint8(0))


def growth_kernel() -> U8:
    """uint8 (33, 33), 0 or 1: a cone from row 10 on, ten wide to each side from row 20 on; its anchor is the middle."""
    half = np.clip(np.arange(_GROWTH) - _CONE_TOP, -1, _STEM_HALF)[:, None]
    return (np.abs(np.arange(_GROWTH) - _GROWTH // 2)[None] <= half).astype(np.uint8)


def blend_mask(region: U8, box: Box, crop: Box, soft: float = SOFT_LIVE) -> U8:
    """The soft mask of a crop: the region within the face's box, below the crop's middle, blurred.

    Args:
        region: uint8 (512, 512), from `talking_region`.
        box: The face.
        crop: The square around it, from `crop_around`.
        soft: Width of the blur in sides of the crop.

    Returns:
        uint8 (side, side), 255 where the painted face shows alone.
    """
    from PIL import Image

    side = crop.width
    sized = np.asarray(Image.fromarray(region).resize((side, side), Image.Resampling.BICUBIC))
    kept = np.zeros((side, side), np.uint8)
    rows = slice(max(box.top - crop.top, side // 2), box.bottom - crop.top)
    columns = slice(box.left - crop.left, box.right - crop.left)
    kept[rows, columns] = sized[rows, columns]
    width = int(soft * side // 2 * 2) + 1
    return np.asarray(cv2.GaussianBlur(kept, (width, width), 0), np.uint8)
