"""Which pixels of a picture belong to a person: MediaPipe's selfie segmentation (256 x 256 input, Apache-2.0)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import cv2
import numpy as np

from engines.face.detector import check_rgb
from engines.face.litert_model import DEFAULT_THREADS, LiteRtModel
from kernels.arrays import U8

SELFIE_FILE: Final = "selfie_segmentation.tflite"
INPUT_SIDE: Final = 256
SURE: Final = (0.25, 0.75)
"""Confidence below which a pixel is background, and above which it is person."""


class SelfieSegmenter:
    """The network. Not thread-safe: one instance per thread.

    Args:
        weights_dir: Folder with `selfie_segmentation.tflite`.
        threads: CPU threads of one call.

    Raises:
        ModelFileError: The model is missing or unreadable.
    """

    def __init__(self, weights_dir: Path, threads: int = DEFAULT_THREADS) -> None:
        self._model = LiteRtModel(weights_dir / SELFIE_FILE, threads)

    def matte(self, rgb: U8) -> U8:
        """The person's share of every pixel.

        Args:
            rgb: uint8 (H, W, 3), RGB, upright; about square, a person from head to chest.

        Returns:
            uint8 (H, W), 0 background to 255 person.

        Raises:
            ShapeError: No such picture.
        """
        check_rgb(rgb)
        height, width = rgb.shape[:2]
        method = cv2.INTER_AREA if max(height, width) > INPUT_SIDE else cv2.INTER_LINEAR
        small = cv2.resize(rgb, (INPUT_SIDE, INPUT_SIDE), interpolation=method).astype(np.float32) / np.float32(255.0)
        share = self._model.run(small[None])[0].reshape(INPUT_SIDE, INPUT_SIDE)
        large = cv2.resize(share, (width, height), interpolation=cv2.INTER_CUBIC)
        sure = np.clip((large - SURE[0]) / (SURE[1] - SURE[0]), 0.0, 1.0)
        return np.asarray(np.round(255.0 * sure), dtype=np.uint8)
