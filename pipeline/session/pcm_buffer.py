"""The samples of one session that stages may still ask for, addressed by absolute position."""

from __future__ import annotations

import numpy as np

from kernels.arrays import F32


class PcmBuffer:
    """A sliding window over a stream of samples.

    Positions are sample indices since the session's start. Before 0 and after the end there is digital silence.
    """

    def __init__(self) -> None:
        self._samples = np.zeros(0, np.float32)
        self._base = 0

    @property
    def end(self) -> int:
        """Position after the last sample received."""
        return self._base + len(self._samples)

    def append(self, pcm: F32) -> None:
        """Add samples, float32 (n,), at `end`."""
        self._samples = np.concatenate([self._samples, pcm])

    def read(self, start: int, length: int) -> F32:
        """A private copy of samples start .. start + length, float32 (length,), silence where there are none.

        Raises:
            ValueError: Part of the window was discarded already.
        """
        if start < self._base and self._base > 0:
            raise ValueError(f"samples from {start} were discarded, the oldest is {self._base}")
        out = np.zeros(length, np.float32)
        first, last = max(start, self._base), min(start + length, self.end)
        if last > first:
            out[first - start : last - start] = self._samples[first - self._base : last - self._base]
        return out

    def discard_before(self, position: int) -> None:
        """Forget what lies before `position`; positions at or below zero forget nothing."""
        drop = min(max(position - self._base, 0), len(self._samples))
        self._samples = self._samples[drop:]
        self._base += drop
