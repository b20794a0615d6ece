"""From a client's microphone to turns: one clock, holes filled with silence, the presenter's echo left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kernels.arrays import F32
from pipeline.live.contracts import MICROPHONE_RATE_HZ, VoiceTick
from pipeline.media.resample import StreamingResampler
from pipeline.talk.activity import FRAME, VoiceActivity
from pipeline.talk.echo_guard import EchoGuard
from pipeline.talk.settings import AgentSettings
from pipeline.talk.turns import TurnBegan, TurnEnded, TurnTaking
from pipeline.types import SAMPLE_RATE_HZ

LONGEST_HOLE: Final = 6 * MICROPHONE_RATE_HZ
"""Samples of silence that stand for a hole at most: longer than any pause that ends a turn."""


class Listener:
    """Listens to one client.

    Args:
        settings: How turns are taken.
    """

    def __init__(self, settings: AgentSettings) -> None:
        self._activity, self._turns, self._guard = VoiceActivity(), TurnTaking(settings), EchoGuard()
        self._resampler = StreamingResampler(SAMPLE_RATE_HZ)
        self._place: int | None = None
        self._rest = np.zeros(0, np.float32)

    @property
    def speaking(self) -> bool:
        """Whether the client speaks."""
        return self._turns.speaking

    def played(self, tick: VoiceTick) -> None:
        """The presenter's voice leaves; it may come back through the microphone."""
        self._guard.played(tick)

    def hear(self, samples: F32, place: int) -> Iterator[TurnBegan | TurnEnded]:
        """Take the next samples and find the turns that begin or end with them.

        Args:
            samples: float32 (n,), 48 kHz; none where nothing was heard up to `place`.
            place: Position of the first one on the client's clock; what lies between it and the last one is silence.
        """
        hole = 0 if self._place is None else max(place - self._place, 0)
        self._place = place + len(samples)
        heard = np.concatenate([np.zeros(min(hole, LONGEST_HOLE), np.float32), np.nan_to_num(samples)])
        pcm = self._resampler.push(heard, MICROPHONE_RATE_HZ)[:, 0]
        pcm = np.concatenate([self._rest, pcm])
        whole = len(pcm) - len(pcm) % FRAME
        self._rest = pcm[whole:]
        for start in range(0, whole, FRAME):
            frame = pcm[start : start + FRAME]
            voiced = self._activity.hear(frame, self._guard.least_rms)
            self._guard.heard(frame)
            if (event := self._turns.hear(frame, voiced)) is not None:
                yield event
