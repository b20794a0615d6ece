"""Stage `motion_diffusion` of Ditto for files: the reference's `offline` and `compat` motion as stateless calls.

The reference makes a clip's motion in one go. Here the rows of a clip come in any number of calls, everything between
two calls lies in the carry, and frames come out as soon as no later window changes them: `offline` gives its first 69 frames after
one window (3.2 s of speech) and 70 with every further one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

import numpy as np
import torch

from engines.ditto import FAMILY
from engines.ditto.motion_sampler import session_noise
from engines.motion_layout import MOTION_DIM
from engines.runtimes.protocol import Runtime
from kernels.arrays import F32
from kernels.errors import LiveAnchorError, ShapeError
from pipeline.ditto.blink_schedule import blink_indices
from pipeline.ditto.condition import Condition
from pipeline.ditto.feature_windows import HOP_FRAMES, HOP_SAMPLES, OFFLINE_LEAD, ONLINE_LEAD
from pipeline.ditto.motion_windows import SEQ_FRAMES, MotionTrack, TrackState, WindowSettings, padded_window
from pipeline.ditto.speaker import Speaker, to_offsets
from pipeline.stages import CarryError
from pipeline.types import ROWS_PER_FRAME, SAMPLES_PER_FRAME, FeatureRows, MotionChunk

ROW_DIM: Final = 1024
_NO_FRAMES: Final = np.zeros((0, MOTION_DIM), np.float32)

ClipMode = Literal["offline", "compat"]


def lead_samples(mode: ClipMode) -> int:
    """Samples before a hop that its feature window begins with."""
    return OFFLINE_LEAD if mode == "offline" else ONLINE_LEAD


def rows_wanted(mode: ClipMode, samples: int) -> int:
    """Frames of features that a clip's motion is made of; `compat` takes the reference's last window, too, beyond the end."""
    frames = -(-samples // SAMPLES_PER_FRAME)
    return frames if mode == "offline" else -(-(ONLINE_LEAD + samples) // HOP_SAMPLES) * HOP_FRAMES


@dataclass(frozen=True)
class DittoClipCarry:
    """What one clip carries between calls.

    Attributes:
        speaker: The avatar.
        seed: Session seed.
        mode: Which motion.
        frames: Frames of the clip, >= 1.
        wanted: Frames of features that will come, from `rows_wanted`.
        blink_gaps: See `pipeline.ditto.blink_schedule.blink_indices`.
        taken: Frames of features that came.
        rows: float32 (n, 1024), the last n of them; earlier ones are in no later window.
        track: Motion between windows.
        emitted: Frames handed out by the track, `compat` only.
        next_frame: Index of the next frame to be given.
        d0: float32 (265,), the driving motion that means "no offset"; empty until it is known.
        done: True once the last window has run.
        family: Empty until the first call.
        version: Version of the weights; empty until the first call.
        epoch: Session epoch.
    """

    speaker: Speaker
    seed: int
    mode: ClipMode
    frames: int
    wanted: int
    blink_gaps: int | tuple[int, ...] = 0
    taken: int = 0
    rows: F32 = field(default_factory=lambda: np.zeros((0, ROW_DIM), np.float32))
    track: TrackState = field(default_factory=lambda: TrackState(_NO_FRAMES))
    emitted: int = 0
    next_frame: int = 0
    d0: F32 = field(default_factory=lambda: np.zeros(0, np.float32))
    done: bool = False
    family: str = ""
    version: str = ""
    epoch: int = 0


@dataclass(frozen=True)
class ClipSettings:
    """How one mode makes motion.

    Attributes:
        windows: Overlap, fusing, smoothing, limits.
        emotion: float32 (m, 8), one row per frame, cycled.
        steps: DDIM steps.
        version: Version of the weights.
    """

    windows: WindowSettings
    emotion: F32
    steps: int
    version: str


Result = tuple[MotionChunk, DittoClipCarry] | LiveAnchorError


class DittoClipMotion:
    """Makes the motion of files in one mode.

    Args:
        mode: Which.
        runtime: Runs an `engines.ditto.motion_sampler.MotionSampler` of `settings.steps` steps.
        settings: How motion is made.
        silence: float32 (5, 1024), features of five frames of digital silence; `compat` begins with them.
    """

    def __init__(self, mode: ClipMode, runtime: Runtime, settings: ClipSettings, silence: F32) -> None:
        self._mode = mode
        self._runtime = runtime
        self.settings = settings
        self._lead: F32 = np.zeros((0, ROW_DIM), np.float32)
        if mode == "compat":
            self._lead = np.tile(silence, (SEQ_FRAMES // HOP_FRAMES, 1))[: settings.windows.overlap].astype(np.float32)

    def steps(self, items: Sequence[tuple[FeatureRows, DittoClipCarry]]) -> list[Result]:
        """Take more rows of several clips, give the frames that they complete; a bad item fails alone.

        Args:
            items: Consecutive rows at 50 Hz, (t, 1024), and the carry of the call before. Rows beyond `wanted` are dropped.

        Returns:
            Per item offsets float32 (n, 265), n often 0, and the next carry. All frames have come with the last wanted row.
        """
        results: list[Result] = [
            self._fault(*item) or (MotionChunk(_NO_FRAMES, item[1].next_frame), item[1]) for item in items
        ]
        carries = {i: self._take(*items[i]) for i, result in enumerate(results) if isinstance(result, tuple)}
        made: dict[int, list[F32]] = {i: [_NO_FRAMES] for i in carries}
        while active := [i for i in carries if self._has_window(carries[i])]:
            for i, (offsets, carry) in zip(active, self._run([carries[i] for i in active]), strict=True):
                made[i].append(offsets)
                carries[i] = carry
        for i, carry in carries.items():
            results[i] = (MotionChunk(np.concatenate(made[i]), items[i][1].next_frame), carry)
        return results

    def _fault(self, rows: FeatureRows, carry: DittoClipCarry) -> LiveAnchorError | None:
        version = self.settings.version
        if carry.family and (carry.family, carry.version) != (FAMILY, version):
            return CarryError("carry", f"{carry.family} {carry.version}", f"{FAMILY} {version}")
        if rows.rows.ndim != 2 or rows.rows.shape[1] != ROW_DIM or len(rows.rows) % ROWS_PER_FRAME:
            return ShapeError("rows", str(rows.rows.shape), f"({ROWS_PER_FRAME} * n, {ROW_DIM})")
        if rows.first_row != carry.taken * ROWS_PER_FRAME:
            return CarryError("rows.first_row", str(rows.first_row), str(carry.taken * ROWS_PER_FRAME))
        if carry.taken >= carry.wanted:
            return CarryError("carry", "a finished clip", "a clip of which rows are missing")
        return None

    def _take(self, rows: FeatureRows, carry: DittoClipCarry) -> DittoClipCarry:
        new = rows.rows.reshape(-1, ROWS_PER_FRAME, ROW_DIM).mean(axis=1).astype(np.float32)
        new = new[: carry.wanted - carry.taken]
        known = carry.rows if carry.taken else self._lead
        return replace(
            carry,
            rows=np.concatenate([known, new]),
            taken=carry.taken + len(new),
            family=FAMILY,
            version=self.settings.version,
        )

    def _start(self, carry: DittoClipCarry) -> int:
        """First frame of the next window; negative while it begins in the silent lead-in."""
        return carry.track.windows * self.settings.windows.new_frames - len(self._lead)

    def _has_window(self, carry: DittoClipCarry) -> bool:
        return not carry.done and (carry.taken == carry.wanted or self._is_filled(carry))

    def _is_filled(self, carry: DittoClipCarry) -> bool:
        """Whether the next window needs no padding; `compat` counts rows as the reference does, which takes them in blocks."""
        taken = carry.taken
        if self._mode == "compat":
            block = -(-self.settings.windows.new_frames // HOP_FRAMES) * HOP_FRAMES
            taken = taken // block * block
        return taken >= self._start(carry) + SEQ_FRAMES

    def _run(self, carries: Sequence[DittoClipCarry]) -> list[tuple[F32, DittoClipCarry]]:
        """Sample one window of each clip."""
        tracks = [MotionTrack.resume(self.settings.windows, c.speaker.source, c.track) for c in carries]
        noise = [session_noise(c.seed, c.track.windows, self.settings.steps) for c in carries]
        motion = self._runtime.run(
            torch.from_numpy(np.stack([track.condition_frame for track in tracks])),
            torch.from_numpy(np.stack([self._conditions(carry) for carry in carries])),
            torch.stack(noise),
        )
        predicted = np.asarray(motion.float().cpu().numpy(), np.float32)
        results = []
        for carry, track, window in zip(carries, tracks, predicted, strict=True):
            track.add(window)
            results.append(self._offline(carry, track) if self._mode == "offline" else self._compat(carry, track))
        return results

    def _conditions(self, carry: DittoClipCarry) -> F32:
        """Conditions of the next window, (80, 1103). Beyond the end: the last row again, in `compat` at the frames that follow."""
        who, start = carry.speaker, self._start(carry)
        first_row = carry.taken - len(carry.rows)
        rows = carry.rows[start - first_row : start - first_row + SEQ_FRAMES]
        condition = Condition(self.settings.emotion, who.eye_open, who.eye_ball, who.shape)
        if self._mode == "offline":
            return padded_window(condition.rows(rows, start))
        missing = np.repeat(carry.rows[-1:], SEQ_FRAMES - len(rows), axis=0)
        return condition.rows(np.concatenate([rows, missing]), start)

    def _offline(self, carry: DittoClipCarry, track: MotionTrack) -> tuple[F32, DittoClipCarry]:
        """Give the frames that no later window and no smoothing changes any more."""
        windows = self.settings.windows
        half = windows.smooth_width // 2
        done = (carry.track.windows + 1) * windows.new_frames >= carry.frames
        stop = carry.frames if done else min(track.settled - half, carry.frames)
        if stop <= carry.next_frame:
            return _NO_FRAMES, self._after(carry, track, done)
        motion = track.final(carry.next_frame, stop, min(carry.frames, track.length))
        d0 = carry.d0 if len(carry.d0) else motion[0]
        track.forget_before(stop - half)
        return self._offsets(carry, motion, d0), replace(self._after(carry, track, done), d0=d0, next_frame=stop)

    def _compat(self, carry: DittoClipCarry, track: MotionTrack) -> tuple[F32, DittoClipCarry]:
        """Emit as the reference's online worker: nothing of the first, the new frames of later ones, the rest at the end."""
        done = not self._is_filled(carry)
        if carry.track.windows == 0:
            motion, d0 = _NO_FRAMES, track.read(0, 1)[0]
        else:
            start = SEQ_FRAMES - self.settings.windows.fuse_frames + carry.emitted
            left = carry.taken - self._start(carry)
            motion, d0 = track.read(start, left if done else self.settings.windows.new_frames), carry.d0
            track.forget_before(start + len(motion))
        offsets = self._offsets(carry, motion[: carry.frames - carry.next_frame], d0)
        if done and carry.next_frame + len(offsets) < carry.frames:  # clips of at most one block: a still face
            missing = carry.frames - carry.next_frame - len(offsets)
            last = offsets[-1:] if len(offsets) else np.zeros((1, MOTION_DIM), np.float32)
            offsets = np.concatenate([offsets, np.repeat(last, missing, axis=0)])
        after = self._after(carry, track, done)
        next_frame = carry.next_frame + len(offsets)
        return offsets, replace(after, d0=d0, emitted=carry.emitted + len(motion), next_frame=next_frame)

    def _after(self, carry: DittoClipCarry, track: MotionTrack, done: bool) -> DittoClipCarry:
        """The carry behind a window, without rows that no later window holds."""
        after = replace(carry, track=track.state(), done=done)
        if done:
            return replace(after, rows=carry.rows[:0], track=TrackState(_NO_FRAMES, 0, after.track.windows))
        first_row = carry.taken - len(carry.rows)
        return replace(after, rows=carry.rows[min(max(0, self._start(after) - first_row), len(carry.rows) - 1) :])

    def _offsets(self, carry: DittoClipCarry, motion: F32, d0: F32) -> F32:
        blinks = blink_indices(carry.seed, carry.next_frame, len(motion), carry.blink_gaps)
        return to_offsets(motion, d0, carry.speaker, blinks)
