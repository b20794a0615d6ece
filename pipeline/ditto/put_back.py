"""A rendered crop back into its frame (ditto.md section 9): the reference of the tail of the Ditto family."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np

from kernels.arrays import F32, U8
from pipeline.types import CROP_SIZE

RAMP: Final = 26


@lru_cache(maxsize=1)
def blend_mask() -> F32:
    """float32 (512, 512): 1 inside the central 460 square, linear ramps at the sides, round corners."""
    ramp = np.linspace(0.0, 1.0, RAMP)
    side = np.concatenate([ramp, np.ones(CROP_SIZE - 2 * RAMP), ramp[::-1]])
    mask = np.minimum(side[:, None], side[None, :])
    corner = np.clip(np.hypot(1.0 - ramp[:, None], 1.0 - ramp[None, :]), 0.0, 1.0)
    rounded = 1.0 - corner
    mask[:RAMP, :RAMP] = rounded
    mask[:RAMP, -RAMP:] = rounded[:, ::-1]
    mask[-RAMP:, :RAMP] = rounded[::-1]
    mask[-RAMP:, -RAMP:] = rounded[::-1, ::-1]
    out: F32 = mask.astype(np.float32)
    out.setflags(write=False)
    return out


def put_back(frame: U8, crop: F32, to_image: F32) -> U8:
    """Blend a crop into a frame.

    Args:
        frame: uint8 (H, W, 3), RGB.
        crop: float32 (512, 512, 3), RGB 0..255.
        to_image: float32 (3, 3), crop pixels to frame pixels.

    Returns:
        uint8 (H, W, 3), truncated as the reference does.
    """
    import cv2

    size = (frame.shape[1], frame.shape[0])
    mask = np.clip(cv2.warpAffine(blend_mask(), to_image[:2], size, flags=cv2.INTER_LINEAR), 0.0, 1.0)[..., None]
    face = cv2.warpAffine(crop, to_image[:2], size, flags=cv2.INTER_LINEAR)
    blended = mask * face + (1.0 - mask) * frame
    return np.clip(blended, 0, 255).astype(np.uint8)
