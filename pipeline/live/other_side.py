"""The voice that a silent presenter listens to: a client's microphone that does not drive the face."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from kernels.arrays import F32
from pipeline.live.grid import samples_of_ms
from pipeline.live.microphone import Microphone
from pipeline.live.timeline import LevelledTimeline, Timeline
from pipeline.live.voice_resampler import PER_SAMPLE
from pipeline.types import SAMPLE_RATE_HZ

LEAD: Final = samples_of_ms(80)
"""Samples by which the voice lies ahead of the media clock when it comes: packets that are late by less make no hole."""
LONGEST_SILENCE: Final = SAMPLE_RATE_HZ
"""Samples of silence before a voice that followers are given, at most."""

Follower = Callable[[F32, int], None]
"""Gets float32 (n,), 16 kHz, mono, and the media clock's sample at which the first of them lies; it must not block."""


class OtherSide:
    """Hears who speaks to one session's presenter.

    Nobody hears this voice and it moves no lips: it lies on a timeline of its own, on the session's media clock, `LEAD` after each
    sample's arrival. Its clock is followed as a driving microphone's is.

    Args:
        quiet_rms: A block of the voice below this RMS is quiet.

    Attributes:
        microphone: Lays the samples down.
        last_loud: Position after the last block that was not quiet; 0 where none came yet.
    """

    def __init__(self, quiet_rms: float) -> None:
        self._timeline = Timeline()
        self._quiet_rms = quiet_rms
        self._followers: list[Follower] = []
        self.microphone = Microphone(self._timeline, LEAD, quiet_rms)
        self.last_loud = 0

    @property
    def voice(self) -> LevelledTimeline:
        """The samples by their position, at the level at which the networks would hear them."""
        return self._timeline.levelled

    def follow(self, follower: Follower) -> None:
        """Hand everything that comes from now on to a follower, in order; of a longer silence only a second."""
        self._followers.append(follower)

    def feed(self, samples: F32, place: int, now: int, age: int = 0) -> None:
        """Take the next samples, as `Microphone.feed` does: float32 (n,), 48 kHz, and their place on the client's clock."""
        before = self._timeline.end
        self.microphone.feed(np.nan_to_num(np.asarray(samples, np.float32)), place, now, age)
        end = self._timeline.end
        if end <= before:
            return
        first = max(before, end - len(samples) // PER_SAMPLE - LONGEST_SILENCE)
        pcm = self._timeline.read(first, end - first)
        if float(np.sqrt(np.mean(np.square(pcm, dtype=np.float64)))) >= self._quiet_rms:
            self.last_loud = end
        for follower in self._followers:
            follower(pcm, first)
