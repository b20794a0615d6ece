"""How loud a voice is that is still coming in, and what the networks need to hear it as they learnt it.

A file is measured whole (`pipeline.media.loudness`). Here the last seconds decide, by the same ranges: ordinary speech stays as it
is. What a second of sound costs does not depend on how much is remembered of the seconds before.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from kernels.arrays import F32, F64
from pipeline.media.loudness import (
    COMFORTABLE_LUFS,
    LEAST_LUFS,
    NETWORK_LUFS,
    LevelRange,
    speech_band,
    speech_levels,
    ups_and_downs,
)
from pipeline.sliding_quantile import SlidingQuantile
from pipeline.types import SAMPLES_PER_FRAME

KEPT_FRAMES: Final = 250
"""Frames of 40 ms that are judged, 10 s."""
LEAST_FRAMES: Final = 25
"""Fewer say nothing: the first second of a voice is heard as it comes."""
STEP: Final = 5 * SAMPLES_PER_FRAME
"""Samples that are measured at once, 200 ms: a gain changes that much later at most."""
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
        self._waiting: list[F32] = []
        self._count = 0
        self._levels: F64 = np.zeros((3, 0))
        self._powers: F64 = np.zeros(0)
        self._blocks: F64 = np.zeros(0)
        self._all, self._band = SlidingQuantile(KEPT_FRAMES), SlidingQuantile(KEPT_FRAMES)
        self.gain = 1.0

    def hear(self, pcm: F32) -> None:
        """Take in the next samples, float32 (n,), mono, 16 kHz, any length; they are measured `STEP` by `STEP`."""
        self._waiting.append(pcm)
        self._count += len(pcm)
        if self._count < STEP:
            return
        heard = np.concatenate(self._waiting)
        whole = len(heard) - len(heard) % STEP
        self._waiting, self._count = [heard[whole:]], len(heard) - whole
        self._measure(heard[:whole])
        if len(self._all) >= LEAST_FRAMES:
            self._judge()

    def _measure(self, pcm: F32) -> None:
        """Take in whole frames, float32 (n * 640,)."""
        from scipy.signal import sosfilt  # here, so that importing pipeline stays light

        band, self._state = sosfilt(self._sos, pcm, zi=self._state)
        levels = speech_levels(np.stack([pcm, band]).reshape(2, -1, SAMPLES_PER_FRAME))
        for all_db, band_db in levels[:2].T.tolist():
            self._all.add(all_db)
            self._band.add(band_db)
        self._levels = np.concatenate([self._levels, levels], axis=1)[:, -KEPT_FRAMES:]
        self._powers = np.concatenate([self._powers[1 - _BLOCK :], 10 ** (levels[0] / 10)])
        if len(self._powers) >= _BLOCK:
            fresh = np.convolve(self._powers, np.full(_BLOCK, 1 / _BLOCK), "valid")
            self._blocks = np.concatenate([self._blocks, fresh])[_BLOCK - 1 - KEPT_FRAMES :]

    def _judge(self) -> None:
        """Choose the gain anew where the voice, as the networks hear it, has left the ordinary range."""
        power = self._blocks
        level = _FILTER_DB + 10 * math.log10(float(power[power >= _GATE * power.mean()].mean()))
        low, high = COMFORTABLE_LUFS
        now = level + 20 * math.log10(self.gain)
        if low <= now <= high or (level <= high and not (level >= LEAST_LUFS and self._speaks())):
            return
        gain_db = 0.0 if low <= level <= high else min(NETWORK_LUFS - level, MOST_GAIN_DB)
        self.gain = 10 ** (gain_db / 20)

    def _speaks(self) -> bool:
        """Whether the levels rise and fall as speech does."""
        found = LevelRange(self._band.at(0.1), self._band.at(0.95), self._all.at(0.95))
        return ups_and_downs(found, self._levels)
