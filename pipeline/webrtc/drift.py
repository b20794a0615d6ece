"""Makes the samples of a sound card whose clock is a little off last exactly as long as our clock says."""

from __future__ import annotations

import numpy as np

from kernels.arrays import F32

MAX_PPM = 1000.0
"""Largest correction: 1.7 cents of pitch. Sound cards are within 200."""
SETTLE_S = 20.0
"""An error is worn off in about this time, so a steady drift of 200 ppm leaves 4 ms."""
WINDOW_S = 2.0
"""The network only ever delays: the earliest arrival of this long counts."""
HISTORY = 3


class FractionalResampler:
    """Reads a stream of samples a little faster or slower, by cubic Lagrange interpolation between four neighbours.

    At 48 kHz its error stays below -55 dB up to 4 kHz; at a step of exactly 1 it hands the samples through unchanged.
    Holds two samples back.
    """

    def __init__(self) -> None:
        self.step = 1.0
        """Input samples per output sample."""
        self._held = np.zeros(1, np.float32)
        self._position = 1.0

    def push(self, samples: F32) -> F32:
        """Add float32 (n,) and take what is ready, float32 (m,)."""
        line = np.concatenate([self._held, samples])
        last = len(line) - HISTORY  # the latest index with two samples after it
        count = int(np.floor((last - self._position) / self.step)) + 1 if last >= self._position else 0
        if count <= 0:
            self._held = line
            return np.zeros(0, np.float32)
        places = self._position + self.step * np.arange(count)
        index = places.astype(np.int64)
        t = (places - index).astype(np.float32)
        a, b, c, d = line[index - 1], line[index], line[index + 1], line[index + 2]
        out = (
            b
            + t * (-a / 3 - b / 2 + c - d / 6)
            + t * t * (a / 2 - b + c / 2)
            + t * t * t * (-a / 6 + b / 2 - c / 2 + d / 6)
        )
        following = self._position + self.step * count
        keep = max(int(following) - 1, 0)
        self._held, self._position = line[keep:], following - keep
        return np.asarray(out, np.float32)


class DriftControl:
    """Compares how much was delivered with how much time went by, and says how fast to read.

    Args:
        delivered_s: Seconds of sound delivered already.
        now: Monotonic seconds.
    """

    def __init__(self, delivered_s: float, now: float) -> None:
        self._origin = now - delivered_s
        self._window_ends = now + WINDOW_S
        self._earliest = float("-inf")
        self._wanted: float | None = None
        self.error_s = 0.0
        """What was delivered too much (positive) or too little, in the last window."""
        self.ppm = 0.0
        """Correction in force: positive drops time."""

    def step(self, delivered_s: float, now: float) -> float:
        """Input samples per output sample from now on.

        Args:
            delivered_s: Seconds of sound delivered so far.
            now: Monotonic seconds.
        """
        self._earliest = max(self._earliest, delivered_s - (now - self._origin))
        if now >= self._window_ends:
            if self._wanted is None:
                self._wanted = self._earliest
            self.error_s = self._earliest - self._wanted
            self.ppm = float(np.clip(self.error_s / SETTLE_S * 1e6, -MAX_PPM, MAX_PPM))
            self._earliest, self._window_ends = float("-inf"), now + WINDOW_S
        return 1.0 + self.ppm * 1e-6
