"""Stage `audio_features` of Ditto: PCM -> HuBERT rows at 50 Hz, in stateless windows of 6480 samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from engines.ditto import FAMILY
from kernels.arrays import F32
from kernels.errors import ShapeError
from pipeline.ditto.feature_windows import HOP_FRAMES, HOP_SAMPLES, ONLINE_LEAD, ROWS_KEPT, WINDOW_SAMPLES, keep_frames
from pipeline.media.clean_pcm import clean_pcm
from pipeline.stages import EncoderShape
from pipeline.types import FEATURE_RATE_HZ, FeatureRows

LOOKAHEAD_SAMPLES: Final = WINDOW_SAMPLES - ONLINE_LEAD - HOP_SAMPLES
"""Two frames and 80 samples: what a window needs after the five frames that it stands for."""
ROW_DIM: Final = 1024

EncodeAll = Callable[[Sequence[F32]], list[F32]]
"""Windows (6480,) of any sessions -> rows (20, 1024) each."""


class DittoAudioFeatures:
    """The stage: stateless, equal windows of several sessions in one call.

    Args:
        encode_all: The encoder.
        hop_frames: Frames per hop of a session, a multiple of 5.
        version: Version of the encoder's weights.
    """

    def __init__(self, encode_all: EncodeAll, hop_frames: int = HOP_FRAMES, version: str = "") -> None:
        self._encode_all = encode_all
        self._windows = hop_frames // HOP_FRAMES
        self.shape = EncoderShape(ROW_DIM, ONLINE_LEAD, LOOKAHEAD_SAMPLES, FAMILY, version)

    @property
    def window_samples(self) -> int:
        """Samples of one hop's window: context, the hop itself, look-ahead."""
        return ONLINE_LEAD + self._windows * HOP_SAMPLES + LOOKAHEAD_SAMPLES

    def window(self, window: F32, first_row: int) -> FeatureRows:
        """Rows of one hop: float32 (window_samples,) -> (2 * hop_frames, 1024) at 50 Hz.

        A window longer by n times 3200 samples gives 10 * n rows more; files ask so.

        Raises:
            ShapeError: Wrong length.
        """
        return self.windows([(window, first_row)])[0]

    def windows(self, items: Sequence[tuple[F32, int]]) -> list[FeatureRows]:
        """Rows of one hop of several sessions; see `window`."""
        for window, _ in items:
            more = window.size - self.window_samples
            if window.ndim != 1 or more < 0 or more % HOP_SAMPLES:
                raise ShapeError("window", str(window.shape), f"({self.window_samples},) or {HOP_SAMPLES} * n more")
        counts = [(window.size - WINDOW_SAMPLES) // HOP_SAMPLES + 1 for window, _ in items]
        pieces = [
            np.ascontiguousarray(clean[start * HOP_SAMPLES : start * HOP_SAMPLES + WINDOW_SAMPLES])
            for count, clean in zip(counts, (clean_pcm(window) for window, _ in items), strict=True)
            for start in range(count)
        ]
        kept = iter([rows[ROWS_KEPT] for rows in self._encode_all(pieces)])
        return [
            FeatureRows(
                np.concatenate([next(kept) for _ in range(count)]).astype(np.float32), FEATURE_RATE_HZ, first_row
            )
            for count, (_, first_row) in zip(counts, items, strict=True)
        ]


def silence_rows(encode_all: EncodeAll) -> F32:
    """Features of five frames of digital silence, float32 (5, 1024); every five frames of silence have these."""
    return keep_frames(encode_all([np.zeros(WINDOW_SAMPLES, np.float32)])[0])
