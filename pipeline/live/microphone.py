"""From a microphone onto the timeline: a fixed delay after arrival, so that the lips have time, and never more.

Clocks drift and networks stumble. The lead of the samples over the media clock is watched over windows of half a second: when
even the best packet came late, silence is put in; when even the worst came early, the surplus is dropped, in a quiet moment where
there is one. What the stages see is always consecutive.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from kernels.arrays import F32
from pipeline.live.grid import samples_of_ms
from pipeline.live.timeline import Timeline

WINDOW: Final = samples_of_ms(500)
TOLERANCE: Final = samples_of_ms(40)
"""A lead that is wrong by less is left alone."""
SURPLUS_LIMIT: Final = samples_of_ms(200)
"""More than this is dropped at once, also while somebody speaks."""
LONGEST_GAP: Final = samples_of_ms(1000)
"""After a longer one the microphone was off, not late."""
_RAMP: Final = np.linspace(0.0, 1.0, samples_of_ms(2.5), endpoint=False, dtype=np.float32)


class Microphone:
    """One session's.

    Args:
        timeline: Where the samples go.
        delay: Samples between arrival and being heard.
        quiet_rms: A block below this RMS may be dropped.

    Attributes:
        received: Samples that came in.
        inserted: Samples of silence put in because input was late.
        dropped: Samples left out because input was early.
    """

    def __init__(self, timeline: Timeline, delay: int, quiet_rms: float) -> None:
        self._timeline = timeline
        self._quiet_rms = quiet_rms
        self._window_start = 0
        self._lowest = self._highest = 0
        self._fresh = True
        self._surplus = self._shortage = 0
        self._ramp = False
        self.delay = delay
        self.received = self.inserted = self.dropped = 0

    def feed(self, pcm: F32, now: int) -> None:
        """Take the next samples, float32 (n,), at position `now` of the media clock."""
        self.received += len(pcm)
        pcm = self._trimmed(pcm, now)
        if not len(pcm):
            return
        end = self._timeline.end
        start = end + self._shortage
        if end <= now:  # what was to be heard now is not here: begin anew
            start = now + self.delay
            self._fresh = True
        if 0 < start - end < LONGEST_GAP and end > 0:
            self.inserted += start - end
        self._shortage = 0
        if self._ramp or start > end:
            pcm = pcm.copy()
            ramp = _RAMP[: len(pcm)]
            pcm[: len(ramp)] *= ramp
            self._ramp = False
        self._timeline.write(start, pcm)
        self._watch(self._timeline.end - now - self.delay, now)

    def grow(self, delay: int) -> None:
        """Hear samples later from now on, also in the middle of a word."""
        self._shortage += max(delay - self.delay, 0)
        self.delay = max(delay, self.delay)
        self._fresh = True

    def _trimmed(self, pcm: F32, now: int) -> F32:
        """The samples that are kept; the first of a block go where there are too many."""
        over = self._timeline.end + len(pcm) - now - self.delay - SURPLUS_LIMIT
        quiet = float(np.sqrt(np.mean(np.square(pcm, dtype=np.float64)))) < self._quiet_rms if len(pcm) else True
        drop = min(max(over, self._surplus if quiet else 0), len(pcm))
        if drop <= 0:
            return pcm
        self.dropped += drop
        self._surplus = max(self._surplus - drop, 0)
        self._fresh = self._ramp = True
        return pcm[drop:]

    def _watch(self, lead_error: int, now: int) -> None:
        if self._fresh:
            self._window_start, self._lowest, self._highest, self._fresh = now, lead_error, lead_error, False
            return
        self._lowest, self._highest = min(self._lowest, lead_error), max(self._highest, lead_error)
        if now - self._window_start < WINDOW:
            return
        self._surplus = self._lowest if self._lowest > TOLERANCE else 0
        self._shortage = -self._highest if self._highest < -TOLERANCE else 0
        self._fresh = True
