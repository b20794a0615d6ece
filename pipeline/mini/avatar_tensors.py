"""What the bundle of an avatar of `mini` holds in addition to the canvas. Loads no torch."""

from __future__ import annotations

from typing import Final

import numpy as np

from pipeline.avatars.arrays import check_array
from pipeline.types import CROP_SIZE, Avatar

MESH_POINTS: Final = 468
PERSON: Final = "person"
"""Without it only the inside of the face crop moves."""


def check_tensors(avatar: Avatar) -> None:
    """Check the family's part of an avatar: `crop_rgb` uint8 (512, 512, 3) and `landmarks` float32 (468, 3).

    `person`, where there is one, is uint8 (rect.h, rect.w): the person's share of the moving rectangle, 0..255.

    Raises:
        ShapeError: It names the array.
    """
    missing = np.zeros(0)
    check_array("tensors.crop_rgb", avatar.tensors.get("crop_rgb", missing), np.uint8, (CROP_SIZE, CROP_SIZE, 3))
    check_array("tensors.landmarks", avatar.tensors.get("landmarks", missing), np.float32, (MESH_POINTS, 3))
    if PERSON in avatar.tensors:
        check_array(f"tensors.{PERSON}", avatar.tensors[PERSON], np.uint8, (avatar.rect.h, avatar.rect.w))
