"""Landmark models of the reference, used where the operator supplies their files (ditto.md section 8).

* `landmark203.onnx` (LivePortrait): comes with `weights pull ditto`.
* `2d106det.onnx` (InsightFace): **non-commercial licence**, never pulled; put it next to the other file if you may use it.

Neither file was available when this was written: input scaling and output order follow the fact sheet.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from engines.ditto.onnx_model import OnnxModel
from engines.weights.file import WeightsFileError
from kernels.arrays import F32, U8
from kernels.errors import ShapeError

SIDE_203: Final = 224
SIDE_106: Final = 192
ROI_SCALE_106: Final = 1.5


class Landmark203:
    """203 landmarks on an upright 224 x 224 face crop.

    Args:
        path: The ONNX file.
        threads: CPU threads.

    Raises:
        WeightsFileError: No such file, or not a usable model.
    """

    def __init__(self, path: Path, threads: int = 1) -> None:
        self._path = path
        self._model = OnnxModel(path, threads=threads)

    def find(self, crop: U8) -> F32:
        """Landmarks in crop pixels.

        Args:
            crop: uint8 (224, 224, 3), RGB.

        Returns:
            float32 (203, 2).

        Raises:
            ShapeError: Another crop.
            WeightsFileError: The model gives no 203 points.
        """
        _check(crop, SIDE_203)
        outputs = self._model.run((crop.astype(np.float32) / 255.0).transpose(2, 0, 1)[None])
        return _points(outputs, 203, self._path) * np.float32(SIDE_203)


class Landmark106:
    """106 landmarks on a 192 x 192 square 1.5 times the face's box.

    Args:
        path: The ONNX file.
        threads: CPU threads.

    Raises:
        WeightsFileError: No such file, or not a usable model.
    """

    def __init__(self, path: Path, threads: int = 1) -> None:
        self._path = path
        self._model = OnnxModel(path, threads=threads)

    def find(self, crop: U8) -> F32:
        """Landmarks in crop pixels, see `Landmark203.find`; the network sees the channels as the reference feeds them (BGR)."""
        _check(crop, SIDE_106)
        outputs = self._model.run(crop[..., ::-1].astype(np.float32).transpose(2, 0, 1)[None])
        return (_points(outputs, 106, self._path) + np.float32(1.0)) * np.float32(SIDE_106 / 2)


def _check(crop: U8, side: int) -> None:
    if crop.shape != (side, side, 3) or crop.dtype != np.uint8:
        raise ShapeError("crop", f"{crop.dtype} {crop.shape}", f"uint8 ({side}, {side}, 3)")


def _points(outputs: list[F32], count: int, path: Path) -> F32:
    """The output that holds `count` points in the plane: exports differ in which one that is."""
    fitting = [output for output in outputs if output.size == 2 * count]
    if not fitting or not np.isfinite(fitting[-1]).all():
        raise WeightsFileError(str(path), "output", f"gives no {count} points")
    return fitting[-1].reshape(count, 2)
