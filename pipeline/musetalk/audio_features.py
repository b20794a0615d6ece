"""Stage `audio_features` of MuseTalk: a sliding buffer of PCM -> rows at 50 Hz, and how loud each frame is.

A window holds 2 s of the past, the frames of the hop, and 120 ms of what follows. The encoder's attention reaches over all of it,
so rows differ a little from those of a whole file (docs/musetalk.md says by how much); they do not depend on how samples came in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np

from engines.musetalk import FAMILY
from kernels.arrays import F32
from kernels.errors import ShapeError
from pipeline.media.clean_pcm import clean_pcm
from pipeline.musetalk.audio_windows import ROW_DIM, ROWS_BEFORE, WINDOW_ROWS
from pipeline.musetalk.bypass import EDGE_FRAMES, frame_levels
from pipeline.stages import EncoderShape
from pipeline.types import FEATURE_RATE_HZ, ROWS_PER_FRAME, SAMPLE_RATE_HZ, SAMPLES_PER_FRAME, FeatureRows

HOP_FRAMES: Final = 5
PAST_SAMPLES: Final = 2 * SAMPLE_RATE_HZ
LOOKAHEAD_SAMPLES: Final = 3 * SAMPLES_PER_FRAME
"""80 ms that windows of features see, and 40 ms that the last of their rows needs around it."""
ROWS_AFTER: Final = WINDOW_ROWS - ROWS_BEFORE - ROWS_PER_FRAME
_ROW_SAMPLES: Final = SAMPLE_RATE_HZ // FEATURE_RATE_HZ
_FIRST_ROW: Final = PAST_SAMPLES // _ROW_SAMPLES - ROWS_BEFORE


class Encoder(Protocol):
    """The speech encoder; `engines.musetalk.speech.SpeechEncoder` is one."""

    def encode(self, windows: Sequence[F32]) -> list[F32]:
        """Windows (samples,) -> rows (samples // 320, 1920) each."""
        ...


class MuseTalkAudioFeatures:
    """The stage: stateless, windows of several sessions in one call.

    Args:
        encoder: The speech encoder.
        version: Version of its weights.
    """

    def __init__(self, encoder: Encoder, version: str = "") -> None:
        self._encoder = encoder
        self.shape = EncoderShape(
            ROW_DIM + 1, PAST_SAMPLES, LOOKAHEAD_SAMPLES, FAMILY, version, ROWS_BEFORE + ROWS_AFTER
        )

    @property
    def window_samples(self) -> int:
        """Samples of one hop's window: past, the hop itself, look-ahead."""
        return PAST_SAMPLES + HOP_FRAMES * SAMPLES_PER_FRAME + LOOKAHEAD_SAMPLES

    def window(self, samples: F32, first_row: int, /) -> FeatureRows:
        """Rows of one hop of n frames.

        Args:
            samples: float32 (32000 + n * 640 + 1920,).
            first_row: Index of the hop's first own row.

        Returns:
            float32 (4 + 2 n + 4, 1921): four rows before the hop's own and four after; the last column is the loudness of the frame
            that a row belongs to, 0 outside the hop. `first_row` is that of the hop's own first row.

        Raises:
            ShapeError: Wrong length.
        """
        return self.windows([(samples, first_row)])[0]

    def windows(self, items: Sequence[tuple[F32, int]]) -> list[FeatureRows]:
        """Rows of one hop of several sessions; see `window`."""
        counts = [_frames_in(window) for window, _ in items]
        heard = [clean_pcm(window) for window, _ in items]
        encoded = self._encoder.encode(heard)
        return [
            FeatureRows(_kept(rows, pcm, count), FEATURE_RATE_HZ, first_row)
            for rows, pcm, count, (_, first_row) in zip(encoded, heard, counts, items, strict=True)
        ]


def _frames_in(window: F32) -> int:
    own = window.size - PAST_SAMPLES - LOOKAHEAD_SAMPLES
    if window.ndim != 1 or own <= 0 or own % SAMPLES_PER_FRAME:
        needed = f"({PAST_SAMPLES} + n * {SAMPLES_PER_FRAME} + {LOOKAHEAD_SAMPLES},)"
        raise ShapeError("window", str(window.shape), needed)
    return own // SAMPLES_PER_FRAME


def _kept(rows: F32, pcm: F32, frames: int) -> F32:
    own = frames * ROWS_PER_FRAME
    kept: F32 = np.zeros((ROWS_BEFORE + own + ROWS_AFTER, ROW_DIM + 1), np.float32)
    kept[:, :ROW_DIM] = rows[_FIRST_ROW : _FIRST_ROW + len(kept)]
    edge = EDGE_FRAMES * SAMPLES_PER_FRAME
    levels = frame_levels(pcm[PAST_SAMPLES - edge : PAST_SAMPLES + frames * SAMPLES_PER_FRAME + edge])
    kept[ROWS_BEFORE : ROWS_BEFORE + own, ROW_DIM] = levels.repeat(ROWS_PER_FRAME)
    return kept
