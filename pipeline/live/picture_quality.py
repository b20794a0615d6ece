"""Whether a live session's pictures come in time, and when its client should be told."""

from __future__ import annotations

from collections import deque
from enum import StrEnum
from typing import Final

WINDOW_S: Final = 2.0
REDUCED_SHARE: Final = 0.15
"""Of the pictures of the window: from here on a viewer sees that the lips stand still while the voice goes on."""
AWAY_S: Final = 2.5
"""Seconds without an answer of a stage after which the face only idles, until one that starts anew, or has room, answers."""


class Quality(StrEnum):
    """What a viewer gets: every picture, a face that cannot keep up, or one that idles while the voice speaks."""

    FULL = "full"
    REDUCED = "reduced"
    WAITING = "waiting"


class PictureQuality:
    """Judges the last two seconds of pictures.

    It falls to `REDUCED` when 15 % of them were late and rises when none was, so that it does not flicker in between. Where a stage
    gives no answer it is `WAITING`: the face idles then, and pictures of that are never late.

    Args:
        fps: Pictures per second.

    Attributes:
        now: What the viewer gets.
    """

    def __init__(self, fps: int) -> None:
        self._late: deque[bool] = deque(maxlen=round(WINDOW_S * fps))
        self.now = Quality.FULL

    def note(self, late: bool, away_s: float = 0.0) -> Quality | None:
        """Take in one picture.

        Args:
            late: Whether a new picture was due and had not come.
            away_s: For how long a stage has given no answer.

        Returns:
            The quality where it changed; None otherwise.
        """
        self._late.append(late)
        count = sum(self._late)
        before = self.now
        if away_s >= AWAY_S:
            self.now = Quality.WAITING
        elif count >= REDUCED_SHARE * (self._late.maxlen or 1):
            self.now = Quality.REDUCED
        elif not count:
            self.now = Quality.FULL
        elif before is Quality.WAITING:
            self.now = Quality.REDUCED
        return None if self.now is before else self.now
