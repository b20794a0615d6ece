"""The presenter's own voice in the microphone: how loud a person must be to be more than that.

Browsers take the loudspeaker's sound out of the microphone's, but not all of it, and some not at all. What is left is the
presenter's voice, weaker by a factor that lasts as long as the room does. The factor is learnt while the presenter speaks: it
follows the upper part of what the microphone brings then, slowly enough that a person who interrupts does not pass for the room.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import numpy as np

from kernels.arrays import F32
from pipeline.live.contracts import VoiceTick
from pipeline.talk.activity import FRAME_S
from pipeline.types import SAMPLE_RATE_HZ

ROUND_TRIP_S: Final = 0.8
"""The loudest voice of so long ago may be what the microphone brings now: network, jitter buffers and the room take up to this."""
LOUD_RMS: Final = 0.01
"""A quieter presenter leaves nothing that is heard."""
FIRST_DB: Final = -16.0
"""Factor before anything was learnt: a browser that has just begun to cancel echo."""
COUPLING_DB: Final = (-50.0, 0.0)
UP_DB_PER_S: Final = 12.0
DOWN_DB_PER_S: Final = 5.0
"""With these steps the factor comes to rest where 12 / (12 + 5) = 70 % of the frames are below it."""
MARGIN_DB: Final = 10.0
"""A person is so much louder than that: the loudest syllables of the echo are not."""


class EchoGuard:
    """Follows one session's presenter and microphone."""

    def __init__(self) -> None:
        self._played: deque[tuple[int, float]] = deque()
        self._coupling_db = FIRST_DB

    @property
    def coupling_db(self) -> float:
        """What of the presenter's voice is learnt to come back, at most 0 dB."""
        return self._coupling_db

    @property
    def least_rms(self) -> float:
        """RMS from which a frame is more than echo; 0 while the presenter is silent."""
        level = self._level
        return level * 10 ** ((self._coupling_db + MARGIN_DB) / 20) if level >= LOUD_RMS else 0.0

    def played(self, tick: VoiceTick) -> None:
        """The presenter's voice of one frame leaves."""
        loudness = _rms(tick.pcm) if tick.speech else 0.0
        self._played.append((tick.pts_samples, loudness))
        while self._played[0][0] < tick.pts_samples - ROUND_TRIP_S * SAMPLE_RATE_HZ:
            self._played.popleft()

    def heard(self, frame: F32) -> None:
        """Learn from a frame of the microphone, float32 (n,), of 20 ms."""
        level = self._level
        if level < LOUD_RMS:
            return
        louder = _rms(frame) > level * 10 ** (self._coupling_db / 20)
        step = FRAME_S * (UP_DB_PER_S if louder else -DOWN_DB_PER_S)
        self._coupling_db = min(max(self._coupling_db + step, COUPLING_DB[0]), COUPLING_DB[1])

    @property
    def _level(self) -> float:
        return max((loudness for _, loudness in self._played), default=0.0)


def _rms(samples: F32) -> float:
    return float(np.sqrt(np.mean(np.square(samples, dtype=np.float64)))) if len(samples) else 0.0
