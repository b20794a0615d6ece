"""From a client's microphone onto the timeline: read at the pace of the media clock, a fixed delay after arrival, and never more.

A sound card is a little off: it is read faster or slower (`pipeline.live.drift`), however long the session lasts. Three things are
no drift, and there the voice jumps: the delay changes, the media clock stood still, or more came than can have been spoken. Silence
is put in at once, surplus is left out in a quiet moment where there is one. What the stages see is always consecutive.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from kernels.arrays import F32
from pipeline.live.drift import DriftControl
from pipeline.live.grid import samples_of_ms
from pipeline.live.timeline import Timeline
from pipeline.live.voice_resampler import PER_SAMPLE, VoiceResampler
from pipeline.media.running_level import RunningLevel

SURPLUS_LIMIT: Final = samples_of_ms(200)
"""More than this is dropped at once, also during speech."""
LONGEST_HOLE: Final = samples_of_ms(1000)
"""After a longer one the microphone was off, not late."""
_RAMP: Final = np.linspace(0.0, 1.0, samples_of_ms(2.5), endpoint=False, dtype=np.float32)


class Microphone:
    """Lays the voice of one client on the timeline.

    Args:
        timeline: Where the samples go.
        delay: Samples at 16 kHz between arrival and being heard.
        quiet_rms: A block below this RMS may be dropped.

    Attributes:
        delay: Samples at 16 kHz between arrival and being heard; see `hear_after`.
        inserted: Samples of silence put in because the voice is to be heard later, or was laid down too late.
        dropped: Samples left out because they were early.
    """

    def __init__(self, timeline: Timeline, delay: int, quiet_rms: float) -> None:
        self._timeline = timeline
        self._quiet_rms = quiet_rms
        self._place: int | None = None
        self._ramp = False
        self._begin_anew()
        self._rests = True
        self._level = RunningLevel()
        self.delay = delay
        self.inserted = self.dropped = 0

    @property
    def drift_ppm(self) -> float:
        """Correction in force; positive where the client's clock runs fast."""
        return self._drift.ppm

    @property
    def end(self) -> int:
        """Position of the timeline up to which the voice lies there."""
        return self._timeline.end

    def feed(self, samples: F32, place: int, now: int, age: int = 0) -> None:
        """Take the next samples.

        Args:
            samples: float32 (n,), 48 kHz; none where nothing was heard up to `place`.
            place: Position of the first one on the client's clock; what lies between it and the last one is silence.
            now: Position of the media clock in samples.
            age: Samples by which the media clock has moved on since the first of these was here.
        """
        came = now - min(age, self.delay // 2)
        hole = 0 if self._place is None else max(place - self._place, 0)
        self._place = place + len(samples)
        self._rests = self._rests or self._timeline.end <= now  # what was to be heard now is not here
        if not self._rests:
            silence = np.zeros(min(hole, LONGEST_HOLE * PER_SAMPLE), np.float32)
            pcm = self._trimmed(self._resampler.push(np.concatenate([silence, samples])), now)
            self._lay(self._timeline.end + self._shortage(), pcm)
        elif len(samples):
            self._begin_anew()
            self._lay(max(came + self.delay, self._timeline.end), self._resampler.push(samples))
        if len(samples):
            self._drift.see(self._timeline.end - len(samples) // PER_SAMPLE - came - self.delay, now)
            self._resampler.pace = self._drift.step

    def hear_after(self, delay: int) -> None:
        """Hear samples `delay` after they arrive: later at once, also in the middle of a word; sooner from a quiet moment on."""
        self._drift.change_jump(self.delay - delay)
        self.delay = delay

    def rest(self) -> None:
        """What was to be heard was cut off: nothing is laid down until samples come, and their delay is the whole one."""
        self._rests = True

    def _begin_anew(self) -> None:
        self._rests = False
        self._drift = DriftControl()
        self._resampler = VoiceResampler()

    def _trimmed(self, pcm: F32, now: int) -> F32:
        """The samples that are kept; the first of a block go where there are too many."""
        over = self._timeline.end + len(pcm) - now - self.delay - SURPLUS_LIMIT
        early = self._drift.jump if self._drift.jump > 0 and self._is_quiet(pcm) else 0
        drop = min(max(over, early), len(pcm))
        if drop <= 0:
            return pcm
        self.dropped += drop
        self._drift.change_jump(-min(drop, max(self._drift.jump, 0)))
        self._ramp = True
        return pcm[drop:]

    def _is_quiet(self, pcm: F32) -> bool:
        return not len(pcm) or float(np.sqrt(np.mean(np.square(pcm, dtype=np.float64)))) < self._quiet_rms

    def _shortage(self) -> int:
        """Samples of silence that go in now."""
        late = max(-self._drift.jump, 0)
        if late:
            self._drift.change_jump(late)
        return late

    def _lay(self, start: int, pcm: F32) -> None:
        if not len(pcm):
            return
        gap = start - self._timeline.end
        if 0 < gap < LONGEST_HOLE and self._timeline.end > 0:
            self.inserted += gap
        if self._ramp or gap > 0:
            pcm = pcm.copy()
            ramp = _RAMP[: len(pcm)]
            pcm[: len(ramp)] *= ramp
            self._ramp = False
        self._level.hear(pcm)
        self._timeline.write(start, pcm, self._level.gain)
