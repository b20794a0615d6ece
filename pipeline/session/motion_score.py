"""The motion that was decided, frame by frame, and idle motion wherever nothing was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from kernels.arrays import F32

_KEPT_FRAMES: Final = 64
"""Number of frames kept; no family's windows look back as far."""


class MotionScore:
    """Motion of the last frames and of the next ones of one face.

    Args:
        idle: Makes idle motion: first frame, number of frames -> float32 (n, 265).
    """

    def __init__(self, idle: Callable[[int, int], F32]) -> None:
        self.idle = idle
        self._decided: dict[int, F32] = {}

    def at(self, frame: int) -> F32:
        """Motion (265,) of a frame as it was decided, idle motion elsewhere."""
        decided = self._decided.get(frame)
        return self.idle(frame, 1)[0] if decided is None else decided

    def before(self, frame: int, count: int) -> F32:
        """Motion (count, 265) of the frames that lead up to a frame."""
        return np.stack([self.at(one) for one in range(frame - count, frame)])

    def keep(self, motion: F32, first_frame: int) -> None:
        """Decide frames (n, 265); what lies too far before them is forgotten."""
        for i, row in enumerate(motion):
            self._decided[first_frame + i] = row
        for frame in [frame for frame in self._decided if frame < first_frame - _KEPT_FRAMES]:
            del self._decided[frame]

    def hold(self, pose: F32, first_frame: int, stop: int) -> None:
        """Decide that frames first .. stop all show one pose (265,)."""
        self._decided.update(dict.fromkeys(range(first_frame, stop), pose))

    def forget_from(self, frame: int) -> None:
        """Drop what was decided for a frame and for all later ones."""
        self._decided = {at: motion for at, motion in self._decided.items() if at < frame}

    def clear(self) -> None:
        """Forget everything."""
        self._decided.clear()
