"""Samples -> the spectrum that Whisper's encoder hears, on any device; the library's extractor knows host arrays alone."""

from __future__ import annotations

from typing import Final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WINDOW: Final = 400
HOP: Final = 160
_QUIETEST: Final = 1e-10
_RANGE: Final = 8.0
"""Decades below the loudest value of a window that are told apart."""


class LogMel(nn.Module):
    """The spectrum of windows that are padded with silence.

    Args:
        filters: (201, bands), mel filters.
        samples: Samples of a padded window.
    """

    filters: Tensor
    hann: Tensor

    def __init__(self, filters: Tensor, samples: int) -> None:
        super().__init__()
        self._samples = samples
        self.register_buffer("filters", filters.float().t().contiguous(), persistent=False)
        self.register_buffer("hann", torch.hann_window(WINDOW), persistent=False)

    def forward(self, heard: Tensor) -> Tensor:
        """Take spectra.

        Args:
            heard: float32 (n, m), 16 kHz, m at most `samples`.

        Returns:
            float32 (n, bands, samples // 160).
        """
        frames = self._samples // HOP
        # frames that see nothing but padding need no transform: their power is 0, exactly
        sounding = min(self._samples, (heard.shape[1] + WINDOW) // HOP * HOP + HOP)
        padded = F.pad(heard, (0, sounding - heard.shape[1]))
        waves = torch.stft(padded, WINDOW, HOP, window=self.hann, return_complex=True)[..., :-1]
        bands = torch.clamp(self.filters @ (waves.abs() ** 2).contiguous(), min=_QUIETEST).log10()
        bands = F.pad(bands, (0, frames - bands.shape[-1]), value=-10.0)
        loudest = bands.amax(dim=(1, 2), keepdim=True)
        made: Tensor = (torch.maximum(bands, loudest - _RANGE) + 4.0) / 4.0
        return made
