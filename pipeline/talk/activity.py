"""Voice activity: which frames of a microphone hold a voice, by their power above the noise and by the shape of their spectrum.

A voice has harmonics and formants, so that its power lies in few places of the spectrum; noise has it everywhere. The measure is
spectral flatness, the geometric mean of the power spectrum over its arithmetic mean (A. Gray and J. Markel, 1974). The spectrum is
weighted with the frequency for that, 3 dB an octave, half of what lies between hiss (white) and rumble (6 dB an octave down): both
are at 0.4 in one frame, vowels below 0.25. The power of the noise is the least of the last seconds (R. Martin, "Noise power
spectral density estimation based on optimal smoothing and minimum statistics", 2001): people breathe and pause, noise does not.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Final

import numpy as np

from kernels.arrays import F32
from pipeline.types import SAMPLE_RATE_HZ

FRAME: Final = 320
"""Samples of a frame, 20 ms."""
FRAME_S: Final = FRAME / SAMPLE_RATE_HZ
OPEN_DB: Final = 12.0
"""A frame opens with so much above the noise ..."""
STAY_DB: Final = 7.0
"""... and is voice while it is so much above it."""
LEAST_DB: Final = -50.0
"""Power (full scale is 0) that a voice has at least, in the band; what is quieter is far away."""
MOST_FLATNESS: Final = 0.25
"""What is flatter is no vowel."""
VOWEL_FRAMES: Final = (3, 5)
"""A voice opens with three frames of a vowel among five: noise has one now and then ..."""
FLAT_FRAMES: Final = 12
"""... and is none any more after so many frames without one, 0.24 s: no consonant lasts so long."""
SMOOTHED_FRAMES: Final = 5
"""Frames whose mean power counts for the noise."""
NOISE_FRAMES: Final = 160
"""Frames whose least power is the noise, 3.2 s."""
NOISE_DB: Final = (-75.0, -25.0)
"""What the noise may be; a louder "noise" at the beginning is a person who speaks already."""
_LOW, _HIGH = 3, 81
"""Bins of 50 Hz, 150 to 4000 Hz."""
_TINY: Final = 1e-12


class VoiceActivity:
    """Decides for one microphone, frame by frame, whether a voice is heard."""

    def __init__(self) -> None:
        self._window = np.hanning(FRAME)
        self._scale = 2.0 / (FRAME * float(np.sum(np.square(self._window))))
        self._recent: deque[float] = deque(maxlen=SMOOTHED_FRAMES)
        self._smoothed: deque[float] = deque(maxlen=NOISE_FRAMES)
        self._weights = np.arange(_LOW, _HIGH) / _LOW
        self._vowels: deque[bool] = deque(maxlen=VOWEL_FRAMES[1])
        self._open = False
        self._flat = 0

    @property
    def noise_db(self) -> float:
        """Power of the noise; the quietest that may be while nothing is known."""
        low, high = NOISE_DB
        if len(self._smoothed) < SMOOTHED_FRAMES:
            return low
        return min(max(10 * math.log10(min(self._smoothed) + _TINY), low), high)

    def hear(self, frame: F32, least_rms: float = 0.0) -> bool:
        """Take the next frame.

        Args:
            frame: float32 (320,), mono, 16 kHz, -1..1.
            least_rms: RMS that a voice must have to be more than an echo; it stays open at half of it.

        Returns:
            Whether it holds a voice.
        """
        power = np.square(np.abs(np.fft.rfft(frame * self._window))[_LOW:_HIGH]) * self._scale + _TINY
        weighted = power * self._weights
        total, flatness = float(power.sum()), float(np.exp(np.mean(np.log(weighted))) / weighted.mean())
        self._vowels.append(flatness < MOST_FLATNESS)
        self._flat = 0 if self._vowels[-1] else self._flat + 1
        level_db, noise_db = 10 * math.log10(total), self.noise_db
        rms = float(np.sqrt(np.mean(np.square(frame, dtype=np.float64))))
        if self._open:
            loud = level_db > max(noise_db + STAY_DB, LEAST_DB - OPEN_DB + STAY_DB) and rms >= least_rms / 2
            self._open = loud and self._flat <= FLAT_FRAMES
        else:
            loud = level_db > max(noise_db + OPEN_DB, LEAST_DB) and rms >= least_rms
            self._open = loud and sum(self._vowels) >= VOWEL_FRAMES[0]
        self._recent.append(total)
        self._smoothed.append(sum(self._recent) / len(self._recent))
        return self._open
