"""Stage `motion_diffusion` of Ditto, live: feature rows -> motion offsets, one 80-frame window per hop, nothing held back.

What `low_latency` does differently from the reference's online worker:

* The silent first window is sampled at set-up, before any audio; its first frame is d0.
* A window shows its new frames at once. They cannot be blended with a later window's, so the join is fused from one side: what the
  window misses at the last frame already made is added to its new frames and fades out over them.
* Poses are smoothed by a mean over the frame and those before it, the same width as the reference's centred mean, because the frame
  after the last one does not exist yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import torch

from engines.ditto import FAMILY
from engines.ditto.motion_sampler import session_noise
from engines.motion_layout import EXP, MOTION_DIM
from engines.runtimes.protocol import Runtime
from kernels.arrays import F32
from kernels.errors import InvalidInputError, LiveAnchorError, ShapeError
from pipeline.ditto.blink_schedule import blink_indices
from pipeline.ditto.condition import Condition
from pipeline.ditto.feature_windows import HOP_FRAMES
from pipeline.ditto.motion_windows import SEQ_FRAMES, WindowSettings
from pipeline.ditto.speaker import Speaker, to_offsets
from pipeline.stages import CarryError, MotionItem, foreign_carry
from pipeline.types import FEATURE_RATE_HZ, ROWS_PER_FRAME, FeatureRows, MotionChunk

ROW_DIM: Final = 1024
SHOWN_FRAMES: Final = 2
"""Frames of shown motion that speech starts from."""
_NO_MOTION: Final = np.zeros((0, MOTION_DIM), np.float32)


@dataclass(frozen=True)
class LiveSettings:
    """How live motion is made.

    Attributes:
        hop_frames: New frames per window where the session does not ask for more, a multiple of 5, below 80.
        steps: DDIM steps.
        emotion: float32 (m, 8), one row per frame, cycled.
        reset_every: 0: windows continue from the predicted motion; n: every n-th window starts from the source.
        reset_keeps: [from, to) dims that stay predicted at a reset.
        smooth_width: Width of the mean filter on the pose; 1 or less disables it.
        limits: float32 (2, 265), bounds of the motion; None = none.
        version: Version of the weights.
    """

    emotion: F32
    hop_frames: int = HOP_FRAMES
    steps: int = 10
    reset_every: int = WindowSettings.reset_every
    reset_keeps: tuple[int, int] = WindowSettings.reset_keeps
    smooth_width: int = WindowSettings.smooth_width
    limits: F32 | None = None
    version: str = ""

    def __post_init__(self) -> None:
        if self.hop_frames % HOP_FRAMES or not HOP_FRAMES <= self.hop_frames < SEQ_FRAMES:
            raise InvalidInputError("hop_frames", str(self.hop_frames), f"a multiple of 5 from 5 to {SEQ_FRAMES - 5}")


@dataclass(frozen=True)
class DittoMotionCarry:
    """What one session carries between calls.

    Attributes:
        speaker: The avatar.
        shown: float32 (n, 265), offsets that the viewer saw last, newest last; speech starts there.
        seed: Session seed.
        next_frame: Index of the next frame to be made.
        blink_gaps: See `pipeline.ditto.blink_schedule.blink_indices`.
        hop_frames: New frames per window, a multiple of 5, the stage's own or more; 0 = the stage's own. The overlap is 80 - hop.
        history: float32 (overlap + 1, 265), the last driving motion, fused but not smoothed; empty before set-up.
            The overlap is that of the stage's own hop.
        rows: float32 (overlap, 1024), features of the frames in `history` but its first; empty before speech.
        pending: float32 (t, 1024), features at 50 Hz that do not fill a hop yet.
        d0: float32 (265,), the driving motion that means "no offset"; empty before set-up.
        windows: Windows sampled so far, the silent one included.
        finished: True after the final call.
        family: Empty until the first call.
        version: Version of the weights; empty until the first call.
        epoch: Session epoch.
    """

    speaker: Speaker
    shown: F32
    seed: int
    next_frame: int
    blink_gaps: int | tuple[int, ...] = 0
    hop_frames: int = 0
    history: F32 = field(default_factory=lambda: _NO_MOTION)
    rows: F32 = field(default_factory=lambda: np.zeros((0, ROW_DIM), np.float32))
    pending: F32 = field(default_factory=lambda: np.zeros((0, ROW_DIM), np.float32))
    d0: F32 = field(default_factory=lambda: np.zeros(0, np.float32))
    windows: int = 0
    finished: bool = False
    family: str = ""
    version: str = ""
    epoch: int = 0


Result = tuple[MotionChunk, DittoMotionCarry] | LiveAnchorError


def start_carry(
    seed: int,
    shown: F32,
    speaker: Speaker,
    blink_gaps: int | tuple[int, ...] = 0,
    first_frame: int = 0,
    epoch: int = 0,
    prepared: DittoMotionCarry | None = None,
    hop_frames: int = 0,
) -> DittoMotionCarry:
    """The carry of speech that starts now.

    Args:
        seed: Session seed, 0 <= seed < 2^64.
        shown: float32 (n, 265), n >= 1, offsets that the viewer sees, newest last.
        speaker: The avatar.
        blink_gaps: See `DittoMotionCarry`.
        first_frame: Index of the first frame to be made, since the session's start.
        epoch: Session epoch.
        prepared: The answer to a call without rows (the set-up) of this session; None makes the first call do it.
        hop_frames: See `DittoMotionCarry`.

    Raises:
        ShapeError: `shown` is not motion.
        InvalidInputError: The seed is out of range.
    """
    motion = np.atleast_2d(np.asarray(shown, np.float32))
    if motion.ndim != 2 or motion.shape[1] != MOTION_DIM or not len(motion):
        raise ShapeError("shown", str(motion.shape), f"(n, {MOTION_DIM}), n >= 1")
    if not 0 <= seed < 2**64:
        raise InvalidInputError("seed", str(seed), "0 to 2^64 - 1")
    fresh = DittoMotionCarry(speaker, motion[-SHOWN_FRAMES:], seed, first_frame, blink_gaps, hop_frames, epoch=epoch)
    if prepared is None or prepared.seed != seed:
        return fresh
    return replace(
        fresh,
        history=prepared.history,
        d0=prepared.d0,
        windows=prepared.windows,
        family=prepared.family,
        version=prepared.version,
    )


class DittoMotionDiffusion:
    """The stage.

    Args:
        runtime: Runs an `engines.ditto.motion_sampler.MotionSampler`.
        settings: How motion is made.
        silence: float32 (5, 1024), features of five frames of digital silence.
    """

    history_frames = SHOWN_FRAMES

    def __init__(self, runtime: Runtime, settings: LiveSettings, silence: F32) -> None:
        if silence.shape != (HOP_FRAMES, ROW_DIM):
            raise ShapeError("silence", str(silence.shape), f"({HOP_FRAMES}, {ROW_DIM})")
        self._runtime = runtime
        self.settings = settings
        self._overlap = SEQ_FRAMES - settings.hop_frames
        self._silence: F32 = np.tile(silence, (SEQ_FRAMES // HOP_FRAMES, 1))

    @property
    def hop_frames(self) -> int:
        """New frames per window."""
        return self.settings.hop_frames

    def step(
        self, rows: FeatureRows, carry: DittoMotionCarry, final: bool = False
    ) -> tuple[MotionChunk, DittoMotionCarry]:
        """Take more rows, give all frames of the hops that they complete.

        Args:
            rows: Consecutive rows at 50 Hz, (t, 1024), t >= 0. Without rows the first call only does the set-up.
            carry: From `start_carry` or the call before.
            final: No more rows follow: the last hop is filled up by its last row and its motion cut to ceil(rows / 2) frames.

        Returns:
            Offsets float32 (n, 265), n possibly 0, and the next carry.

        Raises:
            CarryError: The carry is of another model, finished, or the rows do not continue it.
            ShapeError: Rows of another width.
        """
        result = self.steps([MotionItem(rows, carry, final)])[0]
        if isinstance(result, LiveAnchorError):
            raise result
        return result

    def steps(self, items: Sequence[MotionItem[DittoMotionCarry]]) -> list[Result]:
        """`step` for several sessions at once: windows share network calls, a bad item fails alone.

        Batched results equal single ones up to float32 rounding.
        """
        faults = [self._fault(item) for item in items]
        carries = [item.carry for item in items]
        good = [i for i, fault in enumerate(faults) if fault is None]
        for i, carry in zip(good, self._set_up([carries[i] for i in good]), strict=True):
            carries[i] = self._take_rows(carry, items[i])
        made: list[list[F32]] = [[_NO_MOTION] for _ in items]
        while active := [i for i in good if self._has_hop(carries[i], items[i].final)]:
            for i, (offsets, carry) in zip(active, self._run([carries[i] for i in active]), strict=True):
                made[i].append(offsets)
                carries[i] = carry
        results: list[Result] = []
        for i, item in enumerate(items):
            chunk = MotionChunk(np.concatenate(made[i]), item.carry.next_frame)
            results.append(faults[i] or (chunk, replace(carries[i], finished=item.final)))
        return results

    def probe(self, sessions: int = 1) -> None:
        """Sample one window of silence, to see that everything works.

        Args:
            sessions: Sessions whose windows share the call.

        Raises:
            LiveAnchorError: It does not.
        """
        zeros = np.zeros((1, 6), np.float32)
        speaker = Speaker(
            source=np.zeros(MOTION_DIM, np.float32),
            shape=np.zeros(63, np.float32),
            eye_open=zeros[:, :2],
            eye_ball=zeros,
            drive=np.ones(MOTION_DIM, np.float32),
            blink=np.zeros((0, 63), np.float32),
        )
        rows = FeatureRows(self._silence[:0], FEATURE_RATE_HZ, 0)
        carry = start_carry(0, np.zeros((1, MOTION_DIM), np.float32), speaker)
        for outcome in self.steps([MotionItem(rows, carry)] * sessions):
            if isinstance(outcome, LiveAnchorError):
                raise outcome

    def _fault(self, item: MotionItem[DittoMotionCarry]) -> LiveAnchorError | None:
        carry, rows = item.carry, item.rows
        if not isinstance(carry, DittoMotionCarry):
            return foreign_carry(carry, FAMILY)
        if carry.family and (carry.family, carry.version) != (FAMILY, self.settings.version):
            return CarryError("carry", f"{carry.family} {carry.version}", f"{FAMILY} {self.settings.version}")
        if len(carry.history) not in (0, self._overlap + 1):
            return CarryError("carry.history", f"{len(carry.history)} frames", f"{self._overlap + 1}")
        if (hop := self._hop(carry)) % HOP_FRAMES or not self.hop_frames <= hop < SEQ_FRAMES:
            allowed = f"a multiple of {HOP_FRAMES} from {self.hop_frames} to {SEQ_FRAMES - HOP_FRAMES}"
            return CarryError("carry.hop_frames", str(hop), allowed)
        if carry.finished:
            return CarryError("carry", "a finished stream", "a carry from start_carry")
        if not len(rows.rows):
            return None
        if rows.rows.ndim != 2 or rows.rows.shape[1] != ROW_DIM:
            return ShapeError("rows", str(rows.rows.shape), f"(t, {ROW_DIM})")
        expected = carry.next_frame * ROWS_PER_FRAME + len(carry.pending)
        if rows.first_row != expected:
            return CarryError("rows.first_row", str(rows.first_row), str(expected))
        return None

    def _set_up(self, carries: Sequence[DittoMotionCarry]) -> list[DittoMotionCarry]:
        """Sample the silent window of those sessions that have not had it."""
        ready = list(carries)
        new = [i for i, carry in enumerate(carries) if not carry.windows]
        if new:
            silent = [(c, c.speaker.source, self._silence, -SEQ_FRAMES) for c in (carries[i] for i in new)]
            for i, motion in zip(new, self._sample(silent), strict=True):
                ready[i] = replace(
                    carries[i],
                    history=motion[-self._overlap - 1 :].copy(),
                    d0=self._limited(motion[:1])[0],
                    windows=1,
                    family=FAMILY,
                    version=self.settings.version,
                )
        return ready

    def _take_rows(self, carry: DittoMotionCarry, item: MotionItem[DittoMotionCarry]) -> DittoMotionCarry:
        """Append the new rows; before the first ones lies silence, and motion goes on from what the viewer sees."""
        if not len(item.rows.rows):
            return carry
        if not len(carry.rows):
            seen = carry.shown[-SHOWN_FRAMES:] + carry.d0
            history = carry.history.copy()
            history[-len(seen) :] = seen
            carry = replace(carry, rows=self._silence[: self._overlap], history=history)
        return replace(carry, pending=np.concatenate([carry.pending, item.rows.rows]).astype(np.float32))

    def _has_hop(self, carry: DittoMotionCarry, final: bool) -> bool:
        waiting = len(carry.pending)
        return waiting >= self._hop(carry) * ROWS_PER_FRAME or (final and waiting > 0)

    def _run(self, carries: Sequence[DittoMotionCarry]) -> list[tuple[F32, DittoMotionCarry]]:
        """Sample one hop of each session."""
        hops = [self._next_rows(carry) for carry in carries]
        overlaps = [SEQ_FRAMES - self._hop(carry) for carry in carries]
        windows = [
            (c, self._condition_frame(c), np.concatenate([c.rows[-overlap:], rows]), c.next_frame - overlap)
            for c, (rows, _), overlap in zip(carries, hops, overlaps, strict=True)
        ]
        results = []
        for carry, (rows, used), overlap, motion in zip(carries, hops, overlaps, self._sample(windows), strict=True):
            fused = motion[overlap:] + (carry.history[-1] - motion[overlap - 1]) * _fade(SEQ_FRAMES - overlap)
            kept = fused[: -(-used // ROWS_PER_FRAME)].astype(np.float32)
            after = replace(
                carry,
                history=np.concatenate([carry.history, kept])[-self._overlap - 1 :],
                rows=np.concatenate([carry.rows, rows])[-self._overlap :],
                pending=carry.pending[used:],
                next_frame=carry.next_frame + len(kept),
                windows=carry.windows + 1,
            )
            results.append((self._offsets(carry, kept), after))
        return results

    def _hop(self, carry: DittoMotionCarry) -> int:
        return carry.hop_frames or self.hop_frames

    def _next_rows(self, carry: DittoMotionCarry) -> tuple[F32, int]:
        """Features of the next hop's frames, (hop, 1024), and how many 50 Hz rows they use up."""
        hop = self._hop(carry)
        wanted = hop * ROWS_PER_FRAME
        rows = carry.pending[:wanted]
        filled = np.concatenate([rows, np.repeat(rows[-1:], wanted - len(rows), axis=0)])
        return filled.reshape(hop, ROWS_PER_FRAME, ROW_DIM).mean(axis=1).astype(np.float32), len(rows)

    def _condition_frame(self, carry: DittoMotionCarry) -> F32:
        settings = self.settings
        predicted: F32 = carry.history[self._hop(carry) - SEQ_FRAMES - 1]
        if not settings.reset_every or carry.windows % settings.reset_every:
            return predicted
        kept = slice(*settings.reset_keeps)
        condition = carry.speaker.source.copy()
        condition[kept] = predicted[kept]
        return condition

    def _sample(self, windows: Sequence[tuple[DittoMotionCarry, F32, F32, int]]) -> F32:
        """Windows (carry, condition frame, features, first frame) -> motion float32 (B, 80, 265)."""
        conditions = []
        for carry, _, rows, first_frame in windows:
            who = carry.speaker
            condition = Condition(self.settings.emotion, who.eye_open, who.eye_ball, who.shape)
            conditions.append(condition.rows(rows, first_frame))
        noise = [session_noise(c.seed, _noise_window(c), self.settings.steps) for c, *_ in windows]
        motion = self._runtime.run(
            torch.from_numpy(np.stack([frame for _, frame, _, _ in windows])),
            torch.from_numpy(np.stack(conditions)),
            torch.stack(noise),
        )
        return np.asarray(motion.float().cpu().numpy(), np.float32)

    def _offsets(self, carry: DittoMotionCarry, motion: F32) -> F32:
        """New driving motion as offsets: smoothed, limited, relative to d0, with the canned blink."""
        count, width = len(motion), min(self.settings.smooth_width, len(carry.history) + 1)
        smoothed = motion.copy()
        if width > 1:
            pose = slice(0, EXP.start)
            past = np.concatenate([carry.history[-(width - 1) :], motion])[:, pose]
            smoothed[:, pose] = np.stack([past[i : i + width].mean(axis=0) for i in range(count)])
        blinks = blink_indices(carry.seed, carry.next_frame, count, carry.blink_gaps)
        return to_offsets(self._limited(smoothed), carry.d0, carry.speaker, blinks)

    def _limited(self, motion: F32) -> F32:
        limits = self.settings.limits
        bounded: F32 = motion if limits is None else np.clip(motion, limits[0], limits[1])
        return bounded


def _noise_window(carry: DittoMotionCarry) -> int:
    """0 for the silent window; otherwise by frame, so that two utterances of a session differ."""
    return 0 if not carry.windows else carry.next_frame + 1


def _fade(frames: int) -> F32:
    """Falling weights (frames, 1): the residual at a join, gone after at most 5 frames."""
    ramp = 1.0 - np.arange(1, HOP_FRAMES + 1, dtype=np.float32) / (HOP_FRAMES + 1)
    weights = np.zeros(frames, np.float32)
    weights[:HOP_FRAMES] = ramp
    return weights[:, None]
