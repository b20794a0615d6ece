"""Where a session is in its avatar's idle loop: which frame of the session shows which frame of the loop."""

from __future__ import annotations

import numpy as np

from kernels.arrays import F32
from pipeline.live.idle_loop import IdleLoop
from pipeline.types import Nv12Rect


class LoopPlace:
    """Shows the idle face of one session. It rests in the avatar's still picture until the loop's pictures are here.

    Args:
        loop: The avatar's idle loop.

    Attributes:
        start: Frame of the session at which the loop begins; the frames before lead into it.
    """

    def __init__(self, loop: IdleLoop) -> None:
        self._loop = loop
        self._resting = True
        self.start = 0

    @property
    def ready(self) -> bool:
        """Whether the pictures have come while the face still rests: `enter` begins the loop."""
        return self._resting and self.has_pictures

    def enter(self, frame: int) -> None:
        """Leave the still picture at a frame; the way into the loop is drawn as a part of it."""
        self._resting = False
        pictures = self._loop.pictures
        leads_in = frame > 0 and pictures is not None and bool(pictures.entry)
        self.start = frame + (len(self._loop.entry_motion) if leads_in else 0)

    @property
    def has_pictures(self) -> bool:
        """Whether the loop's pictures are here."""
        return self._loop.pictures is not None

    def leave_still(self, frame: int) -> None:
        """Leave the still picture at a frame whose motion is drawn: the way into the loop comes first, then the loop."""
        if self._resting:
            self._resting = False
            self.start = frame + len(self._loop.entry_motion)

    def join(self, frame: int, pose: F32) -> None:
        """Go on at a frame from where the loop is most like a pose, float32 (265,)."""
        self.start = frame - self._loop.nearest(pose)

    def motion(self, first_frame: int, count: int) -> F32:
        """Idle motion, float32 (count, 265)."""
        return np.stack([self._motion_at(frame) for frame in range(first_frame, first_frame + count)])

    def picture(self, tick: int) -> Nv12Rect:
        """The idle picture of a tick of the session."""
        return self._loop.picture(tick - self.start * self._loop.grid.ticks_per_frame)

    def _motion_at(self, frame: int) -> F32:
        return self._loop.rest_motion if self._resting else self._loop.motion_at(frame - self.start)
