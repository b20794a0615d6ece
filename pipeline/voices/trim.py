"""Silence before and after a sentence, which voices add as they like, cut to a fixed length while the sentence comes."""

from __future__ import annotations

from typing import Final

import numpy as np

from kernels.arrays import F32

LOUD: Final = 0.004
"""Samples from here on (full scale is 1) are sound: -48 dBFS."""
BEFORE_S: Final = 0.01
"""Silence that is kept before the first sound: what is quieter belongs to it."""
AFTER_S: Final = 0.08
"""Silence that is kept after the last sound: it dies away there."""


class Trimmer:
    """Cuts the silence around one sentence. What is silent may be its end, so it is held back until more sound follows.

    Args:
        rate_hz: Samples per second.

    Attributes:
        cut: Samples that were cut before the first sound so far.
    """

    def __init__(self, rate_hz: int) -> None:
        self._before, self._after = round(BEFORE_S * rate_hz), round(AFTER_S * rate_hz)
        self._held = np.zeros(0, np.float32)
        self._begun = False
        self.cut = 0

    def push(self, pcm: F32) -> F32:
        """Take samples, float32 (n,), and return those that are certain to be heard, float32 (m,); m may be 0."""
        held = np.concatenate([self._held, pcm])
        loud = np.flatnonzero(np.abs(held) >= LOUD)
        if not self._begun:
            first = max(int(loud[0]) - self._before, 0) if len(loud) else max(len(held) - self._before, 0)
            self.cut += first
            held, loud = held[first:], loud - first
        if not len(loud):
            self._held = held
            return np.zeros(0, np.float32)
        self._begun = True
        stop = int(loud[-1]) + 1
        self._held = held[stop:]
        return held[:stop]

    def flush(self) -> F32:
        """End the sentence and return what is kept of its last silence, float32 (m,); nothing where no sound came."""
        rest, self._held = self._held[: self._after], np.zeros(0, np.float32)
        return rest if self._begun else rest[:0]
