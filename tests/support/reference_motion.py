"""Condition rows to motion as the reference does it for a whole clip and in its online worker (ditto.md section 6)."""

from __future__ import annotations

import numpy as np

from kernels.arrays import F32
from pipeline.ditto.motion_windows import SEQ_FRAMES, MotionTrack, Sampler, WindowSettings, padded_window


def offline_motion(conditions: F32, source: F32, settings: WindowSettings, sample: Sampler) -> F32:
    """Motion of a whole clip.

    Args:
        conditions: float32 (frames, 1103), frames >= 1.
        source: float32 (265,).
        settings: Window settings.
        sample: The motion model.

    Returns:
        float32 (frames, 265).
    """
    track = MotionTrack(settings, source)
    for start in range(0, len(conditions), settings.new_frames):
        track.add(sample(track.condition_frame, padded_window(conditions[start : start + SEQ_FRAMES])))
    return track.finished(len(conditions))


class OnlineMotion:
    """Live motion as the reference emits it (`compat`): the first window shows nothing, every later one its new frames.

    Args:
        silence: float32 (overlap, 1103), conditions of the silent lead-in.
        source: float32 (265,).
        settings: Window settings with `online=True`; the emission is only aligned for an overlap of at least 40.
        sample: The motion model.

    Attributes:
        d0: float32 (265,), first driving frame, known after the first window.
    """

    def __init__(self, silence: F32, source: F32, settings: WindowSettings, sample: Sampler) -> None:
        self._settings = settings
        self._sample = sample
        self._track = MotionTrack(settings, source)
        self._rows = silence.astype(np.float32)
        self._waiting: list[F32] = []
        self._emit_from = SEQ_FRAMES - settings.fuse_frames
        self.d0: F32 | None = None

    def feed(self, conditions: F32) -> F32:
        """Take condition rows (n, 1103), n >= 1; return the motion that they complete, (m, 265), m often 0."""
        self._waiting.append(conditions)
        if sum(map(len, self._waiting)) < self._settings.new_frames:
            return np.zeros((0, len(self._track.condition_frame)), np.float32)
        self._rows = np.concatenate([self._rows, *self._waiting])
        self._waiting = []
        emitted = [np.zeros((0, len(self._track.condition_frame)), np.float32)]
        while len(self._rows) >= SEQ_FRAMES:
            emitted.append(self._run_window(self._rows[:SEQ_FRAMES], self._settings.new_frames))
            self._rows = self._rows[self._settings.new_frames :]
        return np.concatenate(emitted)

    def finish(self, padding: F32) -> F32:
        """The end of the audio: one last window.

        Args:
            padding: float32 (>= 80, 1103), conditions after the end: the last audio row again, at the frames that follow (so
                that a template video's eyes go on).
        """
        self._rows = np.concatenate([self._rows, *self._waiting])
        self._waiting = []
        window = np.concatenate([self._rows, padding])[:SEQ_FRAMES]
        return self._run_window(window, len(self._rows))

    def _run_window(self, window: F32, count: int) -> F32:
        first = self._track.length == 0
        self._track.add(self._sample(self._track.condition_frame, window))
        if first:
            self.d0 = self._track.read(0, 1)[0]
            return np.zeros((0, len(self.d0)), np.float32)
        motion = self._track.read(self._emit_from, count)
        self._emit_from += len(motion)
        self._track.forget_before(self._emit_from)
        return motion
