"""Streaming HuBERT from its public ONNX file: stateless calls on 6480 samples (ditto.md section 6).

The file has no batch axis: sessions share a call only where a file (another export) has a free first axis; otherwise windows
run one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from engines.ditto.checkpoints import HUBERT_FILE
from engines.ditto.onnx_model import OnnxModel
from engines.weights.file import WeightsFileError
from kernels.arrays import F32
from kernels.errors import ShapeError

WINDOW_SAMPLES: Final = 6480
"""10 frames of 640 samples, and 80 more so that the convolutions give exactly 20 rows."""
WINDOW_ROWS: Final = 20
ROW_DIM: Final = 1024
INPUT_NAME: Final = "input_values"


class Hubert:
    """The speech encoder.

    Args:
        folder: Checkpoint folder.
        device: Torch device name; see `OnnxModel`.
        threads: CPU threads of one call.

    Raises:
        OnnxRuntimeMissingError: onnxruntime is not installed.
        WeightsFileError: The file is missing, damaged, or not this encoder.
    """

    def __init__(self, folder: Path, device: str = "cpu", threads: int = 1) -> None:
        self._path = folder / HUBERT_FILE
        self._model = OnnxModel(self._path, device, threads)
        if self._model.input_name != INPUT_NAME:
            raise WeightsFileError(str(self._path), "input", f"is {self._model.input_name!r}, needed {INPUT_NAME!r}")
        self.batches = len(self._model.input_shape) == 2 and self._model.input_shape[0] is None

    @property
    def provider(self) -> str:
        """Execution provider of onnxruntime in use."""
        return self._model.provider

    def encode(self, window: F32) -> F32:
        """Encode one window: float32 (6480,) samples at 16 kHz -> float32 (20, 1024) rows at 50 Hz."""
        return self.encode_all([window])[0]

    def encode_all(self, windows: Sequence[F32]) -> list[F32]:
        """Several windows, of any sessions.

        Raises:
            ShapeError: A window of another length.
            WeightsFileError: The model fails or gives something else than (20, 1024) per window.
        """
        for window in windows:
            if window.shape != (WINDOW_SAMPLES,):
                raise ShapeError("window", str(window.shape), f"({WINDOW_SAMPLES},)")
        if not windows:
            return []
        groups = [np.stack(windows)] if self.batches else [window[None] for window in windows]
        rows = [self._rows(group) for group in groups]
        return list(np.concatenate(rows))

    def _rows(self, group: F32) -> F32:
        out = self._model.run(group)[0]
        expected = (len(group), WINDOW_ROWS, ROW_DIM)
        if out.shape not in (expected, expected[1:]) or out.size != np.prod(expected):
            raise WeightsFileError(str(self._path), "output", f"has shape {out.shape}, needed {expected[1:]}")
        return out.reshape(expected)
