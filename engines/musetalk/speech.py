"""Samples -> rows of features: log-mel spectrum, Whisper's encoder, all of its hidden states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import torch
from torch import nn

from engines.musetalk.libraries import library
from engines.musetalk.log_mel import LogMel
from engines.runtimes.host_copies import Landing, to_device
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
        # of its own: on a shared stream it would wait for all the pictures that are queued before it
        self._stream = torch.cuda.Stream(self._device, priority=-1) if self._device.type == "cuda" else None  # type: ignore[no-untyped-call]  # torch's own
        self.most_rows: int = config.max_source_positions
        self.row_dim: int = (config.encoder_layers + 1) * config.d_model
        extractor = library("transformers").WhisperFeatureExtractor(
            feature_size=config.num_mel_bins, chunk_length=self.most_rows * ROW_SAMPLES // SAMPLE_RATE_HZ
        )
        self._spectrum = LogMel(torch.from_numpy(extractor.mel_filters), extractor.n_samples).to(self._device)

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
        heard: F32 = np.zeros((len(windows), max(len(window) for window in windows)), np.float32)
        for line, window in zip(heard, windows, strict=True):
            line[: len(window)] = window
        with torch.inference_mode(), torch.cuda.stream(self._stream):
            mel = self._spectrum(to_device(heard, self._device)).to(self._dtype)
            states = self._encoder(mel, output_hidden_states=True).hidden_states
            most = heard.shape[1] // ROW_SAMPLES
            rows = np.asarray(Landing([torch.stack(states, dim=2)[:, :most].flatten(2).float()]).wait()[0], np.float32)
        return [rows[i, : len(window) // ROW_SAMPLES].copy() for i, window in enumerate(windows)]
