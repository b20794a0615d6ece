"""Stage `motion_diffusion`: feature rows -> motion at 25 frames/s, one window per hop.

A window is the last `past` frames of motion, which are known, and `hop_frames` new ones. Noise is a function of (seed, frame
index), so any replica continues any session. What is shown of a window is held to the speed of jaw and lips
(`engines.mini.articulator_speed`); what the next window is conditioned on is the model's own motion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from engines.diffusion import window_noise
from engines.mini.articulator_speed import limit_speed
from engines.motion_layout import MOTION_DIM
from engines.runtimes.protocol import Runtime
from kernels.arrays import F32
from kernels.errors import InvalidInputError, LiveAnchorError, ShapeError
from pipeline.mini.breath import BREATH_COLUMN, breath_after
from pipeline.session.blink_cue import blink_cue
from pipeline.stages import CarryError, MotionItem, foreign_carry
from pipeline.types import FEATURE_RATE_HZ, ROWS_PER_FRAME, FeatureRows, MotionChunk


@dataclass(frozen=True)
class MotionShape:
    """Facts about a motion model.

    Attributes:
        seq_frames: Window length in frames.
        row_dim: Width of a feature row.
        steps: DDIM steps.
        dofs: Degrees of freedom that noise is drawn in.
        silence_row: float32 (row_dim,), the encoder's row for digital silence.
        family: Family of the model.
        version: Version of its weights.
    """

    seq_frames: int
    row_dim: int
    steps: int
    dofs: int
    silence_row: F32
    family: str
    version: str


@dataclass(frozen=True)
class MotionCarry:
    """What one session carries between calls.

    Attributes:
        history: float32 (n, 265), the last frames of motion, newest last, n >= 1.
        rows: float32 (t, row_dim), rows of the frames in `history`'s window and rows not yet used; (0, 0) at the start.
        pending: How many of `rows` are not yet used.
        next_frame: Index of the next frame to be made.
        seed: Session seed: head motion and blinks are functions of it and of the frame index.
        finished: True after the final call.
        family: Family of the model; empty until the first call.
        version: Version of its weights; empty until the first call.
        epoch: Session epoch.
        hop_frames: New frames per window of this stream; 0: the stage's own.
        shown: float32 (265,), the last frame as it was shown; None until the first window, when it is the last of `history`.
    """

    history: F32
    rows: F32
    pending: int
    next_frame: int
    seed: int
    finished: bool = False
    family: str = ""
    version: str = ""
    epoch: int = 0
    hop_frames: int = 0
    shown: F32 | None = None


def initial_carry(seed: int, history: F32, first_frame: int = 0, epoch: int = 0, hop_frames: int = 0) -> MotionCarry:
    """The carry of speech that starts now, out of a pose that the viewer already sees.

    Args:
        seed: Session seed, 0 <= seed < 2^64.
        history: float32 (n, 265) or (265,), the motion shown so far, newest last; fewer frames than the model wants are
            extended by repeating the oldest.
        first_frame: Index of the first frame to be made, since the session's start.
        epoch: Session epoch.
        hop_frames: New frames per window; 0: the stage's own.

    Raises:
        ShapeError: `history` is not motion.
        InvalidInputError: The seed or the frame index is out of range.
    """
    motion = np.atleast_2d(np.asarray(history, dtype=np.float32))
    if motion.ndim != 2 or motion.shape[1] != MOTION_DIM or not len(motion):
        raise ShapeError("history", str(motion.shape), f"(n, {MOTION_DIM}), n >= 1")
    if not 0 <= seed < 2**64:
        raise InvalidInputError("seed", str(seed), "0 to 2^64 - 1")
    if first_frame < 0:
        raise InvalidInputError("first_frame", str(first_frame), "0 or more")
    return MotionCarry(motion, np.zeros((0, 0), np.float32), 0, first_frame, seed, epoch=epoch, hop_frames=hop_frames)


class MotionDiffusion:
    """The stage.

    Args:
        runtime: Runs a `engines.mini.window_sampler.WindowSampler`.
        shape: Facts about its model.
        hop_frames: New frames per window where a carry does not say otherwise; the others are known.
    """

    def __init__(self, runtime: Runtime, shape: MotionShape, hop_frames: int = 8) -> None:
        if not 1 <= hop_frames < shape.seq_frames:
            raise InvalidInputError("hop_frames", str(hop_frames), f"1 to {shape.seq_frames - 1}")
        self._runtime = runtime
        self.shape = shape
        self.hop_frames = hop_frames

    @property
    def history_frames(self) -> int:
        """Frames of past motion that a window is conditioned on."""
        return self.shape.seq_frames - self.hop_frames + 1

    def probe(self, sessions: int = 1) -> None:
        """Sample one window of silence, to see that everything works.

        Args:
            sessions: Sessions whose windows share the call.

        Raises:
            LiveAnchorError: It does not.
        """
        rows = np.repeat(self.shape.silence_row[None], self.hop_frames * ROWS_PER_FRAME, axis=0)
        carry = initial_carry(seed=0, history=np.zeros((1, MOTION_DIM), np.float32))
        for outcome in self.steps([MotionItem(FeatureRows(rows, FEATURE_RATE_HZ, 0), carry)] * sessions):
            if isinstance(outcome, LiveAnchorError):
                raise outcome

    def step(self, rows: FeatureRows, carry: MotionCarry, final: bool = False) -> tuple[MotionChunk, MotionCarry]:
        """Take more rows, give all frames of the windows that they complete.

        Args:
            rows: Consecutive rows, (t, row_dim), t >= 0.
            carry: From `initial_carry` or the call before.
            final: No more rows follow: the last window is filled up with silence and its motion cut to ceil(rows / 2) frames.

        Returns:
            Motion float32 (n, 265), n possibly 0, and the next carry.

        Raises:
            CarryError: The carry is of another model, finished, or the rows do not continue it.
            ShapeError: Rows of another width.
        """
        result = self.steps([MotionItem(rows, carry, final)])[0]
        if isinstance(result, LiveAnchorError):
            raise result
        return result

    def steps(
        self, items: Sequence[MotionItem[MotionCarry]]
    ) -> list[tuple[MotionChunk, MotionCarry] | LiveAnchorError]:
        """`step` for several sessions at once: windows share network calls, a bad item fails alone.

        Batched results equal single ones up to float32 rounding.
        """
        results: list[tuple[MotionChunk, MotionCarry] | LiveAnchorError] = []
        carries: list[MotionCarry] = []
        for item in items:
            fault = self._fault(item)
            carries.append(item.carry if fault else self._take_rows(item))
            results.append(
                fault or (MotionChunk(np.zeros((0, MOTION_DIM), np.float32), item.carry.next_frame), carries[-1])
            )
        made: list[list[F32]] = [[] for _ in items]
        while active := [i for i, item in enumerate(items) if self._has_window(results[i], carries[i], item.final)]:
            for hop in sorted({self._hop(carries[i]) for i in active}):
                group = [i for i in active if self._hop(carries[i]) == hop]
                for i, motion in zip(group, self._sample([carries[i] for i in group], hop), strict=True):
                    kept, carries[i] = self._advance(carries[i], motion)
                    made[i].append(kept)
        for i, item in enumerate(items):
            if not isinstance(results[i], LiveAnchorError):
                motion = np.concatenate(made[i]) if made[i] else np.zeros((0, MOTION_DIM), np.float32)
                after = replace(carries[i], finished=item.final)
                results[i] = (MotionChunk(motion, item.carry.next_frame), after)
        return results

    def _fault(self, item: MotionItem[MotionCarry]) -> LiveAnchorError | None:
        carry, rows = item.carry, item.rows
        if not isinstance(carry, MotionCarry):
            return foreign_carry(carry, self.shape.family)
        mine = (self.shape.family, self.shape.version)
        if carry.family and (carry.family, carry.version) != mine:
            return CarryError("carry", f"{carry.family} {carry.version}", " ".join(mine))
        if carry.finished:
            return CarryError("carry", "a finished stream", "a carry from initial_carry")
        if not 1 <= self._hop(carry) < self.shape.seq_frames:
            return CarryError("carry.hop_frames", str(carry.hop_frames), f"1 to {self.shape.seq_frames - 1}")
        if rows.rows.ndim != 2 or rows.rows.shape[1] != self.shape.row_dim:
            return ShapeError("rows", str(rows.rows.shape), f"(t, {self.shape.row_dim})")
        expected = carry.next_frame * ROWS_PER_FRAME + carry.pending
        if len(rows.rows) and rows.first_row != expected:
            return CarryError("rows.first_row", str(rows.first_row), str(expected))
        return None

    def _hop(self, carry: MotionCarry) -> int:
        """New frames per window of this stream."""
        return carry.hop_frames or self.hop_frames

    def _take_rows(self, item: MotionItem[MotionCarry]) -> MotionCarry:
        """Append the new rows; at the start, put silence before them and complete the history."""
        carry, shape = item.carry, self.shape
        rows, history = carry.rows, carry.history
        past = shape.seq_frames - self._hop(carry)
        if not carry.family:
            rows = np.repeat(shape.silence_row[None], past * ROWS_PER_FRAME, axis=0)
        missing = past + 1 - len(history)
        if missing > 0:
            history = np.concatenate([np.repeat(history[:1], missing, axis=0), history])
        return replace(
            carry,
            history=history[-(past + 1) :],
            rows=np.concatenate([rows, item.rows.rows]).astype(np.float32),
            pending=carry.pending + len(item.rows.rows),
            family=shape.family,
            version=shape.version,
        )

    def _has_window(
        self, result: tuple[MotionChunk, MotionCarry] | LiveAnchorError, carry: MotionCarry, final: bool
    ) -> bool:
        if isinstance(result, LiveAnchorError):
            return False
        return carry.pending >= self._hop(carry) * ROWS_PER_FRAME or (final and carry.pending > 0)

    def _sample(self, carries: Sequence[MotionCarry], hop_frames: int) -> F32:
        """Sample one window of each session: (B, hop_frames, 265)."""
        shape = self.shape
        past = shape.seq_frames - hop_frames
        window_rows = shape.seq_frames * ROWS_PER_FRAME
        conditions = []
        for carry in carries:
            rows = carry.rows[:window_rows]
            fill = np.repeat(shape.silence_row[None], window_rows - len(rows), axis=0)
            per_frame = np.concatenate([rows, fill]).reshape(shape.seq_frames, ROWS_PER_FRAME * shape.row_dim)
            cue = blink_cue(carry.seed, carry.next_frame - past, shape.seq_frames)
            conditions.append(np.concatenate([per_frame, cue[:, None]], axis=1))
        noise = torch.stack(
            [window_noise(c.seed, c.next_frame, (shape.steps, hop_frames, shape.dofs)) for c in carries]
        )
        shown = np.stack([carry.history for carry in carries])
        shown[..., BREATH_COLUMN] = 0.0  # the networks know nothing of breath
        history = torch.from_numpy(shown)
        cond = torch.from_numpy(np.stack(conditions).astype(np.float32))
        return np.asarray(self._runtime.run(history, cond, noise).float().cpu().numpy(), dtype=np.float32)

    def _advance(self, carry: MotionCarry, motion: F32) -> tuple[F32, MotionCarry]:
        """Take one window's motion: what is shown of it, and the carry after it."""
        used = min(self._hop(carry) * ROWS_PER_FRAME, carry.pending)
        kept = motion[: -(-used // ROWS_PER_FRAME)]
        before = carry.history[-1] if carry.shown is None else carry.shown
        shown = limit_speed(before, kept)
        shown[:, BREATH_COLUMN] = breath_after(before[BREATH_COLUMN], carry.seed, carry.next_frame, len(kept))
        after = replace(
            carry,
            history=np.concatenate([carry.history, kept])[-len(carry.history) :],
            rows=carry.rows[used:],
            pending=carry.pending - used,
            next_frame=carry.next_frame + len(kept),
            shown=shown[-1],
        )
        return shown, after
