"""Turn taking: when a person begins to speak, and when they have finished. Time is counted in frames of the microphone."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

import numpy as np

from kernels.arrays import F32
from pipeline.talk.activity import FRAME_S
from pipeline.talk.settings import AgentSettings

BEFORE_S: Final = 0.3
"""Sound that is kept before the first frame of voice: soft beginnings."""
AFTER_S: Final = 0.2
"""Sound that is kept after the last frame of voice."""


@dataclass(frozen=True)
class TurnBegan:
    """A person speaks, for `least_speech_s` already."""


@dataclass(frozen=True, eq=False)
class TurnEnded:
    """A person has finished.

    Attributes:
        pcm: What was said, float32 (n,), mono, 16 kHz.
    """

    pcm: F32


class TurnTaking:
    """Finds the turns of one person.

    Args:
        settings: How long a pause, the shortest and the longest turn are.
    """

    def __init__(self, settings: AgentSettings) -> None:
        self._pause = _frames(settings.pause_s)
        self._least = _frames(settings.least_speech_s)
        self._longest = _frames(settings.longest_turn_s)
        self._before: deque[F32] = deque(maxlen=_frames(BEFORE_S) + self._least)
        self._said: list[F32] = []
        self._voiced = self._quiet = 0

    @property
    def speaking(self) -> bool:
        """Whether a turn has begun and is not over."""
        return bool(self._said)

    def hear(self, frame: F32, voiced: bool) -> TurnBegan | TurnEnded | None:
        """Take the next frame and whether it holds a voice.

        Frames without voice count against those with: a turn begins with `least_speech_s` more of these than of those.
        """
        if self._said:
            return self._go_on(frame, voiced)
        self._before.append(frame)
        self._voiced = max(self._voiced + (1 if voiced else -1), 0)
        if self._voiced < self._least:
            return None
        self._said = list(self._before)
        self._before.clear()
        self._voiced = self._quiet = 0
        return TurnBegan()

    def _go_on(self, frame: F32, voiced: bool) -> TurnEnded | None:
        self._said.append(frame)
        self._quiet = 0 if voiced else self._quiet + 1
        if self._quiet < self._pause and len(self._said) < self._longest:
            return None
        silent = max(self._quiet - _frames(AFTER_S), 0)
        pcm = np.concatenate(self._said[: len(self._said) - silent])
        self._said = []
        self._quiet = 0
        return TurnEnded(pcm)


def _frames(seconds: float) -> int:
    return max(round(seconds / FRAME_S), 1)
