"""A rendered crop back into its frame (ditto.md section 9), as the reference does it: what the tail is compared with."""

from __future__ import annotations

import numpy as np

from kernels.arrays import F32, U8
from pipeline.ditto.blend_mask import blend_mask


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
