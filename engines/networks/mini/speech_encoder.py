"""Streaming speech encoder of the `mini` family: 16 kHz PCM -> feature rows at 50 Hz.

Convolutions only, none of them padded, so a row depends on a fixed stretch of samples around it and on nothing else: the
past `left_samples` before the row and `lookahead_samples` (102.5 ms) after its end. Whether speech comes in pieces or whole
changes nothing.
"""

from __future__ import annotations

from typing import Final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engines.networks.mini.log_mel import FRAME_SAMPLES, HOP_SAMPLES, LogMel
from kernels.errors import ShapeError

ROW_SAMPLES: Final = 320
_STEM_KERNEL: Final = 5
_STEM_LEFT_SAMPLES: Final = 360
"""The stem of row r sees samples 320 r - 360 .. 320 r + 680: centred on the row."""


class RowBlock(nn.Module):
    """Residual block: a depthwise convolution over rows, then a two-layer perceptron on each row.

    Args:
        width: Channels.
        kernel: Taps of the depthwise convolution.
        dilation: Rows between taps.
        lookahead: How many of the rows the block consumes lie in the future.
    """

    def __init__(self, width: int, kernel: int, dilation: int, lookahead: int) -> None:
        super().__init__()
        self.kernel = kernel
        self.dilation = dilation
        self.lookahead = lookahead
        self.left = (kernel - 1) * dilation - lookahead
        self.taps = nn.Parameter(torch.randn(kernel, width) * (kernel**-0.5))
        self.taps_bias = nn.Parameter(torch.zeros(width))
        self.norm = nn.LayerNorm(width)
        self.expand = nn.Linear(width, 2 * width)
        self.contract = nn.Linear(2 * width, width)
        self.scale = nn.Parameter(torch.full((width,), 0.3))

    def forward(self, x: Tensor) -> Tensor:
        """Transform (B, t, width) -> (B, t - left - lookahead, width)."""
        length = x.shape[1] - self.left - self.lookahead
        mixed: Tensor = self.taps_bias
        for tap in range(self.kernel):
            start = tap * self.dilation
            mixed = torch.addcmul(mixed, x[:, start : start + length], self.taps[tap])
        y = self.contract(F.gelu(self.expand(self.norm(mixed))))
        return torch.addcmul(x[:, self.left : self.left + length], y, self.scale)


class SpeechEncoder(nn.Module):
    """PCM -> rows.

    Args:
        row_dim: Width of an output row.
        width: Channels inside.
        bands: Mel bands.
        level_frames: Length, in 10 ms frames, of the causal running mean whose difference is the second input channel:
            it makes level and microphone colour easy to ignore, while the first channel keeps the absolute level.

    Attributes:
        left_samples: Samples needed before the first row's start.
        lookahead_samples: Samples needed after the last row's end.
    """

    def __init__(self, *, row_dim: int = 128, width: int = 256, bands: int = 64, level_frames: int = 48) -> None:
        super().__init__()
        self.row_dim = row_dim
        self.level_frames = level_frames
        self.log_mel = LogMel(bands)
        self.stem = nn.Conv1d(2 * bands, width, _STEM_KERNEL, stride=2)
        shapes = ((5, 4, 0), (5, 2, 0), (5, 1, 0), (5, 1, 0), (5, 1, 1), (5, 1, 1), (5, 1, 1), (5, 1, 1))
        self.blocks = nn.ModuleList(RowBlock(width, *shape) for shape in shapes)
        self.head_norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, row_dim)
        self.row_norm = nn.LayerNorm(row_dim, elementwise_affine=False)
        left_rows = sum(kernel_left(*shape) for shape in shapes)
        right_rows = sum(lookahead for _, _, lookahead in shapes)
        self.left_samples = left_rows * ROW_SAMPLES + _STEM_LEFT_SAMPLES + (level_frames - 1) * HOP_SAMPLES
        stem_right = (_STEM_KERNEL - 1) * HOP_SAMPLES + FRAME_SAMPLES - _STEM_LEFT_SAMPLES - ROW_SAMPLES
        self.lookahead_samples = stem_right + right_rows * ROW_SAMPLES

    def window_samples(self, rows: int) -> int:
        """Samples that `forward` needs for exactly `rows` rows."""
        return self.left_samples + rows * ROW_SAMPLES + self.lookahead_samples

    def forward(self, pcm: Tensor) -> Tensor:
        """Encode windows.

        Args:
            pcm: float32 (B, window_samples(rows)), 16 kHz mono, finite, nominally -1..1. Sample 0 lies `left_samples`
                before the start of the first row.

        Returns:
            float32 (B, rows, row_dim), each row of mean 0 and variance 1.

        Raises:
            ShapeError: The length is not that of a whole number of rows.
        """
        extra = pcm.shape[-1] - self.window_samples(0)
        if pcm.dim() != 2 or extra < ROW_SAMPLES or extra % ROW_SAMPLES:
            raise ShapeError(
                "pcm", str(tuple(pcm.shape)), f"(batch, {self.window_samples(0)} + k * {ROW_SAMPLES}), k >= 1"
            )
        mel = self.log_mel(pcm)
        level = F.avg_pool1d(mel.transpose(1, 2), self.level_frames, stride=1)
        recent = mel.transpose(1, 2)[:, :, self.level_frames - 1 :]
        x = F.gelu(self.stem(torch.cat([recent, recent - level], dim=1))).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        out: Tensor = self.row_norm(self.head(self.head_norm(x)))
        return out


def kernel_left(kernel: int, dilation: int, lookahead: int) -> int:
    """Rows of the past that a block consumes."""
    return (kernel - 1) * dilation - lookahead


def build_speech_encoder(
    *, row_dim: int = 128, width: int = 256, bands: int = 64, level_frames: int = 48
) -> SpeechEncoder:
    """The `mini` family's encoder; 2.4 M parameters with the default options."""
    return SpeechEncoder(row_dim=row_dim, width=width, bands=bands, level_frames=level_frames)
