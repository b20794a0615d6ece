"""Which frames count as speech, decided in order by the silence gate; where samples come later, frames are decided again."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final, Protocol

from kernels.arrays import F32
from pipeline.config import SilenceSettings
from pipeline.session.silence import SilenceGate, frame_rms
from pipeline.types import SAMPLES_PER_FRAME

_KEPT: Final = 64


class GrowingSamples(Protocol):
    """Samples by their position, of which more come."""

    @property
    def end(self) -> int:
        """Position after the last sample that came."""
        ...

    def read(self, start: int, length: int) -> F32:
        """A private copy of samples start .. start + length, silence where there are none."""
        ...


@dataclass
class SpokenSpan:
    """A stretch in which the gate was open.

    Attributes:
        start: Sample position of its first frame.
        end: Sample position after its last loud frame; None while the gate is open.
        closed_at: Frame at which that was decided.
    """

    start: int
    end: int | None = None
    closed_at: int = 0


class SpeechScan:
    """The silence gate over samples; `pipeline.session.planner.Heard` for a planner.

    Args:
        samples: What is heard: a file's samples, or the timeline of a live session.
        settings: When a frame counts as speech.

    Attributes:
        spans: Stretches of speech that were not taken yet, oldest first.
    """

    def __init__(self, samples: GrowingSamples, settings: SilenceSettings) -> None:
        self._samples = samples
        self._settings = settings
        self._gate = SilenceGate(settings)
        self._gates: deque[tuple[int, SilenceGate]] = deque(maxlen=_KEPT)
        self._next = 0
        self._seen_end = 0
        self._speech: deque[int] = deque()
        self.spans: deque[SpokenSpan] = deque()

    @property
    def open(self) -> bool:
        """Whether the last frame looked at counts as speech."""
        return self._gate.speaking

    def look(self, until_frame: int, from_frame: int) -> None:
        """Look at frames up to `until_frame`; frames before `from_frame` are past and are left out."""
        self._look_again()
        if from_frame > self._next:
            if from_frame - self._next > self._settings.hold_frames:
                self.reset(from_frame)
            self._next = from_frame
        count = until_frame - self._next
        if count <= 0:
            return
        energy = frame_rms(self._samples.read(self._next * SAMPLES_PER_FRAME, count * SAMPLES_PER_FRAME))
        for frame in range(self._next, until_frame):
            self._gates.append((frame, self._gate))
            speaking = self._gate.speaking
            speech, self._gate = self._gate.step(energy[frame - self._next : frame - self._next + 1])
            if speech[0]:
                self._speech.append(frame)
                if not speaking:
                    self.spans.append(SpokenSpan(frame * SAMPLES_PER_FRAME))
            elif speaking and self.spans:
                self.spans[-1].end = (frame - self._settings.hold_frames) * SAMPLES_PER_FRAME
                self.spans[-1].closed_at = frame
        self._next = until_frame
        while self._speech and self._speech[0] < self._next - _KEPT:
            self._speech.popleft()

    def first_speech(self, from_frame: int) -> int | None:
        """The first frame of speech at or after `from_frame`."""
        return next((frame for frame in self._speech if frame >= from_frame), None)

    def any_speech(self, from_frame: int, until_frame: int) -> bool:
        """Whether any frame from .. until counts as speech."""
        return any(from_frame <= frame < until_frame for frame in self._speech)

    def reset(self, at_frame: int) -> None:
        """Cut off the speech that is open, forget what was decided, and go on at `at_frame`."""
        if self.spans and self.spans[-1].end is None:
            self.spans[-1].end = at_frame * SAMPLES_PER_FRAME
        self._gate = SilenceGate(self._settings)
        self._gates.clear()
        self._speech.clear()
        self._next = at_frame
        self._seen_end = self._samples.end

    def _look_again(self) -> None:
        """Samples came where silence had been assumed: forget what was decided there."""
        fresh, self._seen_end = self._seen_end // SAMPLES_PER_FRAME, self._samples.end
        if self._seen_end <= fresh * SAMPLES_PER_FRAME or fresh >= self._next:
            return
        while self._gates and self._gates[-1][0] >= fresh:
            self._next, self._gate = self._gates.pop()
        while self._speech and self._speech[-1] >= self._next:
            self._speech.pop()
        while self.spans and self.spans[-1].start >= self._next * SAMPLES_PER_FRAME:
            self.spans.pop()
        if self.spans and self.spans[-1].end is not None and self.spans[-1].closed_at >= self._next:
            self.spans[-1].end = None
