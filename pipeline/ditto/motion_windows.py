"""Condition rows -> motion, window by window, exactly as the reference fuses and smooths them (ditto.md section 6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from engines.motion_layout import EXP
from kernels.arrays import F32
from kernels.errors import InvalidInputError

SEQ_FRAMES: Final = 80
_POSE_DIMS: Final = slice(0, EXP.start)
"""Smoothing leaves the expression alone."""
_KEPT_FRAMES: Final = 2 * SEQ_FRAMES
"""Frames of the past that later windows may still read; older ones are dropped."""

Sampler = Callable[[F32, F32], F32]
"""(condition frame (265,), conditions (80, 1103)) -> motion (80, 265)."""


@dataclass(frozen=True)
class WindowSettings:
    """How windows overlap.

    Attributes:
        overlap: Frames shared by neighbouring windows, 1..79.
        online: Fuse over at most the new frames (live) or over the whole overlap (offline).
        reset_every: 0: the next window continues from the predicted motion; n: every n-th window starts from the source.
        reset_keeps: [from, to) dims that stay predicted at a reset.
        smooth_width: Mean filter over time on the pose; 1 or less disables it.
        limits: float32 (2, 265), lower and upper bound of emitted motion; None = none.
    """

    overlap: int
    online: bool
    reset_every: int = 0
    reset_keeps: tuple[int, int] = (0, 0)
    smooth_width: int = 3
    limits: F32 | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.overlap < SEQ_FRAMES:
            raise InvalidInputError("overlap", str(self.overlap), f"1 to {SEQ_FRAMES - 1}")

    @property
    def new_frames(self) -> int:
        """Frames that every window after the first adds."""
        return SEQ_FRAMES - self.overlap

    @property
    def fuse_frames(self) -> int:
        """Frames over which a window is blended into what is there."""
        return min(self.overlap, self.new_frames) if self.online else self.overlap


@dataclass(frozen=True)
class TrackState:
    """A `MotionTrack` between two windows.

    Attributes:
        motion: float32 (n, 265), the motion that is still kept.
        base: Absolute frame of its first row.
        windows: Windows so far.
    """

    motion: F32
    base: int = 0
    windows: int = 0


class MotionTrack:
    """The motion so far and what the next window continues from.

    Args:
        settings: Overlap, fusing, smoothing.
        source: float32 (265,), the condition frame of the first window and of resets.
    """

    def __init__(self, settings: WindowSettings, source: F32) -> None:
        self._settings = settings
        self._source = source.astype(np.float32)
        self._motion = np.zeros((0, len(source)), np.float32)
        self._base = 0
        self._windows = 0
        self.condition_frame = self._source

    @property
    def length(self) -> int:
        """Frames so far, those dropped from memory included."""
        return self._base + len(self._motion)

    def add(self, predicted: F32) -> None:
        """Fuse one window (80, 265), smooth the join, choose the next condition frame."""
        settings = self._settings
        new, fuse = settings.new_frames, settings.fuse_frames
        if self._windows == 0:
            self._motion = predicted.astype(np.float32).copy()
            self._smooth(0, SEQ_FRAMES)
        else:
            share = (np.arange(fuse, dtype=np.float32) / fuse)[:, None]
            known, again = self._motion[-fuse:], predicted[SEQ_FRAMES - new - fuse : SEQ_FRAMES - new]
            fused = known * (1.0 - share) + again * share
            self._motion = np.concatenate([self._motion[:-fuse], fused, predicted[SEQ_FRAMES - new :]])
            self._motion = self._motion.astype(np.float32)
            self._smooth(self.length - new - fuse, self.length - new + 1)
        self._windows += 1
        self.condition_frame = self._next_condition()

    def read(self, start: int, count: int) -> F32:
        """Up to `count` frames from absolute frame `start` on, inside the limits, (n, 265)."""
        return self._limited(self._motion[start - self._base : start - self._base + count])

    @property
    def settled(self) -> int:
        """Frames that no later window changes."""
        return 0 if self._windows == 0 else self.length - self._settings.fuse_frames

    def final(self, start: int, stop: int, frames: int) -> F32:
        """Frames start..stop of what `finished(frames)` gives, as soon as they and their neighbours are settled."""
        half = self._settings.smooth_width // 2 if self._settings.smooth_width > 1 else 0
        out = self._motion[start - self._base : stop - self._base].copy()
        for frame in range(start, stop) if half else ():
            window = self._motion[max(0, frame - half) - self._base : min(frame + half + 1, frames) - self._base]
            out[frame - start, _POSE_DIMS] = window[:, _POSE_DIMS].mean(axis=0)
        return self._limited(out)

    def state(self) -> TrackState:
        """What `resume` goes on from."""
        return TrackState(self._motion, self._base, self._windows)

    @classmethod
    def resume(cls, settings: WindowSettings, source: F32, state: TrackState) -> Self:
        """The track that gave this state."""
        track = cls(settings, source)
        track._motion, track._base, track._windows = state.motion.copy(), state.base, state.windows
        if state.windows:
            track.condition_frame = track._next_condition()
        return track

    def finished(self, frames: int) -> F32:
        """A whole clip (offline): cut to `frames`, smoothed once more over everything, inside the limits."""
        self._motion = self._motion[:frames]
        self._smooth(0, frames)
        return self._limited(self._motion)

    def forget_before(self, start: int) -> None:
        """Drop frames that no later window reads, all of them before `start`."""
        keep_from = max(min(start, self.length - _KEPT_FRAMES), self._base)
        self._motion = self._motion[keep_from - self._base :]
        self._base = keep_from

    def _limited(self, motion: F32) -> F32:
        limits = self._settings.limits
        limited: F32 = motion.copy() if limits is None else np.clip(motion, limits[0], limits[1])
        return limited

    def _smooth(self, start: int, stop: int) -> None:
        """Mean filter on absolute frames start..stop of the pose dims; windows are cut at the ends of the motion."""
        half = self._settings.smooth_width // 2
        if self._settings.smooth_width <= 1:
            return
        before = self._motion[:, _POSE_DIMS].copy()
        for frame in range(start - self._base, min(stop - self._base, len(before))):
            window = before[max(0, frame - half) : frame + half + 1]
            self._motion[frame, _POSE_DIMS] = window.mean(axis=0)

    def _next_condition(self) -> F32:
        settings = self._settings
        predicted: F32 = self._motion[len(self._motion) - settings.overlap - 1]
        if not settings.reset_every or self._windows % settings.reset_every:
            return predicted.copy()
        kept = slice(*settings.reset_keeps)
        condition = self._source.copy()
        condition[kept] = predicted[kept]
        return condition


def padded_window(conditions: F32) -> F32:
    """Conditions (n, d) brought to 80 rows by repeating the last one."""
    return np.concatenate([conditions, np.repeat(conditions[-1:], SEQ_FRAMES - len(conditions), axis=0)])
