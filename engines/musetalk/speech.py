"""Samples -> rows of features: log-mel spectrum, Whisper's encoder, all of its hidden states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import torch
from torch import nn

from engines.musetalk.libraries import library
from kernels.arrays import F32
from kernels.errors import ShapeError

SAMPLE_RATE_HZ: Final = 16_000
ROW_SAMPLES: Final = 320
"""A row stands for 20 ms."""


class SpeechEncoder:
    """Encodes windows of speech, of several sessions in one call.

    Attention reaches over the whole window, which is padded with silence to the length that the encoder was made for (30 s in the
    public model), so rows depend a little on what else the window holds.

    Args:
        encoder: `WhisperEncoder`.
        device: Torch device.
        half: Run in float16.
    """

    def __init__(self, encoder: nn.Module, device: str = "cpu", half: bool = False) -> None:
        config: Any = encoder.config
        self._dtype = torch.float16 if half else torch.float32
        self._encoder: Any = encoder.to(device, self._dtype)
        self._device = torch.device(device)
        self.most_rows: int = config.max_source_positions
        self.row_dim: int = (config.encoder_layers + 1) * config.d_model
        self._extract: Any = library("transformers").WhisperFeatureExtractor(
            feature_size=config.num_mel_bins, chunk_length=self.most_rows * ROW_SAMPLES // SAMPLE_RATE_HZ
        )

    def encode(self, windows: Sequence[F32]) -> list[F32]:
        """Rows of windows.

        Args:
            windows: float32 (samples,) each, 16 kHz, no longer than the encoder can hear at once.

        Returns:
            float32 (samples // 320, 1920) each: hidden states 0 to 4 behind each other, the last after the final norm.

        Raises:
            ShapeError: A window that is too long.
        """
        if not windows:
            return []
        for window in windows:
            if window.ndim != 1 or len(window) > self.most_rows * ROW_SAMPLES:
                raise ShapeError("window", str(window.shape), f"at most ({self.most_rows * ROW_SAMPLES},)")
        heard = [np.asarray(window, np.float32) for window in windows]
        mel = self._extract(heard, sampling_rate=SAMPLE_RATE_HZ, return_tensors="pt").input_features
        with torch.inference_mode():
            states = self._encoder(mel.to(self._device, self._dtype), output_hidden_states=True).hidden_states
            rows = torch.stack(states, dim=2).flatten(2).float().cpu().numpy()
        return [rows[i, : len(window) // ROW_SAMPLES].copy() for i, window in enumerate(windows)]
