"""How loud a voice is that is still coming in, and what the networks need to hear it as they learnt it.

A file is measured whole (`pipeline.media.loudness`). Here the last seconds decide, by the same ranges: ordinary speech stays as it
is.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Final

import numpy as np

from kernels.arrays import F32
from pipeline.media.loudness import (
    COMFORTABLE_LUFS,
    LEAST_LUFS,
    NETWORK_LUFS,
    has_ups_and_downs,
    speech_band,
    speech_levels,
)
from pipeline.types import SAMPLES_PER_FRAME

KEPT_FRAMES: Final = 250
"""Frames of 40 ms that are judged, 10 s."""
LEAST_FRAMES: Final = 25
"""Fewer say nothing: the first second of a voice is heard as it comes."""
MOST_GAIN_DB: Final = 24.0
"""A voice at -50 LUFS becomes ordinary; keyboards and rooms, which are quieter, do not."""
_BLOCK: Final = 10
"""Frames whose mean power is one value of the level, 400 ms as in EBU R128."""
_FILTER_DB: Final = -1.0
"""What that standard's filter of frequencies does to the level of speech, about."""
_GATE: Final = 0.1
"""Blocks below this share of the mean power are pauses and do not count, as in EBU R128."""


class RunningLevel:
    """Follows the level of one voice.

    Attributes:
        gain: What to multiply samples with for the networks; 1 for ordinary levels and as long as nothing is known.
    """

    def __init__(self) -> None:
        self._sos = speech_band()
        self._state = np.zeros((len(self._sos), 2))
        self._rest = np.zeros((2, 0))
        self._frames: deque[tuple[float, float, float]] = deque(maxlen=KEPT_FRAMES)
        self.gain = 1.0

    def hear(self, pcm: F32) -> None:
        """Take in the next samples, float32 (n,), mono, 16 kHz, any length."""
        from scipy.signal import sosfilt  # here, so that importing pipeline stays light

        if not len(pcm):
            return
        band, self._state = sosfilt(self._sos, pcm, zi=self._state)
        both = np.concatenate([self._rest, np.stack([pcm, band])], axis=1)
        whole = both.shape[1] // SAMPLES_PER_FRAME
        self._rest = both[:, whole * SAMPLES_PER_FRAME :]
        if not whole:
            return
        frames = both[:, : whole * SAMPLES_PER_FRAME].reshape(2, whole, SAMPLES_PER_FRAME)
        self._frames.extend(zip(*speech_levels(frames).tolist(), strict=True))
        if len(self._frames) >= LEAST_FRAMES:
            self._judge()

    def _judge(self) -> None:
        """Choose the gain anew where the voice, as the networks hear it, has left the ordinary range."""
        levels = np.array(self._frames).T
        power = np.convolve(10 ** (levels[0] / 10), np.full(_BLOCK, 1 / _BLOCK), "valid")
        level = _FILTER_DB + 10 * math.log10(float(np.mean(power[power >= _GATE * np.mean(power)])))
        low, high = COMFORTABLE_LUFS
        now = level + 20 * math.log10(self.gain)
        if low <= now <= high or (level <= high and not (level >= LEAST_LUFS and has_ups_and_downs(levels))):
            return
        gain_db = 0.0 if low <= level <= high else min(NETWORK_LUFS - level, MOST_GAIN_DB)
        self.gain = 10 ** (gain_db / 20)
