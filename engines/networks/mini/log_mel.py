"""Log-mel spectrogram without padding, as tensor operations: the same samples always give the same frames."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

FRAME_SAMPLES = 400
HOP_SAMPLES = 160
POWER_FLOOR = 1e-9
"""Added to the band power (full-scale sine = about 0.25): digital silence becomes a finite, constant row."""


def mel_filterbank(bands: int, low_hz: float, high_hz: float, sample_rate: int, n_fft: int) -> Tensor:
    """Triangular filters, evenly spaced on the mel scale 2595 log10(1 + f / 700), peak 1; float32 (n_fft / 2 + 1, bands)."""

    def mel(hz: float) -> float:
        return 2595.0 * math.log10(1.0 + hz / 700.0)

    mels = torch.linspace(mel(low_hz), mel(high_hz), bands + 2, dtype=torch.float64)
    edges = 700.0 * (10.0 ** (mels / 2595.0) - 1.0)
    freqs = torch.arange(n_fft // 2 + 1, dtype=torch.float64)[:, None] * (sample_rate / n_fft)
    rising = (freqs - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - freqs) / (edges[2:] - edges[1:-1])
    return torch.minimum(rising, falling).clamp_min(0.0).float()


class LogMel(nn.Module):
    """PCM -> log band powers, one frame per 10 ms over 25 ms Hann windows, each frame's mean removed.

    Args:
        bands: Number of mel bands between 60 Hz and 7.6 kHz at 16 kHz.
    """

    window: Tensor
    filters: Tensor

    def __init__(self, bands: int) -> None:
        super().__init__()
        self.n_fft = 512
        window = torch.hann_window(FRAME_SAMPLES, periodic=True)
        self.register_buffer("window", window / window.sum(), persistent=False)
        self.register_buffer("filters", mel_filterbank(bands, 60.0, 7600.0, 16_000, self.n_fft), persistent=False)

    def forward(self, pcm: Tensor) -> Tensor:
        """Compute the frames.

        Args:
            pcm: float32 (B, n), 16 kHz mono, n >= 400.

        Returns:
            float32 (B, (n - 400) // 160 + 1, bands), about -1..1: (ln(power + 1e-9) + 12) / 6.
        """
        frames = pcm.unfold(-1, FRAME_SAMPLES, HOP_SAMPLES)
        frames = (frames - frames.mean(dim=-1, keepdim=True)) * self.window
        spectrum = torch.view_as_real(torch.fft.rfft(frames, n=self.n_fft))
        power = spectrum.square().sum(dim=-1) @ self.filters
        return (torch.log(power + POWER_FLOOR) + 12.0) / 6.0
