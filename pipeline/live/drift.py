"""How fast a sound card whose clock is a little off is to be read, so that its samples last as long as the media clock says."""

from __future__ import annotations

from typing import Final

import numpy as np

from pipeline.live.grid import samples_of_ms
from pipeline.types import SAMPLE_RATE_HZ

MAX_PPM: Final = 1000.0
"""Largest correction: 1.7 cents of pitch. Sound cards are within 200."""
SETTLE_S: Final = 20.0
"""An error is worn off in about this time, so a steady drift of 200 ppm leaves 4 ms."""
WINDOW: Final = samples_of_ms(2000)
"""The network only ever delays: the earliest arrival of this long counts."""
TOLERANCE: Final = samples_of_ms(40)
"""A lead that is wrong by more is no drift: twice of what `MAX_PPM` leaves."""


class DriftControl:
    """Watches how far ahead of the media clock a voice is laid down, and says how fast to read it.

    The lead of the first window is the right one, if it is wrong by no more than `TOLERANCE`.

    Attributes:
        ppm: Correction in force; positive where the sound card runs fast.
        jump: Samples by which the voice is laid down too early (positive) or too late, where that is no drift.
    """

    def __init__(self) -> None:
        self.ppm = 0.0
        self.jump = 0
        self._wanted: int | None = None
        self._earliest: int | None = None
        self._window_ends = 0

    @property
    def step(self) -> float:
        """Input samples per output sample."""
        return 1.0 + self.ppm * 1e-6

    def see(self, lead: int, now: int) -> None:
        """Take the lead of a block.

        Args:
            lead: Samples by which it was laid down later than it should have been; below 0 where it came late itself.
            now: Position of the media clock in samples.
        """
        if self._earliest is None:
            self._earliest, self._window_ends = lead, now + WINDOW
        self._earliest = max(self._earliest, lead)
        if now < self._window_ends:
            return
        error = self._earliest - (self._wanted or 0)
        self.jump = error if abs(error) > TOLERANCE else 0
        if self._wanted is None and not self.jump:
            self._wanted, error = self._earliest, 0
        self.ppm = 0.0 if self.jump else float(np.clip(error / SAMPLE_RATE_HZ / SETTLE_S * 1e6, -MAX_PPM, MAX_PPM))
        self._earliest = None

    def change_jump(self, by: int) -> None:
        """Add to `jump`, because the voice was moved or is to be; what was seen before no longer counts."""
        self.jump += by
        self._earliest = None
