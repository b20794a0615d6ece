"""Whether a live session's pictures come in time, and when its client should be told."""

from __future__ import annotations

from collections import deque
from enum import StrEnum
from typing import Final

WINDOW_S: Final = 2.0
REDUCED_SHARE: Final = 0.15
"""Of the pictures of the window: from here on a viewer sees that the lips stand still while the voice goes on."""


class Quality(StrEnum):
    """What a viewer gets: every picture, or a face that cannot keep up."""

    FULL = "full"
    REDUCED = "reduced"


class PictureQuality:
    """Judges the last two seconds of pictures.

    It falls to `REDUCED` when 15 % of them were late and rises when none was, so that it does not flicker in between.

    Args:
        fps: Pictures per second.

    Attributes:
        now: What the viewer gets.
    """

    def __init__(self, fps: int) -> None:
        self._late: deque[bool] = deque(maxlen=round(WINDOW_S * fps))
        self.now = Quality.FULL

    def note(self, late: bool) -> Quality | None:
        """Take in one picture.

        Args:
            late: Whether a new picture was due and had not come.

        Returns:
            The quality where it changed; None otherwise.
        """
        self._late.append(late)
        count = sum(self._late)
        before = self.now
        if count >= REDUCED_SHARE * (self._late.maxlen or 1):
            self.now = Quality.REDUCED
        elif not count:
            self.now = Quality.FULL
        return None if self.now is before else self.now
