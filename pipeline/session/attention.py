"""When one session's face attends to who speaks to it: it begins and ends without a jump, and gives way where a machine is crowded.

While it attends, its silent face is drawn frame by frame; else a loop shows it. What it does then is `pipeline.session.listening`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from kernels.arrays import F32
from pipeline.expression.looks import CHANNELS
from pipeline.session.gestures import Voice
from pipeline.session.listening import LATER, RISE_FRAMES, listening, smooth_rise
from pipeline.types import SAMPLES_PER_FRAME


class HeardVoice(Voice, Protocol):
    """A voice that is still coming."""

    @property
    def end(self) -> int:
        """Position after the last sample that is here, at 16 kHz."""
        ...


class Attention:
    """Keeps whether one face attends.

    Args:
        other: Who speaks to it.
        own: What it says itself.
        seed: Session seed.
        crowded: Whether the stages have so much to do that listening gives way.
    """

    def __init__(self, other: HeardVoice, own: Voice, seed: int, crowded: Callable[[], bool]) -> None:
        self._other, self._own, self._seed, self._crowded = other, own, seed, crowded
        self._opened: int | None = None
        self._gives_way: int | None = None

    def stirs(self, frame: int) -> bool:
        """Whether there is something to attend to at a frame or, as far as is known, after it, and room to show it."""
        return not self._crowded() and bool(self._heard(frame).any())

    def open(self, frame: int) -> None:
        """Attend from a frame on; whatever goes on there comes in `RISE_FRAMES`."""
        self._opened, self._gives_way = frame, None

    def close(self) -> None:
        """Attend no longer: a loop shows the face."""
        self._opened = self._gives_way = None

    def look_after(self, frame: int) -> None:
        """Let attention go from a frame on, where it has to give way."""
        if self._opened is not None and self._gives_way is None and self._crowded():
            self._gives_way = frame

    def rests(self, frame: int) -> bool:
        """Whether nothing of it is shown at a frame and, as far as is known, after it."""
        if self._opened is None:
            return True
        if self._gives_way is not None and frame >= self._gives_way + RISE_FRAMES:
            return True
        return not bool(self._heard(frame).any())

    def values(self, first_frame: int, count: int) -> F32:
        """What the face does in consecutive frames, as `listening` says; zeros while it does not attend."""
        if self._opened is None:
            return np.zeros((count, CHANNELS), np.float32)
        frames = first_frame + np.arange(count, dtype=np.float64)
        share = smooth_rise(frames - self._opened)
        if self._gives_way is not None:
            share = share * (1.0 - smooth_rise(frames - self._gives_way))
        heard = listening(self._other, self._own, self._seed, first_frame, count)
        shown: F32 = (heard * share[:, None]).astype(np.float32)
        return shown

    def _heard(self, frame: int) -> F32:
        known = self._other.end // SAMPLES_PER_FRAME + LATER
        return listening(self._other, self._own, self._seed, frame, max(known - frame, 1))
