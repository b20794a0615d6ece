"""A microphone that drives the face: its speech as utterances, found by the silence gate."""

from __future__ import annotations

from typing import Final

import numpy as np

from kernels.arrays import F32
from pipeline.live.grid import samples_of_ms
from pipeline.live.microphone import Microphone
from pipeline.live.speech_queue import Utterance
from pipeline.live.voice_resampler import PER_SAMPLE
from pipeline.session.speech_scan import SpeechScan, SpokenSpan

QUIET_AFTER_CUT: Final = samples_of_ms(200)
LONGEST_MUTE: Final = samples_of_ms(2000)
"""Samples of what was being said that are left out after an interruption, at most; it ends sooner when the voice is quiet."""


class MicVoice:
    """Finds the utterances of one session's microphone.

    Args:
        microphone: Puts samples on the timeline.
        scan: Finds speech on the timeline.
        quiet_rms: RMS, linear full scale, below which a block of samples is quiet.
        name: Prefix that makes utterance ids unique.
    """

    def __init__(self, microphone: Microphone, scan: SpeechScan, quiet_rms: float, name: str) -> None:
        self._microphone = microphone
        self._scan = scan
        self._quiet_rms = quiet_rms
        self._name = name
        self._count = 0
        self._span: SpokenSpan | None = None
        self._current: Utterance | None = None
        self._muted_for: int | None = None
        self._quiet_for = 0

    @property
    def current(self) -> Utterance | None:
        """The utterance that is heard."""
        return self._current

    @property
    def pending(self) -> bool:
        """Whether speech is on its way."""
        return self._current is not None or bool(self._scan.spans) or self._scan.open

    def feed(self, samples: F32, place: int, now: int, age: int = 0) -> None:
        """Take the next samples, as `Microphone.feed` does; muted ones are silence."""
        if self._still_muted(samples):
            samples, place = samples[:0], place + len(samples)
        self._microphone.feed(samples, place, now, age)

    def hear(self, start: int, until: int) -> tuple[int, list[Utterance]]:
        """Note that the timeline was played from `start` to `until`; at most one utterance begins or ends.

        Returns:
            Samples of speech that this added, and the utterances that are thereby over.
        """
        spans = self._scan.spans
        if self._current is None:
            while spans and spans[0].end is not None and spans[0].end <= start:
                spans.popleft()  # it was never heard
            if not spans or spans[0].start >= until:
                return 0, []
            self._span = spans[0]
            self._count += 1
            self._current = Utterance(f"{self._name}-{self._count}")
            start = max(start, self._span.start)
        utterance, span = self._current, self._span
        if span is None:
            return 0, []
        stop = until if span.end is None else max(min(until, span.end), start)
        utterance.sent += stop - start
        if span.end is None or span.end > until:
            return stop - start, []
        utterance.sent = span.end - span.start
        self._current = self._span = None
        spans.popleft()
        return stop - start, [utterance]

    def cut(self, position: int) -> list[Utterance]:
        """End what is being said at `position` of the timeline."""
        utterance, span = self._current, self._span
        self._current = self._span = None
        self._scan.spans.clear()
        self._muted_for = self._quiet_for = 0
        self._microphone.rest()
        if utterance is None or span is None:
            self._count += 1
            return [Utterance(f"{self._name}-{self._count}")]
        utterance.sent = max(min(position, span.end or position) - span.start, 0)
        return [utterance]

    def _still_muted(self, samples: F32) -> bool:
        if self._muted_for is None or not len(samples):
            return self._muted_for is not None
        loud = float(np.sqrt(np.mean(np.square(samples, dtype=np.float64)))) >= self._quiet_rms
        lasts = len(samples) // PER_SAMPLE
        self._quiet_for = 0 if loud else self._quiet_for + lasts
        self._muted_for += lasts
        if self._quiet_for < QUIET_AFTER_CUT and self._muted_for < LONGEST_MUTE:
            return True
        self._muted_for = None
        return False
